"""ONNX → torch-mlir by its ONNX importer, with every large initializer an argument rather than a literal."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import onnx
from torch_mlir import compiler_utils, ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import onnx_importer

from scripts.core import exits, process
from scripts.core.tensors import OPEN, TensorType
from scripts.frontends.lowering import onnx_parts
from scripts.frontends.lowering.capture import UnsupportedProgram, timed
from scripts.frontends.lowering.link import Argument, Input, Lowered, Parameter
from scripts.frontends.lowering.locations import Origin, Origins
from scripts.frontends.lowering.stablehlo import for_iree
from scripts.frontends.sources.load_onnx import OnnxModule, raised_opset, set_type
from scripts.frontends.sources.onnx_graph import inputs
from scripts.frontends.torch_model import convert
from scripts.frontends.torch_model.errors import first_line
from scripts.frontends.torch_model.loading import LoadedModel
from scripts.supervise.diagnose import failure_signature

OPTIONS = {"dialect": ("torch", "stablehlo", "linalg-on-tensors")}
REWRITES: dict[str, tuple[str, ...]] = {}
SOURCES = ("onnx",)
TESTS = ("eval",)
VERSIONS = {"torch-mlir": "frontend", "torch": "torch", "onnx": "onnx"}
MEMORY_FACTOR = 2.0
FORKABLE = True
DYNAMIC = True

ENTRY = "forward"
TRY_CPU_S = 120
"""CPU seconds of each part of a graph that is tried."""
_NAMED = re.compile(r'name = "(onnx\.\w+)"')
"""Of an operator that the conversion does not know, in its message."""
_TO_BACKEND_IR = "builtin.module(torch-onnx-to-torch-backend-pipeline)"


def export(loaded: LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """Lower a graph to the dialect `options["dialect"]`; return it with the seconds of each step.

    Raises UnsupportedProgram with all operators of the graph that torch-mlir does not convert. If torch-mlir crashes or fails, this
    process prints which operators are known to make it do that, and ends in the same way.
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
        code, ended = forked(model, options["dialect"])
    if not ended.text:
        graph = onnx_parts.Graph.of(model, computed_types(model, loaded))
        if ended.unsupported or ended.early:
            raise_unsupported(graph, ended)
        if code != -signal.SIGKILL:  # it is from outside
            print(f"{exits.CAUSE}{failing(graph, options['dialect'], code, ended)}", file=sys.stderr, flush=True)  # fmt: skip
        process.exit_like(code or 1)
    rewrites: tuple[str, ...] = ()
    text = ended.text
    if options["dialect"] == "stablehlo":
        text, rewrites = for_iree(text)
    return Lowered(text, ENTRY, arguments, rewrites=rewrites, origins=origins), seconds


@dataclass(frozen=True)
class Lowering:
    """The result of torch-mlir for a graph, if it did not crash. `text`: the program. `unsupported`: the operators that it does not
    convert, as far as it names them. `early`: whether it failed while it converted operators of ONNX. `failure`: its message, equal for
    failures of one cause."""

    text: str = ""
    unsupported: tuple[str, ...] = ()
    early: bool = False
    failure: str = ""


def forked(model: onnx.ModelProto, dialect: str, quiet: bool = False) -> tuple[int, Lowering]:
    """Lower a graph in a forked process: its exit code (process.forked), and the result. `quiet`: without messages, and for
    TRY_CPU_S seconds of CPU time at most."""
    with tempfile.TemporaryFile() as messages:

        def work() -> bytes:
            if quiet:
                resource.setrlimit(resource.RLIMIT_CPU, (TRY_CPU_S, TRY_CPU_S))
            os.dup2(messages.fileno(), 2)  # torch-mlir prints its diagnostics there
            return json.dumps(asdict(_lowering(model, dialect))).encode()

        code, answer = process.forked(work)
        messages.seek(0)
        said = messages.read().decode(errors="replace")
    if not quiet:
        print(said, end="", file=sys.stderr, flush=True)
    ended = Lowering(**json.loads(answer)) if answer else Lowering()
    if code or ended.text:
        return code, ended
    first = next((line for line in said.splitlines() if " error: " in line), ended.failure)
    named = (*ended.unsupported, *_NAMED.findall(first))
    return code, replace(ended, unsupported=named, failure=failure_signature(first))


def _lowering(model: onnx.ModelProto, dialect: str) -> Lowering:
    """Lower a graph; print the traceback if that fails."""
    early = True
    try:
        imported = _imported(model)
        _run(imported, _TO_BACKEND_IR)
        if left := _left(imported):
            return Lowering(unsupported=tuple(left))
        early = False
        compiler_utils.lower_mlir_module(False, compiler_utils.OutputType.get(dialect), imported)
        return Lowering(str(imported.operation.get_asm(enable_debug_info=True)))
    except onnx_importer.OnnxImportError as error:
        return Lowering(unsupported=(f"the graph: {first_line(error)}",))
    except Exception as error:
        traceback.print_exc()
        return Lowering(early=early, failure=f"{type(error).__name__}: {first_line(error)}")


def raise_unsupported(graph: onnx_parts.Graph, ended: Lowering) -> None:
    """Raise UnsupportedProgram if torch-mlir does not convert an operator of a graph: with all that it does not."""
    code, answer = process.forked(lambda: json.dumps(unsupported(graph)).encode())
    alone = [] if code else json.loads(answer)
    domains = {f"onnx.{node.op_type}": onnx_parts.operator_of(node) for node in graph.nodes}
    if refused := dict.fromkeys(domains.get(name, name) for name in (*ended.unsupported, *alone)):
        raise UnsupportedProgram(f"torch-mlir does not convert {', '.join(sorted(refused))}")


def failing(graph: onnx_parts.Graph, dialect: str, code: int, ended: Lowering) -> str:
    """The operators of a graph with which torch-mlir fails in the same way, in words."""

    def fails(part: onnx.ModelProto) -> bool:
        other, how = forked(part, dialect, quiet=True)
        return (other, bool(how.text), how.failure) == (code, False, ended.failure)

    return onnx_parts.failing(graph, fails, onnx_parts.CRASHES if code else onnx_parts.FAILS)


def computed_types(model: onnx.ModelProto, loaded: LoadedModel) -> dict[str, onnx.TypeProto]:
    """The types of the values that the nodes of a graph compute, as ONNX Runtime has them for the inputs of this call; none where it does
    not run the graph, or sizes are open."""
    if loaded.dimensions:
        return {}
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    names = dict.fromkeys(name for node in whole.graph.node for name in node.output if name)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    weights = dict(loaded.module.named_buffers())
    given = {value.name: loaded.kwargs.get(value.name, weights.get(value.name)) for value in inputs(whole)}  # fmt: skip
    try:
        values = OnnxModule(whole.SerializeToString(), whole, {}).values(given)
    except Exception as error:  # ONNX Runtime's classes have no common base
        print(f"note: types of values are those that onnx infers: {first_line(error)}", flush=True)
        return {}
    return {
        name: onnx.helper.make_tensor_type_proto(value.element_type(), value.shape())
        for name, value in values.items()
        if value.is_tensor()
    }


def with_types(model: onnx.ModelProto, loaded: LoadedModel) -> onnx.ModelProto:
    """The model with the sizes of this call's inputs and results, and without other types. With dynamic dimensions, results have
    none: what follows from the inputs is inferred."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    graph = typed.graph
    graph.name = ENTRY
    del graph.value_info[:]
    results = loaded.module(**loaded.kwargs)
    for value, kind in zip(inputs(typed), loaded.input_types, strict=True):
        set_type(value, kind)
    for value in graph.output:
        kind = convert.tensor_type(value.name, results[value.name])
        if loaded.dimensions:
            kind = dataclasses.replace(kind, shape=(OPEN,) * len(kind.shape))
        set_type(value, kind)
    return typed


def with_weights_as_inputs(
    model: onnx.ModelProto, loaded: LoadedModel, weights: Mapping[str, TensorType]
) -> list[Argument]:
    """Make the initializers that are weights inputs of the graph, in place; return what each input represents."""
    graph = model.graph
    left = [tensor for tensor in graph.initializer if tensor.name not in weights]
    own = [*inputs(model)]
    there = {tensor.name for tensor in graph.initializer}
    arguments: list[Argument] = [Input(kind, at) for at, kind in enumerate(loaded.input_types)]
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
    """Give each node a separate name, in place, and return where it is from: torch.onnx names nodes by modules
    (`/encoder/layer.0/MatMul`)."""
    nodes: dict[str, Origin] = {}
    classes: dict[str, str] = {}
    for number, node in enumerate(model.graph.node):
        name = (node.name or f"{node.op_type}_{number}").replace('"', "'")
        if name in nodes:
            name = f"{name}_{number}"
        node.name = name
        path = ".".join(part for part in name.split("/")[:-1] if part) if "/" in name else None
        nodes[name] = Origin(name, onnx_parts.operator_of(node), path)
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


def unsupported(graph: onnx_parts.Graph) -> list[str]:
    """The operators of a graph that torch-mlir does not convert, each once: every node is tried alone."""
    refused: dict[str, None] = {}
    for at, alone in graph.each_alone():
        operator = f"onnx.{graph.nodes[at].op_type}"
        if operator in refused or alone is None:
            continue
        try:
            _run(imported := _imported(alone), _TO_BACKEND_IR)
        except (compiler_utils.TorchMlirCompilerError, onnx_importer.OnnxImportError):
            refused[operator] = None
        else:
            refused |= dict.fromkeys(_left(imported))
    return list(refused)
