"""torch.export → torch-mlir, with every weight an argument rather than a literal.

`fx.export_and_import` writes each weight into the program as hex text. Importing the same
decomposed graph statelessly makes arguments of them; everything else is the same pipeline.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree
from torch_mlir import compiler_utils, ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import FxImporter

from scripts.lib import model
from scripts.lib.link import Argument, Constant, Input, Lowered, Parameter

OPTIONS = {"dialect": ("torch", "stablehlo", "linalg-on-tensors")}
"""What a frontend may set, and to what: checked before anything runs, so a plain literal."""
ENTRY = "forward"
PACKAGE = "torch-mlir"
"""Distribution whose version is the frontend's version."""

# What torch_mlir.fx.export_and_import runs between import and the output dialect.
_TO_BACKEND_IR = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline)"
)


class UnsupportedProgram(Exception):
    """A program that this road does not take; names the construct."""


def export(loaded: model.LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """Lower a model to the dialect `options["dialect"]`; also seconds of each step.

    Raises UnsupportedProgram, or what torch.export and torch-mlir raise.
    """
    dialect = options["dialect"]
    _warm_up()
    seconds: dict[str, float] = {}
    with _timed(seconds, "capture"):
        program = torch.export.export(loaded.module, loaded.args, loaded.kwargs, strict=False)
    with _timed(seconds, "decompose"):
        program = program.run_decompositions(get_decomposition_table())
    with _timed(seconds, "import"):
        context = ir.Context()
        torch_dialect.register_dialect(context)
        importer = FxImporter(context=context)
        importer.import_stateless_graph(program.graph, func_name=ENTRY)
        module = importer.module
    with _timed(seconds, "lower"):
        compiler_utils.run_pipeline_with_repro_report(
            module, _TO_BACKEND_IR, "Lowering TorchFX IR -> Torch Backend IR"
        )
        compiler_utils.lower_mlir_module(False, compiler_utils.OutputType.get(dialect), module)
    lowered = Lowered(
        text=str(module),
        entry=ENTRY,
        arguments=_arguments(program, loaded),
        results=_results(program),
    )
    return lowered, seconds


def _arguments(program: torch.export.ExportedProgram, loaded: model.LoadedModel) -> list[Argument]:
    """What each argument of the imported function is, in order."""
    weights, aliases = model.named_weights(loaded.module)
    order = iter(_input_order(program, loaded))
    arguments: list[Argument] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            position = next(order)
            # A constant (None, a number) keeps its placeholder in the graph but is no tensor.
            if position is None:
                raise UnsupportedProgram(f"input {spec.arg.name} is not a tensor")
            path, tensor = loaded.inputs[position]
            arguments.append(Input(model.tensor_type(path, tensor), position))
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            key = aliases.get(spec.target, spec.target)
            if key not in weights:
                raise UnsupportedProgram(f"weight {spec.target} is not in the model's state")
            arguments.append(Parameter(model.tensor_type(key, weights[key])))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            value = program.constants[spec.target]
            arguments.append(Constant(model.tensor_type(spec.target, value), model.to_numpy(value)))
        else:
            raise UnsupportedProgram(f"input {spec.arg} of kind {spec.kind.name}")
    return arguments


def _input_order(
    program: torch.export.ExportedProgram, loaded: model.LoadedModel
) -> list[int | None]:
    """Position in the reference's order of each user input of the program.

    torch.export may order keyword arguments as `forward` does rather than as they were given.
    """
    in_spec = program.call_spec.in_spec
    names = in_spec.child(1).context
    kwargs = {name: loaded.kwargs[name] for name in names}
    leaves, _ = pytree.tree_flatten((loaded.args, kwargs))
    positions = {id(tensor): i for i, (_, tensor) in enumerate(loaded.inputs)}
    return [positions.get(id(leaf)) for leaf in leaves]


def _results(program: torch.export.ExportedProgram) -> list[int]:
    """Indices of the results that are the user's tensors."""
    chosen: list[int] = []
    for index, spec in enumerate(program.graph_signature.output_specs):
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise UnsupportedProgram(
                f"the model changes {spec.target or spec.arg} in place ({spec.kind.name}): "
                "a call would depend on the calls before it"
            )
        if hasattr(spec.arg, "name"):
            chosen.append(index)
    return chosen


def _warm_up() -> None:
    """Capture nothing much once: the first capture of a process imports half of torch."""
    tiny = torch.export.export(torch.nn.ReLU(), (torch.zeros(1),), strict=False)
    tiny.run_decompositions({})


class _timed:
    """Context that adds the seconds spent in it to `into[step]`."""

    def __init__(self, into: dict[str, float], step: str) -> None:
        self.into, self.step = into, step

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.into[self.step] = round(time.perf_counter() - self.start, 4)
