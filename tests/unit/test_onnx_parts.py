"""Parts of an ONNX graph, and the search for those that fail as the whole graph does: the same on every machine."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from scripts.frontends.lowering import onnx_parts
from scripts.frontends.lowering.onnx_parts import Graph

FLOAT = TensorProto.FLOAT
KIND = helper.make_tensor_type_proto(FLOAT, [4])


def chain(*operators: str, types: dict | None = None) -> Graph:
    """A graph of operators, each of which computes v<n> of v<n-1>."""
    nodes = [helper.make_node(kind, [f"v{n}"], [f"v{n + 1}"], name=f"{kind}_{n}") for n, kind in enumerate(operators)]  # fmt: skip
    ends = [helper.make_tensor_value_info(f"v{n}", FLOAT, [4]) for n in (0, len(operators))]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    known = {f"v{n}": KIND for n in range(len(operators))} if types is None else types
    return Graph.of(helper.make_model(graph), known)


def names(part: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in part.graph.node]


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (["Exp"], "onnx.Exp alone crashes it too"),
        (["Relu", "Exp"], "onnx.Relu, onnx.Exp together crash it too, onnx.Exp alone does not"),
        (["Neg", "Exp"], "onnx.Neg, onnx.Exp together crash it too, onnx.Exp alone does not"),
        (["Softsign"], "operator not known: without what is around it, the graph no longer crashes it"),
    ],
)  # fmt: skip
def test_the_operators_that_fail_together_are_found_in_few_tries(failing, said):
    graph = chain(*["Abs"] * 100, "Neg", "Relu", "Exp", *["Abs"] * 100)
    tries: list[list[str]] = []

    def fails(part: onnx.ModelProto) -> bool:
        onnx.checker.check_model(part)
        tries.append(names(part))
        return set(failing) <= set(tries[-1])

    assert onnx_parts.failing(graph, fails, onnx_parts.CRASHES) == said
    assert len(tries) < 20
    again, tries = tries, []
    onnx_parts.failing(graph, fails, onnx_parts.CRASHES)
    assert tries == again


def test_if_it_fails_only_with_what_it_does_not_use_the_node_is_named_without_which_it_does_not():
    nodes = [("Neg", "a", "n"), ("Abs", "a", "b"), ("Exp", "b", "e"), ("Abs", "e", "y")]
    ends = [helper.make_tensor_value_info(name, FLOAT, [4]) for name in ("a", "n", "y")]
    made = [helper.make_node(kind, [used], [result], name=result) for kind, used, result in nodes]
    model = helper.make_model(helper.make_graph(made, "m", ends[:1], ends[1:]))
    graph = Graph.of(model, dict.fromkeys("be", KIND))
    said = onnx_parts.failing(graph, lambda part: {"Neg", "Exp"} <= set(names(part)), onnx_parts.FAILS)  # fmt: skip
    assert said == "the nodes up to onnx.Exp (e) fail too, those before it do not"


def test_a_part_has_what_its_nodes_use_also_inside_of_branches():
    inner = helper.make_graph([helper.make_node("Relu", ["b"], ["r"])], "then", [], [helper.make_tensor_value_info("r", FLOAT, [4])])  # fmt: skip
    other = helper.make_graph([helper.make_node("Neg", ["c"], ["n"])], "else", [], [helper.make_tensor_value_info("n", FLOAT, [4])])  # fmt: skip
    nodes = [
        helper.make_node("Abs", ["a"], ["b"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=other),
    ]
    inputs = [helper.make_tensor_value_info(name, FLOAT, [4]) for name in "ac"]
    inputs.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    outputs = [helper.make_tensor_value_info("y", FLOAT, [4])]
    model = helper.make_model(helper.make_graph(nodes, "m", inputs, outputs))
    part = Graph.of(model, {"b": KIND}).part([1])
    assert part is not None
    assert {value.name for value in part.graph.input} == {"flag", "b", "c"}


def test_nodes_that_differ_only_in_their_names_are_tried_once():
    parts = list(chain("Relu", "Abs", "Relu", "Abs").each_alone())
    assert [names(part) for _, part in parts if part] == [["Relu"], ["Abs"]]


@pytest.mark.parametrize(("domain", "operator"), [("", "onnx.Relu"), ("ai.onnx", "onnx.Relu"), ("com.microsoft", "com.microsoft.Relu")])  # fmt: skip
def test_an_operator_is_named_with_its_domain(domain, operator):
    assert onnx_parts.operator_of(helper.make_node("Relu", ["x"], ["y"], domain=domain)) == operator
