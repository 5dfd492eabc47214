"""batch_program: programs as functions of one module have different names, and their own lines and diagnostics."""

from pathlib import Path

import pytest

from scripts.tools.operators.batch.batch_program import Program, blamed, combine

ADD = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SORT = """\
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @target(%arg0) {note = "calls \\"@main\\", not @main.1"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @main.1(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @main.1(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  return %arg0 : tensor<4xf32>
}"""


def program(name: str, text: str) -> Program:
    return Program(name, Path(f"{name}.mlir"), Path(f"{name}.txt"), text)


def test_each_program_keeps_its_text_but_for_the_name_of_its_entry():
    combined = combine([program("add", ADD), program("sort", SORT), program("again", ADD)])
    lines = combined.text.splitlines()
    assert lines[:4] == ADD.replace("@main", "@program_0").splitlines()
    assert lines[-4:] == ADD.replace("@main", "@program_2").splitlines()
    assert combined.starts == (1, 5, 13)


def test_further_functions_of_a_program_follow_its_name():
    text = combine([program("add", ADD), program("sort", SORT)]).text
    assert "%1 = call @program_1.1(%0)" in text
    assert "func.func private @program_1.1(" in text
    assert "@main(" not in text
    assert "@main.1(" not in text


def test_what_looks_like_a_name_in_a_string_is_none():
    assert '{note = "calls \\"@main\\", not @main.1"}' in combine([program("sort", SORT)]).text


def test_a_longer_name_that_begins_like_the_entry_is_another_one():
    text = "func.func @main() {\n  call @mainly() : () -> ()\n  call @main$x() : () -> ()\n}\n"
    assert combine([program("p", text)]).text == text.replace("@main()", "@program_0()")


def test_a_line_belongs_to_the_program_that_it_stands_in():
    combined = combine([program("add", ADD), program("sort", SORT)])
    owners = [combined.owner(line) for line in range(14)]
    assert owners == [None, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, None]


def test_a_program_that_has_or_refers_to_a_resource_or_is_large_stands_alone():
    assert program("add", ADD).fits_in_a_module
    assert not program("big", ADD + "{-#\n  dialect_resources: {}\n#-}\n").fits_in_a_module
    constant = "  %c = arith.constant dense_resource<__elided__> : tensor<4xf32>\n"
    assert not program("elided", ADD + constant).fits_in_a_module
    assert not program("large", ADD + "0" * 1_000_000).fits_in_a_module


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
"""Programs of four lines each."""


@pytest.mark.parametrize(
    ("log", "programs"),
    [
        (f"{MODULE}:6:8: error: failed\n", [1]),
        (f"{MODULE}:46:8: error: failed\n", [11]),
        (f"{MODULE}:6:8: error: program_2 is used\n", [1]),
        (f"{MODULE}:42:8: error: failed\n{MODULE}:6:8: error: failed\n", [1, 10]),
        ("<unknown>:0: error: failed to serialize 'program_3$async_dispatch_0'\n", [3]),
        ("<unknown>:0: error: failed\n<unknown>:0: note: see \"func.func\"() <{sym_name = \"program_11\"}>\n", [11]),
        (f"<unknown>:0: error: failed\n{MODULE}:42:8: note: called from\n", [10]),
        ("<unknown>:0: error: failed in @program_1 and @program_2\n", []),
        ("error: cannot allocate\n", []),
        ("<unknown>:0: error: failed in @program_99\n", []),
        ("/elsewhere.mlir:6:8: error: failed\n", []),
        (f"{MODULE}:6:8: warning: slow\n{MODULE}:6:8: note: here\n{MODULE}:2:8: remark: program_4\n", []),
    ],
)  # fmt: skip
def test_an_error_is_of_the_program_that_it_points_at_or_else_alone_names(log, programs):
    assert sorted(blamed(log, COMBINED, MODULE)) == programs
