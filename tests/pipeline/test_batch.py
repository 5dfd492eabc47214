"""Many programs in one module, with IREE's parser, compiler and runtime."""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from scripts.core import process
from scripts.iree.backends import BACKENDS, compile_flags, unused_plugins
from scripts.iree.compile_cache import CompileCache
from scripts.iree.tools import program
from scripts.supervise.job import Job
from scripts.supervise.outcome import ProblemEnd
from scripts.tools.operators.batch.batch_program import Program
from scripts.tools.operators.batch.together import Compilation
from tests.checkouts import end_forks, in_environment

TIMES = """\
module {{
  func.func public @forward(%arg0: tensor<4xf32>) -> tensor<4xf32> {{
    %factor = stablehlo.constant dense<{number}.0> : tensor<4xf32>
    %0 = func.call @helper(%arg0, %factor) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
  func.func {visibility} @helper(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {{
    %{name} = stablehlo.multiply %a, %b : tensor<4xf32> loc("{name}.py":3:4)
    return %{name} : tensor<4xf32>
  }}
}}
"""
REFUSED = """\
module {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @nobody_knows(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
BROADCAST = """\
#map = affine_map<(d0) -> (d0)>
module attributes {torch.debug_module_name = "m"} {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = tensor.empty() : tensor<4xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg0 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %2 = arith.addf %in, %in : f32
      linalg.yield %2 : f32
    } -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""
CONSTANT = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = stablehlo.exponential %0 : tensor<4xf32>
  %2 = stablehlo.multiply %arg0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""
"""A program with a value that the compiler computes (constant evaluation)."""


def times(number: int, name: str = "0", visibility: str = "private") -> tuple[str, str]:
    """Return a program that multiplies by a number, and its entry."""
    return TIMES.format(number=number, name=name, visibility=visibility), "forward"


@pytest.fixture(scope="module")
def iree(environments) -> Path:
    return environments / "iree/bin"


@pytest.fixture(scope="module")
def normalised(iree) -> list[str]:
    case = [
        times(2),
        times(2, "result", "public"),
        times(3),
        (REFUSED, "main"),
        (BROADCAST, "main"),
        (REFUSED, "forward"),
    ]
    return in_environment(iree / "python", "batch_in_iree", "normalise", case=case)


@pytest.fixture(scope="module")
def compiled(iree, normalised, tmp_path_factory) -> dict[str, ProblemEnd]:
    """Of eight programs in one module, only the wrong one is refused."""
    # The limits count all processes below this one: also those that a run of an earlier test has left to end.
    end_forks()
    process.kill_descendants()
    folder = tmp_path_factory.mktemp("batch")
    texts = {f"times{number}": normalised[0].replace("2.000000e+00", f"{number}.000000e+00") for number in range(3, 9)}  # fmt: skip
    texts |= {"refused": normalised[3], "doubled": normalised[4]}
    programs = []
    for name, text in texts.items():
        path = folder / f"{name}.mlir"
        path.write_text(text)
        programs.append(Program.read(name, path, folder / f"{name}.txt"))
    command = [
        str(program("iree-compile", iree.parent)),
        *compile_flags("llvm-cpu", None, None, ()),
    ]
    job = Job("compile", "batch", folder / "status.json", folder / "log.txt", command, 120, 8000)
    found = []
    for number, batch in enumerate((programs, programs[6:7])):
        Compilation(job, "3.13", CompileCache(folder / f"cache{number}", float("inf"))).run(
            batch, found.append
        )
    return {"alone": found.pop()} | {one.problem: one for one in found}


def test_the_same_program_is_the_same_text_whatever_it_was_called(normalised):
    first, renamed, other = normalised[:3]
    assert first == renamed != other
    assert first.startswith("func.func @main(%arg0: tensor<4xf32>)")
    assert "func.func private @main.1(" in first
    assert "loc(" not in first


def test_a_program_has_no_module_and_no_aliases(normalised):
    assert "affine_map<(d0) -> (d0)>" in normalised[4]
    assert "#map" not in normalised[4]
    assert "module" not in normalised[4]


def test_an_entry_that_is_not_there_is_named(normalised):
    assert normalised[5] == "error: no function @forward; there is main"


def test_one_that_is_refused_ends_as_it_does_alone_and_the_others_are_compiled(compiled):
    alone, refused = compiled["alone"].outcome, compiled["refused"].outcome
    assert (refused.status, refused.reason) == ("unsupported", "legalization")
    assert "[refused.mlir:2: %0 = stablehlo.custom_call @nobody_knows" in refused.detail
    assert dataclasses.replace(alone, log="") == dataclasses.replace(refused, log="")
    others = [one for name, one in compiled.items() if name not in ("alone", "refused")]
    assert {one.outcome.status for one in others} == {"ok"}
    assert {one.result["together"] for one in others} == {7}
    assert len({one.result["module"] for one in others}) == 1


def test_each_function_of_a_module_computes_its_own_program(compiled, iree):
    case = {name: (one.result["module"], one.result["function"]) for name, one in compiled.items() if "module" in one.result}  # fmt: skip
    found = in_environment(iree / "python", "batch_in_iree", "call", case=case)
    assert found == {
        "doubled": [0, 2, 4, 6],
        **{f"times{n}": [0, n, 2 * n, 3 * n] for n in range(3, 9)},
    }


def test_a_session_has_the_threads_that_it_was_given_also_after_the_device_was_asked(
    compiled, iree
):
    one = compiled["doubled"]
    case = (one.result["module"], one.result["function"], 1)
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
