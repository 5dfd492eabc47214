"""The driver on another Python than the one that runs these tests: a run, and the unit tests of what reads its settings and rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.checkouts import EAGER, ON_CPU, QUICK, ROOT, environment, keep_models

pytestmark = pytest.mark.release

OTHER = "3.13" if sys.version_info < (3, 13) else "3.12"
UNIT = ("config", "plan", "record", "comparison", "process", "fork_server")


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The interpreter of a driver's environment that README's line makes of another Python."""
    folder = tmp_path_factory.mktemp("driver")
    uv = [find_uv_bin(), "--quiet"]
    made = subprocess.run(
        [*uv, "venv", "--no-python-downloads", "--python", OTHER, folder / "venv"],
        capture_output=True,
        text=True,
        check=False,
        # The names that pyenv puts on PATH are interpreters only of the version that it is told.
        env=environment() | {"PYENV_VERSION": OTHER},
    )
    if made.returncode:
        pytest.skip(f"no Python {OTHER}: {made.stderr.strip()}")
    interpreter = folder / "venv/bin/python"
    files = [word for name in ("", "-dev") for word in ("-r", ROOT / f"requirements{name}.txt")]
    subprocess.run([*uv, "pip", "install", "--python", interpreter, *files], check=True, cwd=ROOT)
    return interpreter


def run(python: Path, folder: Path, *words: str) -> str:
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [python, "-m", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=environment() | {"PATH": path},
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_a_driver_of_another_python_verifies_and_times(make_checkout, python):
    checkout = make_checkout(
        "other-python", models={}, targets=ON_CPU, baselines=EAGER, measure=QUICK
    )
    keep_models(checkout, "conv")
    run(python, checkout.path, "snakemake", "--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo")  # fmt: skip
    rows = {(row["runtime"], row["status"], row["verification_code"]) for row in checkout.rows()}
    assert rows == {("iree", "ok", "PASS"), ("eager", "ok", "PASS")}
    assert all(row["latency_ms"] for row in checkout.rows())


def test_its_unit_tests_pass(python):
    files = [f"tests/unit/test_{name}.py" for name in UNIT]
    assert " passed" in run(python, ROOT, "pytest", "-q", "-n0", "-p", "no:cacheprovider", *files)
