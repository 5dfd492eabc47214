"""What the instructions of XLA's compiled programs compute."""

from __future__ import annotations

from scripts.frontends.lowering.locations import Origin
from scripts.tools.profile.hlo import arguments, mapped, parsed

TEXT = """\
HloModule main, is_scheduled=true

%fused (param_0: f32[1,7,7,576], param_1: f32[1,1,576,96]) -> f32[1,7,7,96] {
  %param_0 = f32[1,7,7,576]{3,2,1,0} parameter(0)
  %param_1 = f32[1,1,576,96]{3,2,1,0} parameter(1)
  ROOT %convolution.9 = f32[1,7,7,96]{3,2,1,0} convolution(%param_0, %param_1), window={size=1x1}, dim_labels=b01f_01io->b01f
}

%add_fused (param_2: f32[1,7,7,96]) -> f32[1,7,7,96] {
  %param_2 = f32[1,7,7,96]{3,2,1,0} parameter(0)
  ROOT %add.1 = f32[1,7,7,96]{3,2,1,0} add(%param_2, %param_2), metadata={source_file="-" source_line=12 source_end_line=12 source_column=3}
}

ENTRY %main (Arg_0: f32[1,576,7,7], Arg_1: f32[96,576,1,1]) -> f32[1,7,7,96] {
  %Arg_0 = f32[1,576,7,7]{3,2,1,0} parameter(0)
  %Arg_1 = f32[96,576,1,1]{3,2,1,0} parameter(1)
  %copy_fusion = f32[1,1,576,96]{3,2,1,0} copy(%Arg_1)
  %bitcast.1 = f32[1,7,7,576]{3,2,1,0} transpose(%Arg_0), dimensions={0,2,3,1}, metadata={source_file="-" source_line=10}
  %ynn_fusion = f32[1,7,7,96]{3,2,1,0} fusion(%bitcast.1, %copy_fusion), kind=kCustom, calls=%fused
  ROOT %add_fusion = f32[1,7,7,96]{3,2,1,0} fusion(%ynn_fusion), kind=kLoop, calls=%add_fused
}
"""
CONVOLUTION = Origin("convolution_4", "aten.convolution.default", "features.0.0")
ADD = Origin("add_1", "aten.add.Tensor", "features.0")
PERMUTE = Origin("permute", "aten.permute.default", "")
LINES = {10: PERMUTE, 11: CONVOLUTION, 12: ADD}
PRODUCTS = {"features.0.0": CONVOLUTION}


def test_an_instruction_computes_the_nodes_of_its_lines_and_of_what_was_fused_into_it():
    computed = mapped(TEXT, LINES, PRODUCTS, 1, ["features.0.0.weight"])
    assert computed["add_fusion"] == ((ADD,), False)
    assert computed["bitcast.1"] == ((PERMUTE,), True)


def test_a_convolution_without_a_line_is_that_of_its_weight():
    assert arguments("ynn_fusion", parsed(TEXT)) == [0, 1]
    computed = mapped(TEXT, LINES, PRODUCTS, 1, ["features.0.0.weight"])
    assert computed["ynn_fusion"] == ((CONVOLUTION,), False)
    assert mapped(TEXT, LINES, PRODUCTS, 1, ["features.9.weight"])["ynn_fusion"] == ((), False)
