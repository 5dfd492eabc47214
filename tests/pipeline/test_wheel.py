"""A wheel of the project, installed into an environment of its own: the command works in any folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.core import checkout
from scripts.run import environments as pinned
from scripts.run import installing
from tests.checkouts import ENVIRONMENTS, LIMITS, QUICK, ROOT, Checkout, environment

SHIPPED = ("Snakefile", "config.yaml", "envs", "models", "scripts", "workflow")
PARTS = "vmfbench/_workflow/"
MODEL = """
import torch
import beside

def get_model():
    return torch.nn.Linear(beside.WIDTH, 8)

def get_dummy_input(batch_size=1):
    return torch.randn(batch_size, beside.WIDTH)
"""
LINE = ("run", "mine.py", "conv", "--frontends", "torchmlir-stablehlo", "--targets", "llvm-cpu", "--baselines", "eager")  # fmt: skip


@pytest.fixture(scope="module")
def wheel(make_checkout) -> Path:
    """The wheel of this project with a configuration whose runs are short."""
    folder = make_checkout("source", measure=QUICK).path
    before = {*folder.rglob("*")}
    subprocess.run([installing.uv(), "build", "--quiet", folder], check=True)
    [file] = folder.glob("dist/*.whl")
    left = {*folder.rglob("*")} - before
    assert {path.relative_to(folder).parts[0] for path in left} == {"dist"}
    return file


@pytest.fixture(scope="module")
def installed(wheel, environments, machine_limits, tmp_path_factory) -> Checkout:
    """A folder with a model file beside a virtual environment with the wheel, which takes the environments of these tests."""
    folder = tmp_path_factory.mktemp("installed")
    uv = [installing.uv(), "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    subprocess.run([*uv, "pip", "install", "--python", python, wheel], check=True)
    mine = folder / "mine"
    for env in ENVIRONMENTS:
        link = folder / "envs" / pinned.pins_digest(env) / env
        link.parent.mkdir(parents=True)
        link.symlink_to(environments / env)
        record = shutil.copytree(ROOT / "results/env" / env, mine / "results/env" / env)
        # Without this file, the limits would be measured again.
        shutil.copy2(environments / env / "versions.json", record)
    shutil.copytree(machine_limits, mine / LIMITS)
    (mine / "mine.py").write_text(MODEL)
    (mine / "beside.py").write_text("WIDTH = 16\n")
    return Checkout(mine, {checkout.ENVIRONMENTS: str(folder / "envs")})


def said(here: Checkout, program: str, *words: str) -> str:
    """What a program of the environment with the wheel says in the folder."""
    done = subprocess.run(
        [here.path.parent / "venv/bin" / program, *words],
        cwd=here.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=environment() | here.variables,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_the_wheel_has_one_package_with_every_file_of_the_workflow(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
    packed = {name.removeprefix(PARTS) for name in names if name.startswith(PARTS)}
    assert len(names) - len(packed) == 1  # vmfbench/__init__.py
    listed = subprocess.run(
        ["git", "ls-files", *SHIPPED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert files - packed == set()
    assert {name.partition("/")[0] for name in packed - files} == {"docs", "profiles"}


@pytest.mark.release
def test_no_other_package_sees_its_modules(installed):
    code = "import importlib.util as u; print([n for n in ('scripts', 'models', 'tests') if u.find_spec(n)])"
    assert said(installed, "python", "-P", "-c", code) == "[]\n"


@pytest.mark.release
def test_a_model_file_and_a_shipped_model_are_measured_in_any_folder(installed):
    def code() -> set[Path]:
        files = (installed.path.parent / "venv/lib").rglob("*")
        return {path for path in files if path.suffix != ".pyc" and path.name != "__pycache__"}

    before = code()
    assert "results: results/latency.csv" in said(installed, "vmfbench", *LINE)
    rows = {(r["model"], r["runtime"]): (r["status"], r["verification_code"], bool(r["latency_ms"])) for r in installed.rows()}  # fmt: skip
    assert rows == {(m, r): ("ok", "PASS", True) for m in ("mine", "conv") for r in ("iree", "eager")}  # fmt: skip
    assert code() == before
    there = {path.name for path in installed.path.iterdir()} - {"__pycache__"}
    assert there == {".snakemake", "beside.py", "mine.py", "results"}
    assert "Nothing to be done" in said(installed, "vmfbench", *LINE)


@pytest.mark.release
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["failed"], "0 failed stages"),
        (["bundle", "mine/torchmlir-stablehlo/llvm-cpu"], "bundles"),
        ([*LINE, "--make", "results/report.html"], "report.html"),
    ],
)
def test_the_other_verbs_work_on_its_results(installed, words, says):
    assert says in said(installed, "vmfbench", *words)
