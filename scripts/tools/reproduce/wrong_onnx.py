"""Finds the first operator of an ONNX graph whose program computes other values than ONNX Runtime, with the right inputs, and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch

from scripts.frontends.lowering import onnx_parts
from scripts.frontends.sources.load_onnx import OnnxModule
from scripts.frontends.torch_model import convert
from scripts.frontends.torch_model.loading import LoadedModel
from scripts.iree import shell
from scripts.iree.backends import BACKENDS
from scripts.tools.reproduce import issue, mismatch
from scripts.tools.reproduce.wrong_operator import CPU, PLAIN, PROGRAM, Frontend, Lowering, NotFound

MODEL, SCRIPT = "wrong.onnx", "run_wrong.sh"


def write(loaded: LoadedModel, lowering: Lowering, tool: Frontend, name: str, folder: Path) -> str:
    """Find the operator, write its graph, program, inputs, expected values, commands and the text of an issue into a folder, and return
    what it is. Raises NotFound."""
    graph, values = _computed(loaded)
    tried = 0
    for at, part in graph.each_alone():
        if lowering.is_over:
            break
        if part is None or any(value.name not in values for value in part.graph.input):
            continue
        tried += 1
        module = OnnxModule(part.SerializeToString(), part, {})
        given = {value.name: torch.from_numpy(values[value.name]) for value in part.graph.input}
        program = lowering.program_of(LoadedModel("part", module, (), given, None))
        if program.module is None:
            continue
        expected = [convert.to_numpy(tensor) for tensor in module(**given).values()]
        computed = lowering.outputs(program)
        pairs = zip(expected, computed, strict=True)
        if (
            n := next((n for n, pair in enumerate(pairs) if mismatch.differs(*pair)), None)
        ) is None:
            continue
        operator, node = onnx_parts.operator_of(graph.nodes[at]), graph.nodes[at]
        onnx.save(part, folder / MODEL)
        (folder / PROGRAM).write_text(program.text, encoding="utf-8")
        mismatch.save(folder, input=program.inputs, expected=expected)
        run = mismatch.calling("wrong.vmfb", BACKENDS[CPU].device, len(given), len(expected))
        about = f"Exits with 1 if {PROGRAM} computes other values than ONNX Runtime."
        steps = [["iree-compile", *PLAIN, PROGRAM, "-o", "wrong.vmfb"], run]
        shell.write(folder / SCRIPT, about, tool.versions["IREE"], steps)
        shows = [
            f"The {tool.dialect} program that {tool.name} makes of this operator, compiled by IREE at O0, computes other values than ONNX Runtime:",
            issue.fenced("text", onnx.printer.to_text(part.graph)),
            issue.values(
                list(program.inputs), expected[n], computed[n], ("ONNX Runtime", "the program")
            ),
            "It becomes:",
            issue.fenced("mlir", program.text),
            f"`{MODEL}` is its graph, and `{SCRIPT}` compares the program's results with `expected_<n>.npy`.",
        ]
        issue.write(
            folder,
            tool.tracker,
            f"[{tool.dialect}] `{operator}` computes wrong values",
            {
                "": "\n\n".join(shows),
                "Versions": issue.listed(tool.versions),
                "Where it was found": f"In {name}, as node `{node.name or at}`, the first that is wrong with the right inputs.",
            },
        )
        return f"{operator} (node {node.name or at})"
    raise NotFound(
        f"none of {tried} nodes alone has other values at O0 than in ONNX Runtime, or the time was over"
    )


def _computed(loaded: LoadedModel) -> tuple[onnx_parts.Graph, Mapping[str, np.ndarray]]:
    """The graph of a model with the types of all values, and the values of one call."""
    module = loaded.module
    assert isinstance(module, OnnxModule)
    whole = onnx.ModelProto.FromString(module.model.SerializeToString())
    names = dict.fromkeys(name for node in whole.graph.node for name in node.output if name)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    computed = OnnxModule(whole.SerializeToString(), whole, {}).values(loaded.kwargs)
    values = {name: np.array(value.numpy()) for name, value in computed.items() if value.is_tensor()}  # fmt: skip
    values |= {name: convert.to_numpy(tensor) for name, tensor in loaded.kwargs.items()}
    types = {
        name: onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values.items()
    }
    return onnx_parts.Graph(module.model, types), values
