"""The stage environments as the workflow makes them: with bytecode, and safe to fork from."""

from __future__ import annotations

import pytest

from tests.checkouts import ENVIRONMENTS, in_environment

IMPORTED = {"torch-mlir": "torch_mlir.extras.fx_importer", "torch-xla": "torch_xla.stablehlo", "iree": "iree.runtime"}  # fmt: skip

# Optional parts that no stage uses: integrations of other packages, drawings, printed tables, examples of docstrings.
NOT_NEEDED = {"dill", "einops", "foo", "jax", "matplotlib", "optree", "pydot", "tabulate", "torch_xla", "torchrec", "tvm"}  # fmt: skip


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_packages_are_imported_from_bytecode_and_start_no_thread(environments, env):
    found = in_environment(
        environments / env / "bin" / "python", "preload_in_environment", fork=False
    )
    assert found["problems"] == []
    assert IMPORTED[env] in found["loaded"]
    assert found["no_bytecode"] == []
    assert found["threads"] == 1, "a process with more is not forked: every stage starts by itself"


@pytest.mark.release
@pytest.mark.parametrize("env", ["torch-mlir", "torch-xla"])
def test_what_only_rare_paths_of_a_capture_import_is_there_too(environments, env):
    python = environments / env / "bin" / "python"
    missing = in_environment(python, "missing_imports_in_environment", fork=False)
    assert {name: file for name, file in missing.items() if name not in NOT_NEEDED} == {}
