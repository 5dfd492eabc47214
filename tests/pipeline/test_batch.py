"""Many programs in one process of IREE's compiler, each with a module and an outcome of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from scripts.core.requests import StageRequest
from scripts.iree.backends import BACKENDS, compile_flags, unused_plugins
from scripts.iree.tools import program
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, ProblemEnd
from scripts.tools.operators.batch import batch_stage
from scripts.tools.operators.batch.batch_stage import Batch
from scripts.tools.operators.problems.problem import PROGRAM, Problem
from tests.checkouts import in_environment

ROOT = Path(__file__).parents[2]
TIMES = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {{
  %factor = stablehlo.constant dense<{}.0> : tensor<4xf32>
  %0 = stablehlo.multiply %arg0, %factor : tensor<4xf32>
  return %0 : tensor<4xf32>
}}
"""
REFUSED = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @nobody_knows(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
FLOAT64 = """\
func.func @main(%arg0: tensor<4xf64>) -> tensor<4xf64> {
  %0 = arith.addf %arg0, %arg0 : tensor<4xf64>
  return %0 : tensor<4xf64>
}
"""
DEPTH = 6000
DEEP = f"""\
func.func @main(%arg0: tensor<4xf32>, %c: i1) -> tensor<4xf32> {{
{"scf.if %c {" * DEPTH}{"}" * DEPTH}
return %arg0 : tensor<4xf32>
}}
"""
"""The parser of the compiler has no stack left, and crashes."""
CONSTANT = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = stablehlo.exponential %0 : tensor<4xf32>
  %2 = stablehlo.multiply %arg0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""
"""A program with a value that the compiler computes (constant evaluation)."""
PROGRAMS = {"twice": TIMES.format(2), "deep": DEEP, "refused": REFUSED, "again": TIMES.format(2), "thrice": TIMES.format(3), "wide": FLOAT64}  # fmt: skip


@pytest.fixture(scope="module")
def iree(environments) -> Path:
    return environments / "iree/bin"


def compiled(folder: Path, python: Path, flags: list[str]) -> dict[str, ProblemEnd]:
    """Compile PROGRAMS as one batch; return the outcomes by name."""
    before = folder / "results/operator_export/0/paths/outcomes.jsonl"
    problems = {name: Problem(f"aten.{name}.default", "((), {})") for name in PROGRAMS}
    for name, problem in problems.items():
        source = before.parent / problem.name / PROGRAM
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(PROGRAMS[name])
    ended = [ProblemEnd(p.name, Outcome("ok", "operator_export", p.name)) for p in problems.values()]  # fmt: skip
    outcome.write_problem_ends(before, ended)
    own = folder / "results/operator_compile/0/paths/llvm-cpu"
    fields = {"backend": "llvm-cpu", "arch": None, "opt_level": None, "flags": flags}
    job = Job(
        "operator_compile",
        "0/paths/llvm-cpu",
        own / "status.json",
        own / "log.txt",
        command=(),
        request=StageRequest("scripts.tools.operators.compile_operators", str(python), fields),
        timeout_s=120,
        memory_mb=8000,
        artifacts=[own / "outcomes.jsonl"],
        owner=os.getppid(),
    )
    batch = Batch([*problems.values()], {"operator_export": before}, again=lambda _: False)
    supervise.run(job, batch_stage.work(batch))
    found = outcome.read_problem_ends(job.artifacts[0])
    return {name: found[problem.name] for name, problem in problems.items()}


@pytest.fixture(scope="module")
def ended(iree, tmp_path_factory) -> dict[str, ProblemEnd]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("batch")
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        return compiled(folder, iree / "python", [])


def test_each_program_ends_as_by_itself(ended):
    found = {name: (line.outcome.status, line.outcome.reason) for name, line in ended.items()}
    assert found == dict.fromkeys(ended, ("ok", "")) | {
        "refused": ("unsupported", "legalization"),
        "deep": ("crashed", "SIGSEGV"),
    }
    assert "[program.mlir:2: %0 = stablehlo.custom_call @nobody_knows" in ended["refused"].outcome.detail  # fmt: skip


def test_the_log_of_a_failure_has_the_command_of_the_compiler_and_what_it_says(ended):
    log = Path(ended["refused"].outcome.log).read_text()
    assert log.startswith("# iree-compile --iree-hal-target-device=local ")
    assert "failed to legalize operation 'stablehlo.custom_call'" in log
    assert "MLIR Parser: custom op parser 'scf.if'" in Path(ended["deep"].outcome.log).read_text()


def test_the_same_program_is_compiled_once(ended):
    cached = {name: line.result.get("cached") for name, line in ended.items()}
    assert cached == {"twice": False, "again": True, "thrice": False, "wide": False, "deep": None, "refused": None}  # fmt: skip


def test_a_flag_that_the_compiler_does_not_know_is_the_outcome_of_all(iree, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = compiled(tmp_path, iree / "python", ["--no-such-flag"])
    assert {line.outcome.reason for line in found.values()} == {"bad-flag"}


def test_each_module_computes_its_own_program(ended, iree):
    case = {name: ended[name].result["module"] for name in ("twice", "again", "thrice")}
    found = in_environment(iree / "python", "batch_in_iree", "call", case=case)
    assert found == {"twice": [0, 2, 4, 6], "again": [0, 2, 4, 6], "thrice": [0, 3, 6, 9]}


def test_a_session_has_the_threads_that_it_was_given_also_after_the_device_was_asked(ended, iree):
    case = (ended["twice"].result["module"], 1)
    assert in_environment(iree / "python", "batch_in_iree", "workers", case=case) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_is_the_same_to_the_byte_without_unused_plugins(backend, iree, tmp_path):
    source = tmp_path / "program.mlir"
    source.write_text(CONSTANT)
    flags = compile_flags(backend, None, None, ())
    for name, more in (("all", []), ("few", unused_plugins(flags, CONSTANT))):
        command = [str(program("iree-compile", iree.parent)), *flags, *more, str(source), "-o"]
        subprocess.run([*command, str(tmp_path / name)], check=True)
    assert (tmp_path / "all").read_bytes() == (tmp_path / "few").read_bytes()
