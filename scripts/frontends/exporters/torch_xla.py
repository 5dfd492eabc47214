"""torch.export → PyTorch/XLA's StableHLO, by tracing the exported graph with lazy tensors.

The bundle that `exported_program_to_stablehlo` makes gives for each argument of its function the
name of its parameter, input or constant in the exported program. So the archive of the reference
can be used as for every other frontend.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# Tracing computes nothing, but lazy tensors need a device.
os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch._decomp import decomposition_table
from torch.utils._pytree import tree_map_only
from torch_xla import stablehlo

from scripts.core.tensors import TensorType
from scripts.frontends.lowering import capture, fx_rewrites
from scripts.frontends.lowering.capture import timed
from scripts.frontends.lowering.link import Argument, Constant, Input, Lowered
from scripts.frontends.lowering.stablehlo import NODE, for_iree, for_parser
from scripts.frontends.torch_model import errors, loading

OPTIONS = {"rewrites": ("all", "needed", "none")}
REWRITES = {
    "fold-constant-nonzero": ("stablehlo",),
    "sum-over-dimensions": ("stablehlo",),
    "dot-as-sum": ("stablehlo",),
    "norm-of-order-0-as-sum": ("stablehlo",),
    "diagonal-as-slice": ("stablehlo",),
    "sums-of-16-bits-in-float32": ("stablehlo",),
    "variances-of-16-bits-in-float32": ("stablehlo",),
    "clamp-by-one-limit": ("stablehlo",),
    "product-of-one-row": ("stablehlo",),
    "sum-of-products-by-dimension": ("stablehlo",),
    "types-promoted-first": ("stablehlo",),
    "number-as-tensor": ("stablehlo",),
    "tan-by-quadrants": ("stablehlo",),
    "logcumsumexp-by-doubling": ("stablehlo",),
    "sum-into-itself-apart": ("stablehlo",),
    "update-of-copy": ("stablehlo",),
    "pow-of-booleans": ("stablehlo",),
    "pow-of-size": ("stablehlo",),
    "whole-pow-of-size": ("stablehlo",),
    "atan2-by-signs": ("stablehlo",),
    "floor-divide-by-remainder": ("stablehlo",),
    "scan-of-booleans-in-int64": ("stablehlo",),
    "scatter-mean-as-sum": ("stablehlo",),
    "scatter-without-self": ("stablehlo",),
    "scatter-sum-as-add": ("stablehlo",),
    "scatter-add-by-rows": ("stablehlo",),
    "gather-by-rows": ("stablehlo",),
    "scatter-reduce-by-columns": ("stablehlo",),
    "mask-index-at-full-length": ("stablehlo",),
    "attention-of-masked-rows": ("stablehlo",),
    "scatter-from-memory": ("stablehlo",),
    "embedding-bag-as-sum": ("stablehlo",),
    "windows-within-input": ("stablehlo",),
    "max-pool-indices-by-offsets": ("stablehlo",),
    "max-pool-gradient-by-offsets": ("stablehlo",),
    "batch-norm-by-deviations": ("stablehlo",),
    "rows-packed-by-batch": ("stablehlo",),
}
TESTS = ("eval", "train")
VERSIONS = {"torch_xla": "frontend", "torch": "torch"}
MEMORY_FACTOR = 2.4
FORKABLE = True
DYNAMIC = True

# torch_xla replaces it by a class that torch.export does not capture ("Unable to cast NotImplemented to Tensor", PyTorch/XLA 2.9).
torch.nn.GRU = getattr(torch.nn.GRU, "_orig", torch.nn.GRU)

ENTRY = "main"
LSTM = "lstm-states-in-shape"
"""The rewrite of a graph with an LSTM."""

_NOT_CAPTURABLE = "This model contains ops not capturable by Pytorch/XLA: "


def _lstm(inputs: torch.Tensor, states: list[torch.Tensor], *options: Any) -> tuple:
    """PyTorch's decomposition of an LSTM, with its last states in the shape of the first ones, [layers, batch, size].

    In PyTorch 2.9 they are [layers, 1, batch, size]: `one_layer_lstm` drops the dimension of the batch, if that is 1, in place of
    the one that it has added.
    """
    output, *last = decomposition_table[torch.ops.aten.lstm.input](inputs, states, *options)
    return output, *(new.view(old.shape) for new, old in zip(last, states, strict=True))


DECOMPOSITIONS = {torch.ops.aten.lstm.input: _lstm}
"""Operators that PyTorch/XLA lets PyTorch decompose, and PyTorch does so wrongly."""


def export(loaded: loading.LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """Lower a model to StableHLO; return it with the seconds of each step.

    `options["rewrites"]`: `needed` rewrites the graph so that PyTorch/XLA accepts it, and the StableHLO
    so that IREE accepts it. `all` also rewrites the graph so that it is faster. `none` changes neither.

    Raises capture.UnsupportedProgram naming the operators that PyTorch/XLA cannot lower, and
    whatever torch.export and torch_xla raise.
    """
    capture.warm_up()
    if loaded.dimensions:
        # Without it, PyTorch/XLA refuses dynamic sizes. It is set only here, so that other programs stay what they are.
        os.environ["EXPERIMENTAL_XLA_UNBOUNDED_DYNAMISM"] = "1"
    seconds: dict[str, float] = {}
    with timed(seconds, "capture"):
        captured = capture.capture(loaded)
    with timed(seconds, "functionalize"):
        # Only a functional graph shows what it changes; PyTorch/XLA drops such changes silently.
        table, quantization = {}, {}
        if options["rewrites"] != "none":
            # PyTorch/XLA 2.9 makes custom calls of them, which it cannot write as StableHLO.
            table, quantization = DECOMPOSITIONS, capture.quantization(captured)
        program = capture.functional(captured, table | quantization)
        capture.results(program)
    called = {node.target for node in captured.program.graph.nodes}
    rewrites = [LSTM] if called & table.keys() else []
    rewrites += [capture.BY_TORCH] if quantization else []
    if options["rewrites"] != "none":
        with timed(seconds, "rewrite"):
            speed = fx_rewrites.SPEED if options["rewrites"] == "all" else ()
            rewrites += fx_rewrites.apply(program, (*REWRITES, *speed))
    left_out: dict[str, str] = {}
    origins, operators = capture.origins(program, left_out), capture.operators(program)
    with timed(seconds, "lower"):
        bundle = _bundle(program)
    arguments = _arguments(capture.arguments(captured, program), bundle)
    text = for_parser(bundle.stablehlo_funcs[0].text)
    if options["rewrites"] != "none":
        with timed(seconds, "rewrite"):
            changing = loaded.changing if options["rewrites"] == "all" else ()
            text, names = for_iree(text, arguments, changing)
        rewrites += names
    lowered = Lowered(
        text,
        ENTRY,
        arguments,
        rewrites=tuple(rewrites),
        origins=origins,
        left_out=left_out,
        operators=operators,
    )
    return lowered, seconds


def _lower_with_metadata() -> None:
    """Make PyTorch/XLA keep the metadata of nodes in all that it lowers.

    PyTorch/XLA 2.9 reads XLA_HLO_DEBUG once, when it first lowers something. The export sets it too late for a model with a buffer that is one
    number, such as the counter of a batch norm, which is lowered with the inputs.
    """
    os.environ["XLA_HLO_DEBUG"] = "1"
    number = torch.ones((), device=torch_xla.device())
    _ = number + number
    torch_xla.sync()
    os.environ["XLA_HLO_DEBUG"] = "0"


def _with_different_numbers(program: torch.export.ExportedProgram) -> None:
    """Give each example input without dimensions a value of its own, which the program does not depend on.

    PyTorch/XLA 2.9 takes inputs without dimensions for one if they have the same type and value.
    """
    numbers = [t for t in (*program.state_dict.values(), *program.constants.values()) if isinstance(t, torch.Tensor) and not t.dim()]  # fmt: skip
    used_values = {(number.dtype, number.item()) for number in numbers}

    def different(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim():
            return tensor
        values = (False, True) if tensor.dtype is torch.bool else range(2, 127)
        own = next((value for value in values if (tensor.dtype, value) not in used_values), None)
        if own is None:
            raise capture.UnsupportedProgram(f"{len(values)} or more inputs without dimensions are {tensor.dtype}; PyTorch/XLA takes equal ones for one")  # fmt: skip
        used_values.add((tensor.dtype, own))
        return torch.full_like(tensor, own)

    program.example_inputs = tree_map_only(torch.Tensor, different, program.example_inputs)


def _bundle(program: torch.export.ExportedProgram) -> stablehlo.StableHLOModelBundle:
    _lower_with_metadata()
    _with_different_numbers(program)
    # Metadata of nodes becomes the text of locations, where the name of the node is enough.
    for node in program.graph.nodes:
        node.meta["custom"] = {NODE: node.name}
        node.meta.pop("stack_trace", None)
        # PyTorch 2.9 reads it if sizes are open.
        node.meta["nn_module_stack"] = {}
    # Weights are in the archive. Copied back from the lazy device they would be a second copy.
    wanted = stablehlo.StableHLOExportOptions(export_weights=False, export_node_metadata=True)
    try:
        return stablehlo.exported_program_to_stablehlo(program, wanted)._bundle
    except RuntimeError as error:
        # There are kernels of while_loop (torch_xla.experimental.fori_loop), whose results are wrong where a carried value is
        # constant at first.
        if operators := capture.control_flow(program):
            named = f"unsupported operator {', '.join(operators)}: {errors.first_line(error)}"
            raise capture.UnsupportedProgram(named) from error
        if not str(error).startswith(_NOT_CAPTURABLE):
            raise
        refused = ", ".join(str(error).removeprefix(_NOT_CAPTURABLE).split())
        raise capture.UnsupportedProgram(f"ops not capturable by PyTorch/XLA: {refused}") from error
    finally:
        # If the export raised, it left this at 1, with which the inputs of another program cannot be lowered.
        os.environ["XLA_HLO_DEBUG"] = "0"


def _arguments(
    known: Mapping[str, Argument], bundle: stablehlo.StableHLOModelBundle
) -> list[Argument]:
    """What each argument of the StableHLO function represents, from the bundle's locations."""
    inputs = {a.position: a for a in known.values() if isinstance(a, Input)}
    arguments: list[Argument] = []
    meta = bundle.stablehlo_funcs[0].meta
    for location, signature in zip(meta.input_locations, meta.input_signature, strict=True):
        match location.type_:
            case stablehlo.VariableType.INPUT_ARG:
                arguments.append(inputs[location.position])
            case stablehlo.VariableType.PARAMETER:
                arguments.append(known[location.name])
            case stablehlo.VariableType.CONSTANT:
                value = bundle.additional_constants[location.position]
                kind = TensorType(
                    f"constant {location.position}", tuple(signature.shape), signature.dtype
                )
                arguments.append(Constant(kind, value))
    return arguments
