"""The stage environments as the workflow makes them: with bytecode, and safe to fork from."""

from __future__ import annotations

import pytest

from tests.checkouts import ENVIRONMENTS, in_environment

IMPORTED = {"torch-mlir": "torch_mlir.extras.fx_importer", "torch-xla": "torch_xla.stablehlo", "iree": "iree.runtime"}  # fmt: skip


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_packages_are_imported_from_bytecode_and_start_no_thread(environments, env):
    found = in_environment(
        environments / env / "bin" / "python", "preload_in_environment", fork=False
    )
    assert found["problems"] == []
    assert IMPORTED[env] in found["loaded"]
    assert found["no_bytecode"] == []
    assert found["threads"] == 1, "a process with more is not forked: every stage starts by itself"
