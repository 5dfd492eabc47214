"""ONNX → torch-mlir by its ONNX importer, with every large initializer an argument rather than a literal."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from torch_mlir import compiler_utils, ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import onnx_importer

from scripts.core import dimensions, exits, process
from scripts.core.tensors import OPEN, TensorType
from scripts.lowering.capture import UnsupportedProgram, timed
from scripts.lowering.link import Argument, Input, Lowered, Parameter
from scripts.lowering.locations import Origin, Origins
from scripts.lowering.stablehlo import for_iree
from scripts.sources.load_onnx import OnnxModule, raised_opset, set_type
from scripts.sources.onnx_graph import inputs
from scripts.torch_model import convert
from scripts.torch_model.errors import first_line
from scripts.torch_model.loading import LoadedModel

OPTIONS = {"dialect": ("torch", "stablehlo", "linalg-on-tensors")}
REWRITES: dict[str, tuple[str, ...]] = {}
SOURCES = ("onnx",)
TESTS = ("eval",)
VERSIONS = {"torch-mlir": "frontend", "torch": "torch", "onnx": "onnx"}
MEMORY_FACTOR = 2.0
FORKABLE = True
DYNAMIC = True

ENTRY = "forward"
SEARCH_S = 60
"""How long the operator of a crash is searched for."""
_TO_BACKEND_IR = "builtin.module(torch-onnx-to-torch-backend-pipeline)"


def export(loaded: LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """Lower a graph to the dialect `options["dialect"]`; return it with the seconds of each step.

    Raises UnsupportedProgram with all operators of the graph that torch-mlir does not convert, and whatever torch-mlir raises.
    """
    module = loaded.module
    assert isinstance(module, OnnxModule)
    seconds: dict[str, float] = {}
    with timed(seconds, "prepare"):
        model = raised_opset(with_types(module.model, loaded))
        weights = {name: convert.tensor_type(name, w) for name, w in module.named_buffers()}
        arguments = with_weights_as_inputs(model, loaded, weights)
        origins = name_nodes(model)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    with timed(seconds, "lower"):
        text = _lowered(model, options["dialect"])
    rewrites: tuple[str, ...] = ()
    if options["dialect"] == "stablehlo":
        text, names = for_iree(text)
        rewrites = tuple(names)
    return Lowered(text, ENTRY, arguments, rewrites=rewrites, origins=origins), seconds


def _lowered(model: onnx.ModelProto, dialect: str) -> str:
    """The program in a dialect. torch-mlir works in a forked process: if it crashes or fails, this one prints which operators are
    known to do that, and ends in the same way.

    Raises UnsupportedProgram.
    """

    def work() -> bytes:
        try:
            return json.dumps(["text", _lower(model, dialect)]).encode()
        except UnsupportedProgram as error:
            return json.dumps(["unsupported", str(error)]).encode()

    code, answer = process.forked(work)
    if code:
        if code != -signal.SIGKILL:  # it is from outside
            print(f"{exits.CAUSE}{failing(model, dialect, code)}", file=sys.stderr, flush=True)
        process.exit_like(code)
    kind, text = json.loads(answer)
    if kind == "unsupported":
        raise UnsupportedProgram(text)
    return str(text)


def _lower(model: onnx.ModelProto, dialect: str) -> str:
    try:
        imported = _imported(model)
    except onnx_importer.OnnxImportError as error:
        raise UnsupportedProgram(f"torch-mlir's ONNX importer: {first_line(error)}") from error
    try:
        _run(imported, _TO_BACKEND_IR)
    except compiler_utils.TorchMlirCompilerError as error:
        if refused := unsupported(model):
            raise UnsupportedProgram(f"torch-mlir does not convert {', '.join(refused)}") from error
        raise
    if left := _left(imported):
        raise UnsupportedProgram(f"torch-mlir does not convert {', '.join(left)}")
    compiler_utils.lower_mlir_module(False, compiler_utils.OutputType.get(dialect), imported)
    return str(imported.operation.get_asm(enable_debug_info=True))


def failing(model: onnx.ModelProto, dialect: str, code: int) -> str:
    """What is known about the operators of a graph for which torch-mlir ended with `code` (process.forked): with which of them alone
    it ends so too. Each node is tried with its types, in a process of its own, while SEARCH_S have not passed."""

    def quietly(alone: onnx.ModelProto) -> bytes:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        _lower(alone, dialect)
        return b""

    known: dict[str, None] = {}
    start, tried, left = time.monotonic(), 0, 0
    for operator, alone in each_alone(model):
        if alone is None or time.monotonic() - start > SEARCH_S:
            left += 1
        elif operator not in known:
            tried += 1
            if process.forked(functools.partial(quietly, alone))[0] == code:
                known[operator] = None
    ends = "fails" if code > 0 else "crashes it"
    said = f"{', '.join(known)} alone {ends} too" if known else f"operator not known: none of {tried} nodes alone {ends}"  # fmt: skip
    return said + (f" ({left} nodes were not tried)" if left else "")


def with_types(model: onnx.ModelProto, loaded: LoadedModel) -> onnx.ModelProto:
    """The model with the sizes of this call's inputs and results, and without other types. With open dimensions, results have
    none: what follows from the inputs is inferred."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    graph = typed.graph
    graph.name = ENTRY
    del graph.value_info[:]
    results = loaded.module(**loaded.kwargs)
    for value, kind in zip(inputs(typed), input_types(loaded), strict=True):
        set_type(value, kind)
    for value in graph.output:
        kind = convert.tensor_type(value.name, results[value.name])
        if loaded.dimensions:
            kind = dataclasses.replace(kind, shape=(OPEN,) * len(kind.shape))
        set_type(value, kind)
    return typed


def input_types(loaded: LoadedModel) -> list[TensorType]:
    """The types of a graph's inputs, with their open dimensions."""
    kinds = [convert.tensor_type(name, tensor) for name, tensor in loaded.kwargs.items()]
    return dimensions.opened(kinds, loaded.dimensions)


def with_weights_as_inputs(
    model: onnx.ModelProto, loaded: LoadedModel, weights: Mapping[str, TensorType]
) -> list[Argument]:
    """Make the initializers that are weights inputs of the graph, in place; return what each input stands for."""
    graph = model.graph
    left = [tensor for tensor in graph.initializer if tensor.name not in weights]
    own = [*inputs(model)]
    there = {tensor.name for tensor in graph.initializer}
    arguments: list[Argument] = [Input(kind, at) for at, kind in enumerate(input_types(loaded))]
    values = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in own]
    for name, kind in weights.items():
        if name in there:  # onnx's conversion of the opset may have folded it
            values.append(onnx.ValueInfoProto(name=name))
            set_type(values[-1], kind)
            arguments.append(Parameter(kind))
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(left)
    graph.input.extend(values)
    return arguments


def name_nodes(model: onnx.ModelProto) -> Origins:
    """Give each node a name of its own, in place, and return where it is from: torch.onnx names nodes by modules
    (`/encoder/layer.0/MatMul`)."""
    nodes: dict[str, Origin] = {}
    classes: dict[str, str] = {}
    for number, node in enumerate(model.graph.node):
        name = (node.name or f"{node.op_type}_{number}").replace('"', "'")
        if name in nodes:
            name = f"{name}_{number}"
        node.name = name
        path = ".".join(part for part in name.split("/")[:-1] if part) if "/" in name else None
        nodes[name] = Origin(name, f"onnx.{node.op_type}", path)
        if path is not None:
            classes.setdefault(path, "")
    return Origins(nodes, classes)


def _imported(model: onnx.ModelProto) -> ir.Module:
    context = ir.Context()
    torch_dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context)
    importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
    importer.import_all()
    return module


def _run(module: ir.Module, pipeline: str) -> None:
    compiler_utils.run_pipeline_with_repro_report(module, pipeline, "Lowering ONNX IR -> Torch Backend IR")  # fmt: skip


def _left(module: ir.Module) -> list[str]:
    """The operators of ONNX that are still in a module: the pipeline leaves those for which torch-mlir has no pattern."""
    return [*dict.fromkeys(re.findall(r'torch\.operator "(onnx\.\w+)"', str(module)))]


def unsupported(model: onnx.ModelProto) -> list[str]:
    """The operators of a graph that torch-mlir does not convert, each once: every node is tried alone."""
    refused: dict[str, None] = {}
    for operator, alone in each_alone(model):
        if operator in refused or alone is None:
            continue
        try:
            _run(imported := _imported(alone), _TO_BACKEND_IR)
        except (compiler_utils.TorchMlirCompilerError, onnx_importer.OnnxImportError):
            refused[operator] = None
        else:
            refused |= dict.fromkeys(_left(imported))
    return list(refused)


def each_alone(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto | None]]:
    """The operator of each node and a model of it alone with its types, one of those that differ only in their names; None if a
    type is not known."""
    types, literals = _types_of(model), _literals_of(model)
    tried: set[bytes] = set()
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        alone = _alone(node, types, literals, model)
        text = b"" if alone is None else alone.SerializeToString(deterministic=True)
        if text not in tried:
            tried |= {text} - {b""}
            yield f"onnx.{node.op_type}", alone


def _types_of(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    graph = model.graph
    return {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}


def _literals_of(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    literals = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            literals[node.output[0]] = node.attribute[0].t
    return literals


def _alone(
    node: onnx.NodeProto,
    types: Mapping[str, onnx.TypeProto],
    literals: Mapping[str, onnx.TensorProto],
    model: onnx.ModelProto,
) -> onnx.ModelProto | None:
    """A model of one node, with numbers for names; None if the type of a value is not known, so that nothing could be said about
    the node."""
    used = [name for name in node.input if name]
    if any(name not in types and name not in literals for name in used):
        return None
    if any(name and name not in types for name in node.output):
        return None
    numbers = {name: f"v{i}" for i, name in enumerate(dict.fromkeys([*used, *filter(None, node.output)]))}  # fmt: skip
    renamed = onnx.NodeProto.FromString(node.SerializeToString())
    renamed.name = node.op_type
    renamed.input[:] = [numbers.get(name, "") for name in node.input]
    renamed.output[:] = [numbers.get(name, "") for name in node.output]
    graph = onnx.helper.make_graph(
        [renamed],
        ENTRY,
        [onnx.ValueInfoProto(name=numbers[name], type=types[name]) for name in dict.fromkeys(used) if name not in literals],
        [onnx.ValueInfoProto(name=numbers[name], type=types[name]) for name in node.output if name],
    )  # fmt: skip
    for name in dict.fromkeys(name for name in used if name in literals):
        graph.initializer.add().CopyFrom(literals[name])
        graph.initializer[-1].name = numbers[name]
    alone = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    alone.ir_version = model.ir_version
    return alone
