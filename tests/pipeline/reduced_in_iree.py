"""Prints, as JSON, the parts of a program of several dialects. Runs in the environment `iree`."""

import contextlib
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.iree import backends
from scripts.iree.tools import Compiled, Compiler
from scripts.tools.reproduce import reduce_program
from scripts.tools.reproduce.mismatch import Comparison
from scripts.tools.reproduce.reduced_program import NotReducible, Program

STABLEHLO = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = util.global.load @w : tensor<4xf32>
  %a = stablehlo.add %x, %w : tensor<4xf32>
  %b = stablehlo.multiply %a, %a : tensor<4xf32>
  %c = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %c : tensor<f32>
}
"""
LINALG = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %y: tensor<f32>) -> tensor<4xf32> {
  %s = tensor.extract %y[] : tensor<f32>
  %empty = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %s : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>
  return %a : tensor<4xf32>
}
"""
TORCH = """
func.func @main(%x: !torch.vtensor<[4,4],f32>) -> !torch.vtensor<[4,4],f32> {
  %one = torch.constant.int 1
  %none = torch.constant.int 0
  %dims = torch.prim.ListConstruct %one, %none : (!torch.int, !torch.int) -> !torch.list<int>
  %a = torch.aten.permute %x, %dims : !torch.vtensor<[4,4],f32>, !torch.list<int> -> !torch.vtensor<[4,4],f32>
  %b = torch.aten.add.Tensor %a, %a, %one : !torch.vtensor<[4,4],f32>, !torch.vtensor<[4,4],f32>, !torch.int -> !torch.vtensor<[4,4],f32>
  return %b : !torch.vtensor<[4,4],f32>
}
"""


def described(text: str) -> list[dict]:
    """The part of each single operation, and of all."""
    program = Program(text)
    parts = [[one] for one in program.operations] + [program.operations]
    return [
        {
            "names": [program.name(one) for one in part],
            "near": sorted(program.name(near) for near in program.neighbours(part[0])),
            "text": program.part(part),
        }
        for part in parts
    ]


WITH_TANH = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<8x8xf32>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = util.global.load @w : tensor<8x8xf32>
  %0 = stablehlo.add %x, %x : tensor<4x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.tanh %1 : tensor<4x8xf32>
  %3 = stablehlo.multiply %2, %0 : tensor<4x8xf32>
  %4 = stablehlo.subtract %3, %1 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
"""


@dataclass(frozen=True)
class Wrong(Compiler):
    """A compiler that takes a hyperbolic tangent for a sine, from O2 on."""

    def run(self, text: str, limit_s: float, out: Path = Path("/dev/null")) -> Compiled:
        if {"--iree-opt-level=O2", "--iree-opt-level=O3"} & set(self.flags):
            text = text.replace("stablehlo.tanh", "stablehlo.sine")
        return super().run(text, limit_s, out)


def mismatch(kind: type[Compiler]) -> dict | str:
    """The reduction of a program that a compiler gets wrong; why there is none otherwise."""
    flags = tuple(backends.compile_flags("llvm-cpu", None, "O2", ()))
    with tempfile.TemporaryDirectory() as folder:
        out, below, beside = (Path(folder, name) for name in ("out", "wrong", "right"))
        for path in (out, below, beside):
            path.mkdir()
        wrong, right = kind(flags, below), Compiler(flags, beside)
        now = time.monotonic()
        whole = reduce_program.Reduction(WITH_TANH, Program(WITH_TANH), now, now + 300, out)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                whole.of_mismatch(Comparison(wrong, right, "local-task", 1))
        except NotReducible as error:
            return str(error)
        text = (out / "reduced.mlir").read_text()
        report = json.loads((out / "reduction.json").read_text())
        shapes = {path.name: list(np.load(path).shape) for path in out.glob("*.npy")}
    return {"text": text, "report": report, "shapes": shapes}


found = {
    name: described(text)
    for name, text in (("stablehlo", STABLEHLO), ("linalg", LINALG), ("torch", TORCH))
}
for parts in found.values():
    for part in parts:
        Program(part["text"])  # is valid
lines = Program(STABLEHLO).at_lines({6})
found["at line 6"] = [Program(STABLEHLO).name(one) for one in lines]
found |= {"mismatch": mismatch(Wrong), "no mismatch": mismatch(Compiler)}
json.dump(found, sys.stdout)
