"""program: diagnostics of iree-compile 3.13 are assigned to the programs of a module."""

from pathlib import Path

import pytest

from scripts.features.operators.batch import batch_program
from scripts.features.operators.batch.batch_program import Program, combine
from scripts.supervise.diagnose import diagnose

MODULE = Path("/scratch/module.mlir")
TEXT = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.aten.strange %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
COMBINED = combine(
    [Program(f"op{n}", Path(f"ops/op{n}.mlir"), Path(f"op{n}.txt"), TEXT) for n in range(12)]
)

LEGALIZE = """\
{place}: error: failed to legalize operation 'torch.aten.strange' that was explicitly marked illegal
  %0 = torch.aten.strange %arg0 : tensor<4xf32>
       ^
{place}: note: see current operation: %1 = "torch.aten.strange"(%0) : (tensor<4xf32>) -> tensor<4xf32>
"""
DISPATCH = """\
{place}: error: function '{name}$async_dispatch_8_reduction_4x4_f32' uses 131072 bytes of shared memory; exceeded the limit of 65536 bytes
  %0 = torch.aten.strange %arg0 : tensor<4xf32>
       ^
"""


def said(log: str) -> dict[int, str]:
    return batch_program.errors(log, COMBINED, MODULE)[0]


def test_a_diagnostic_is_of_the_program_whose_line_it_points_at():
    assert sorted(said(LEGALIZE.format(place=f"{MODULE}:6:8"))) == [1]
    assert sorted(said(LEGALIZE.format(place=f"{MODULE}:46:8"))) == [11]


@pytest.mark.parametrize("printed", [LEGALIZE, DISPATCH])
def test_what_is_said_of_a_program_is_what_is_said_of_it_alone(printed):
    log = printed.format(place=f"{MODULE}:42:8", name="program_10")
    alone = printed.format(place="ops/op10.mlir:2:8", name="main")
    assert said(log) == {10: alone}
    assert diagnose(1, said(log)[10]) == diagnose(1, alone)
    assert "[op10.mlir:2: %0 = torch.aten.strange" in diagnose(1, alone).detail


def test_each_program_has_its_own_errors_in_order():
    first = LEGALIZE.format(place=f"{MODULE}:6:8")
    other = DISPATCH.format(place=f"{MODULE}:10:8", name="program_2")
    found = said(first + other + first)
    assert sorted(found) == [1, 2]
    assert found[1].count("failed to legalize") == 2
    assert "failed to legalize" not in found[2]


def test_an_error_without_a_place_is_of_the_one_program_that_it_names():
    log = "<unknown>:0: error: failed to serialize 'program_3$async_dispatch_0'\n"
    assert said(log) == {3: "<unknown>:0: error: failed to serialize 'main$async_dispatch_0'\n"}


def test_an_error_without_a_place_is_of_the_one_program_of_its_notes():
    log = (
        "<unknown>:0: error: 'func.func' op failed\n"
        '<unknown>:0: note: see current operation: "func.func"() <{sym_name = "program_11"}>\n'
    )
    assert sorted(said(log)) == [11]
    log = f"<unknown>:0: error: failed\n{MODULE}:42:8: note: called from\n"
    assert sorted(said(log)) == [10]


def test_an_error_that_could_be_anybodys_is_nobodys():
    assert said("<unknown>:0: error: failed in @program_1 and @program_2\n") == {}
    assert said("error: cannot allocate\n") == {}
    assert said("<unknown>:0: error: failed in @program_99\n") == {}
    assert said("/elsewhere.mlir:6:8: error: failed\n") == {}


def test_warnings_and_what_follows_them_blame_nobody():
    log = (
        f"{MODULE}:6:8: warning: slow\n{MODULE}:6:8: note: here\n{MODULE}:2:8: remark: program_4\n"
    )
    assert said(log) == {}


def test_the_place_wins_over_names():
    log = f"{MODULE}:6:8: error: program_2 is used\n"
    assert said(log) == {1: "ops/op1.mlir:2:8: error: program_2 is used\n"}
