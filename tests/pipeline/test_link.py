"""Linked programs load each weight from a global; those of weights that change between calls pass a barrier."""

from __future__ import annotations

import re

import pytest

from scripts.core.tensors import OPEN
from tests.checkouts import in_environment

TENSOR, TORCH = "tensor<4x4xf32>", "!torch.vtensor<[4,4],f32>"
PROGRAMS = {
    "torch": "%0 = torch.aten.mm %x, %a : {t}, {t} -> {t}\n %1 = torch.aten.mm %0, %b : {t}, {t} -> {t}",
    "stablehlo": "%0 = stablehlo.add %x, %a : {t}\n %1 = stablehlo.add %0, %b : {t}",
    "linalg": "%0 = linalg.matmul ins(%x, %a : {t}, {t}) outs(%x : {t}) -> {t}\n"
    " %1 = linalg.matmul ins(%0, %b : {t}, {t}) outs(%x : {t}) -> {t}",
}  # fmt: skip
"""The body of a function of weights a and b and an input x, by dialect."""


def program(dialect: str) -> str:
    kind = TORCH if dialect == "torch" else TENSOR
    body = PROGRAMS[dialect].format(t=kind)
    return (
        f"func.func @main(%a: {kind}, %b: {kind}, %x: {kind}) -> {kind} {{\n {body}\n"
        f" return %1 : {kind}\n}}"
    )


@pytest.fixture(scope="module")
def linked(environments) -> dict[str, list[str]]:
    """The linked programs in the order of PROGRAMS, by the weights that change."""
    python = environments / "iree/bin/python"
    programs = list(map(program, PROGRAMS))
    return {
        changing: in_environment(
            python,
            "link_in_iree",
            case={"programs": programs, "changing": list(changing), "rows": 4},
        )
        for changing in ("", "a")
    }


@pytest.mark.parametrize("rows", ["?", "8"])
def test_dynamic_sizes_stay_dynamic_and_others_are_those_of_the_reference(environments, rows):
    """In both ways of writing types. A program for 8 rows is none for a reference with open ones."""
    torch, builtin = f"!torch.vtensor<[{rows},4],f32>", f"tensor<{rows}x4xf32>"
    bodies = {
        torch: f"%1 = torch.aten.mm %x, %a : {torch}, {TORCH} -> {torch}",
        builtin: f"%1 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : ({builtin}, {TENSOR}) -> {builtin}",
    }
    programs = [
        f"func.func @main(%a: {weight}, %b: {weight}, %x: {kind}) -> {kind} {{\n {bodies[kind]}\n return %1 : {kind}\n}}"
        for weight, kind in ((TORCH, torch), (TENSOR, builtin))
    ]
    case = {"programs": programs, "changing": [], "rows": OPEN}
    texts = in_environment(environments / "iree/bin/python", "link_in_iree", case=case)
    if rows == "?":
        for text in texts:
            assert re.search(
                r"func\.func @main\(%\w+: tensor<\?x4xf32>\) -> tensor<\?x4xf32>", text
            )
            assert f'@a = #flow.parameter.named<"model"::"a"> : {TENSOR}' in text
    else:
        for text, kind in zip(texts, bodies, strict=True):
            assert (
                text
                == f"argument 2 (x): the program takes {kind}, the reference has tensor<?x4xf32>"
            )


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=PROGRAMS)
def test_only_weights_that_change_pass_a_barrier(linked, number):
    constant, changing = linked[""][number], linked["a"][number]
    for text in (constant, changing):
        for name in "ab":
            assert f'@{name} = #flow.parameter.named<"model"::"{name}"> : {TENSOR}' in text
        assert re.search(rf"func\.func @main\(%\w+: {TENSOR}\) -> {TENSOR}", text)
    assert "optimization_barrier" not in constant
    [(kept, weight)] = re.findall(r"(%\w+) = util\.optimization_barrier (%\w+)", changing)
    loads = dict(re.findall(r"(%\w+) = util\.global\.load (@\w)", changing))
    assert loads[weight] == "@a"
    # What is computed takes the result of the barrier, and not the weight as it was loaded.
    assert len(re.findall(rf"{weight}\b", changing)) == 2
    assert len(re.findall(rf"{kept}\b", changing)) == 2
