"""Locations of programs: from nodes of a graph and from the text of PyTorch/XLA to lines and modules."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from scripts.frontends.lowering import locations, stablehlo
from scripts.frontends.lowering.locations import Locations, Origin
from scripts.stages import compile_iree


def node(name: str, stack: list[tuple[str, str]], op: str = "call_function") -> SimpleNamespace:
    meta = {"nn_module_stack": {str(i): one for i, one in enumerate(stack)}} if stack else {}
    return SimpleNamespace(op=op, name=name, target=f"aten.{name}.default", meta=meta)


FLAT = ("", "scripts.frontends.torch_model.loading.FlatModel")
MODEL = ("model", "torchvision.models.vision_transformer.VisionTransformer")
NODES = [
    node("x", [], op="placeholder"),
    node("view", [FLAT, MODEL]),
    node(
        "mm", [FLAT, MODEL, ("model.heads", "Sequential"), ("model.heads.0@1", "torch.nn.Linear")]
    ),
    node("full", []),
]


def test_a_node_is_of_its_innermost_module_below_the_model():
    found = locations.of_nodes(NODES, "model.")
    assert found.nodes == {
        "view": Origin("view", "aten.view.default", ""),
        "mm": Origin("mm", "aten.mm.default", "heads.0"),
        "full": Origin("full", "aten.full.default", None),
    }
    assert found.modules == {"": "VisionTransformer", "heads": "Sequential", "heads.0": "Linear"}


def op(name: str, location: str, *inside: SimpleNamespace) -> SimpleNamespace:
    """An operation as MLIR's Python bindings show it."""
    made = SimpleNamespace(name=name, location=f"loc({location})", regions=[])
    made.regions = [SimpleNamespace(blocks=[SimpleNamespace(operations=list(inside))])]
    made.operation = made
    return made


def program(*locations_of: str) -> SimpleNamespace:
    add, mm, inner = locations_of
    return op("module", "unknown", op("func", "unknown", op("add", add), op("mm", mm, op("mul", inner))))  # fmt: skip


def test_lines_have_the_names_of_the_operations_in_them():
    linked = program('"full"', '"mm"("/models/vit.py":12:0)', 'fused["mm", "view"]')
    parsed = program('"-":3:5', '"-":4:5', '"-":4:9')
    assert locations.of_lines(linked, parsed) == {3: "full", 4: "mm"}
    unnamed = program("unknown", '"/models/vit.py":12:0', "unknown")
    assert locations.of_lines(unnamed, parsed) == {}


def test_another_program_is_refused():
    with pytest.raises(ValueError, match="has sub in the place of func"):
        locations.of_lines(op("module", "", op("func", "")), op("module", "", op("sub", "")))


def test_locations_are_read_as_they_were_written():
    origins = locations.of_nodes(NODES, "model.")
    written = locations.to_json({7: "mm", 3: "view", 9: "unheard"}, origins)
    found = Locations.from_json(json.loads(json.dumps(written)))
    assert found.lines == {3: origins.nodes["view"], 7: origins.nodes["mm"]}
    assert found.modules == origins.modules
    with pytest.raises(ValueError, match="format 2, expected 1"):
        Locations.from_json(written | {"format": 2})


NAMED = r'"{\22torch_fn\22: \22relu.default_1;OpOverload.relu.default\22, \22custom\22: \22{\\\22node\\\22: \\\22NAME\\\22}\22}"'


def test_the_text_of_pytorch_xla_gets_locations_that_mlir_parses():
    mm, add = (NAMED.replace("NAME", name) for name in ("mm_1", "add"))
    text = f"""\
#loc1 = {mm}
module @IrToHlo.10 attributes {{mhlo.is_dynamic = false}} {{
  func.func @main(%arg0: tensor<8xf32> {mm}, %arg1: tensor<8xf32> [unknown]) -> tensor<8xf32> {{
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<8xf32>) -> tensor<8xf32> {mm}
    %1 = stablehlo.custom_call @f(%0) {{backend_config = ""}} : (tensor<8xf32>) -> tensor<8xf32> [{add}, {mm}]
    %2 = stablehlo.abs %1 : tensor<8xf32> [#loc1, #loc2]
    return %1 : tensor<8xf32> [unknown]
  }} [unknown]
}} [unknown]
#loc = [unknown]
"""
    assert (
        stablehlo.with_locations(text)
        == """\
module @IrToHlo.10 attributes {mhlo.is_dynamic = false} {
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<8xf32>) -> tensor<8xf32> loc("mm_1")
    %1 = stablehlo.custom_call @f(%0) {backend_config = ""} : (tensor<8xf32>) -> tensor<8xf32> loc("add")
    %2 = stablehlo.abs %1 : tensor<8xf32> loc(unknown)
    return %1 : tensor<8xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
"""
    )


@pytest.mark.parametrize("count", [128, 131, 3])
def test_booleans_of_pytorch_xla_get_a_byte_each_and_keep_their_order(count):
    values = [i % 3 == 0 or i % 7 == 5 for i in range(count)]
    packed = bytearray(-(-count // 8))
    for i, value in enumerate(values):
        packed[i // 8] |= value << (i % 8)
    line = '%c = stablehlo.constant dense<"0x{}"> : tensor<1x{}xi1> loc("where")\n'
    bytes_each = line.format(bytes(values).hex().upper(), count)
    assert stablehlo.for_parser(line.format(packed.hex().upper(), count)) == bytes_each
    assert stablehlo.for_parser(bytes_each) == bytes_each


def test_other_constants_of_pytorch_xla_are_left_as_they_are():
    text = """\
%a = stablehlo.constant dense<"0x00FF"> : tensor<16xi8> loc("a")
%b = stablehlo.constant dense<true> : tensor<16xi1> loc("b")
%c = stablehlo.constant dense<"0x010203"> : tensor<3xui8> loc("c")
"""
    assert stablehlo.for_parser(text) == text


PROGRAM = """\
module {
  func.func @main(%arg0: !torch.vtensor<[1],si64>) -> !torch.vtensor<[1],si64> {
    %int0 = torch.constant.int 0
    %int01 = torch.constant.int 1
    %result0, %result1 = torch.aten.unique_dim %arg0, %int0 : !torch.int -> !torch.vtensor<[1],si64>
    %1 = torch.aten.relu %result1 : !torch.vtensor<[1],si64>
    %2 = torch.aten.sort %1, %int01 : !torch.vtensor<[1],si64>
    return %2 : !torch.vtensor<[1],si64>
  }
}
"""


@pytest.mark.parametrize(
    ("line", "known"),
    [
        (5, "of onnx.Unique"),
        (3, "of onnx.Unique"),  # a constant, which one operator uses
        (4, "of onnx.Sort"),
        (2, ""),
        (99, ""),
    ],
)
def test_the_line_of_a_diagnostic_is_of_an_operator_of_onnx(tmp_path, line, known):
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    said = ["warning: x", f"{program}:{line}:10: error: failed to legalize", f"{program}:6:1: error: x"]  # fmt: skip
    assert compile_iree.cause_in_program(program, [], 1, said) == "", "it is not of ONNX"
    nodes = {name: Origin(name, f"onnx.{name}", None) for name in ("Unique", "Relu", "Sort")}
    lines = {5: "Unique", 6: "Relu", 7: "Sort"}
    text = json.dumps(locations.to_json(lines, locations.Origins(nodes, {})))
    (tmp_path / "locations.json").write_text(text)
    assert compile_iree.cause_in_program(program, [], 1, said) == known
    assert compile_iree.cause_in_program(program, [], 1, ["error: no target"]) == ""
