"""torch.export → torch-mlir, with every weight an argument rather than a literal.

`fx.export_and_import` writes each weight into the program as hexadecimal text. Importing the same
decomposed graph statelessly makes the weights arguments. The rest of the pipeline is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_mlir import compiler_utils, ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import ContextCache, FxImporter, GraphNodeImporter

from scripts.core.tensors import TensorType
from scripts.frontends.lowering import capture, fx_rewrites
from scripts.frontends.lowering.capture import timed
from scripts.frontends.lowering.fx_rewrites.edit import argument
from scripts.frontends.lowering.link import Argument, Constant, Input, Lowered
from scripts.frontends.lowering.locations import below
from scripts.frontends.lowering.stablehlo import for_iree
from scripts.frontends.torch_model import convert, loading

OPTIONS = {
    "dialect": ("torch", "stablehlo", "linalg-on-tensors"),
    "rewrites": ("all", "needed", "none"),
}
REWRITES = {
    "adaptive-average-by-masks": ("torch", "stablehlo", "linalg-on-tensors"),
    "fold-constant-nonzero": ("torch", "stablehlo", "linalg-on-tensors"),
    "nothing-as-constant": ("torch", "stablehlo", "linalg-on-tensors"),
    "equal-to-itself-as-number": ("torch", "stablehlo", "linalg-on-tensors"),
    "constants-compared-as-floats": ("torch", "stablehlo", "linalg-on-tensors"),
    "diagonal-as-slice": ("stablehlo",),
    "limits-keep-nan": ("torch", "linalg-on-tensors"),
    "sums-of-16-bits-in-float32": ("torch", "stablehlo", "linalg-on-tensors"),
    "sums-of-booleans-in-int32": ("torch", "stablehlo", "linalg-on-tensors"),
    "products-of-8-bits-in-int32": ("torch", "linalg-on-tensors"),
    "product-of-one-row": ("torch", "stablehlo", "linalg-on-tensors"),
    "sum-of-products-by-dimension": ("torch", "stablehlo", "linalg-on-tensors"),
    "bytes-in-int32": ("torch", "linalg-on-tensors"),
    "types-promoted-first": ("stablehlo",),
    "number-as-tensor": ("torch", "stablehlo", "linalg-on-tensors"),
    "unsigned-bytes-in-wider-type": ("torch", "linalg-on-tensors"),
    "shifts-and-extremes-in-int32": ("stablehlo",),
    "asinh-of-size": ("torch", "linalg-on-tensors"),
    "hyperbolic-near-zero": ("torch", "linalg-on-tensors"),
    "tan-by-quadrants": ("torch", "stablehlo", "linalg-on-tensors"),
    "gelu-as-tanh": ("torch", "linalg-on-tensors"),
    "logcumsumexp-by-doubling": ("torch", "stablehlo", "linalg-on-tensors"),
    "log10-by-log": ("torch", "linalg-on-tensors"),
    "index-put-of-itself": ("torch", "stablehlo", "linalg-on-tensors"),
    "sum-into-itself-apart": ("torch", "stablehlo", "linalg-on-tensors"),
    "update-of-copy": ("torch", "stablehlo", "linalg-on-tensors"),
    "rms-norm-in-float32": ("torch", "stablehlo", "linalg-on-tensors"),
    "rms-norm-with-epsilon": ("torch", "stablehlo", "linalg-on-tensors"),
    "roll-within-size": ("torch", "stablehlo", "linalg-on-tensors"),
    "sorts-of-own-shapes": ("torch", "linalg-on-tensors"),
    "upsample-nearest-by-index": ("torch", "stablehlo", "linalg-on-tensors"),
    "pow-of-booleans": ("torch", "stablehlo", "linalg-on-tensors"),
    "atan2-by-signs": ("torch", "stablehlo", "linalg-on-tensors"),
    "pow-of-size": ("torch", "stablehlo", "linalg-on-tensors"),
    "negative-pow-as-reciprocal": ("torch", "stablehlo", "linalg-on-tensors"),
    "whole-pow-of-size": ("stablehlo",),
    "remainder-by-sign": ("stablehlo",),
    "fmod-by-remainder": ("torch", "stablehlo", "linalg-on-tensors"),
    "floor-divide-by-remainder": ("torch", "stablehlo", "linalg-on-tensors"),
    "averages-of-whole-windows": ("stablehlo",),
    "transposed-convolution-cropped-after": ("torch", "linalg-on-tensors"),
    "negative-padding-as-slice": ("torch", "linalg-on-tensors"),
    "index-from-the-front": ("stablehlo",),
    "scatter-dimension-from-the-front": ("torch", "linalg-on-tensors"),
    "scatter-mean-as-sum": ("torch", "stablehlo", "linalg-on-tensors"),
    "scatter-without-self": ("torch", "stablehlo", "linalg-on-tensors"),
    "scatter-reduce-into-neutral": ("stablehlo",),
    "scatter-sum-as-add": ("torch", "stablehlo", "linalg-on-tensors"),
    "scatter-add-by-rows": ("torch", "stablehlo", "linalg-on-tensors"),
    "gather-by-rows": ("torch", "stablehlo", "linalg-on-tensors"),
    "mask-index-at-full-length": ("torch", "stablehlo", "linalg-on-tensors"),
    "scatter-reduce-by-columns": ("torch", "stablehlo", "linalg-on-tensors"),
    "scatter-from-memory": ("torch", "stablehlo", "linalg-on-tensors"),
    "embedding-bag-as-sum": ("torch", "stablehlo", "linalg-on-tensors"),
    "max-pool-with-end-padding": ("stablehlo",),
    "max-pool-indices-by-offsets": ("torch", "stablehlo", "linalg-on-tensors"),
    "max-pool-gradient-by-offsets": ("torch", "stablehlo", "linalg-on-tensors"),
    "grouped-convolution-gradients-by-offsets": ("torch", "stablehlo", "linalg-on-tensors"),
    "slice-scatter-as-concatenation": ("stablehlo",),
    "empty-as-zeros": ("torch", "stablehlo", "linalg-on-tensors"),
    "loops-with-open-condition": ("torch", "stablehlo", "linalg-on-tensors"),
    "loops-carry-all": ("torch", "stablehlo", "linalg-on-tensors"),
    "rows-packed-by-batch": ("torch", "stablehlo", "linalg-on-tensors"),
}
_DECOMPOSED_WRONGLY = ("adaptive-average-by-masks",)
"""Rewrites of operators that no later one would find."""
TESTS = ("eval", "train")
VERSIONS = {"torch-mlir": "frontend", "torch": "torch"}
MEMORY_FACTOR = 1.0
FORKABLE = True
DYNAMIC = True

ENTRY = "forward"
_REFUSED = "failed to legalize operation '"
_VALUES = ("torch.constant.", "torch.vtensor.literal")
"""Operations that are only what an operator takes: torch-mlir names the first one that is left."""
# What a program computes with; the rest of the dialect are constants and lists of them.
_OPERATORS = (
    *("torch.aten.", "torch.prims.", "torch.operator", "torch.torchvision."),
    *("torch.quantized_decomposed.", "torch.prim.Loop", "torch.prim.If", "torch.hop_"),
)
_CONTROL_FLOW = {
    "torch.prim.Loop": "torch.ops.higher_order.while_loop",
    "torch.prim.If": "torch.ops.higher_order.cond",
}
"""Operations of torch-mlir that are operators of control flow."""

_REWRITTEN = (
    *("index", "indices", "scatter", "nonzero", "gather"),
    *("convolution_backward", "empty_permuted", "isfinite", "maximum", "minimum", "clamp"),
    *("hardtanh", "asinh", "logcumsumexp", "log10", "constant_pad_nd", "remainder", "fmod"),
    *("floor_divide", "_mode", "avg_pool", "pow", "atan2", "roll", "rms_norm", "upsample_nearest"),
    *("max_pool", "sinh", "atanh", "aten.tan.", "gelu.", "diagonal", "expand", "sort", "topk"),
)
"""What is in the names of operators that an FX rewrite may change."""
_NARROW = (torch.bool, torch.uint8, torch.int8)
"""Types of operands for which one may change an operator."""
_ADDS = ("sum", "mean", "vector_norm")
"""What is in the names of operators that one changes in types of 16 bits, and if they add products."""

_BODIES = {
    "prod": "stablehlo.multiply",
    "amax": "stablehlo.maximum",
    "amin": "stablehlo.minimum",
}
"""The operations of StableHLO that a scatter_reduce computes."""

_decompositions = functools.cache(get_decomposition_table)

# What torch_mlir.fx.export_and_import runs between import and the output dialect.
_TO_BACKEND_IR = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline)"
)


def export(loaded: loading.LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """Lower a model to the dialect `options["dialect"]`; return it with the seconds of each step.

    `options["rewrites"]`: `needed` rewrites the graph so that the lowering path accepts it, `all` also so that
    it is faster. `none` leaves it as captured.

    Raises capture.UnsupportedProgram, and whatever torch.export and torch-mlir raise.
    """
    dialect = options["dialect"]
    capture.warm_up()
    seconds: dict[str, float] = {}
    with timed(seconds, "capture"):
        captured = capture.capture(loaded)
    further = {} if options["rewrites"] == "none" else _quantization(captured, dialect)
    rewrites = (capture.BY_TORCH,) * bool(further)
    if options["rewrites"] != "none":
        rewrites += fx_rewrites.apply(captured.program, _DECOMPOSED_WRONGLY)
    with timed(seconds, "decompose"):
        program = capture.functional(captured, get_decomposition_table() | further)
    if options["rewrites"] != "none":
        with timed(seconds, "rewrite"):
            wanted = [name for name, dialects in REWRITES.items() if dialect in dialects]
            wanted += fx_rewrites.SPEED if options["rewrites"] == "all" else ()
            rewrites += fx_rewrites.apply(program, wanted)
    arguments = list(capture.arguments(captured, program).values())
    left_out: dict[str, str] = {}
    origins, results = capture.origins(program, left_out), capture.results(program)
    operators = capture.operators(program)
    for_stablehlo = options["rewrites"] != "none" and dialect == "stablehlo"
    bodies = _scatters_as_sums(program.graph) if for_stablehlo else {}
    text = lower(program.graph, dialect, seconds)
    if for_stablehlo:
        with timed(seconds, "rewrite"):
            changing = loaded.changing if options["rewrites"] == "all" else ()
            text, names = for_iree(text, arguments, changing, bodies)
        rewrites += names
    lowered = Lowered(text, ENTRY, arguments, results, rewrites, origins, left_out, operators)
    return lowered, seconds


def _scatters_as_sums(graph: fx.Graph) -> dict[str, str]:
    """Make each scatter_reduce of a graph, which begins with what its reduction leaves unchanged, a scatter_add: torch-mlir 20261001 lowers no other one to
    StableHLO. Returns the operation that each is to compute instead of a sum, by node, for `for_iree`."""
    bodies = {}
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.scatter_reduce.two):
        body = _BODIES.get(node.args[4])
        if body and argument(node, "include_self") and node.meta["val"].dtype is not torch.bool:
            node.target, node.args, node.kwargs = (
                torch.ops.aten.scatter_add.default,
                node.args[:4],
                {},
            )
            bodies[node.name] = body
    return bodies


def export_graph(
    captured: Callable[[Mapping[Any, Callable]], fx.GraphModule],
    types: Sequence[TensorType],
    options: Mapping[str, Any],
    context: ir.Context | None = None,
) -> Lowered | None:
    """Lower a function without weights to a dialect, without torch.export; None if that is needed.

    torch.export takes ten times as long as everything else for a graph of a few operators. It is
    needed for graphs that a rewrite may change. `captured` returns the graph of functional operators
    under decompositions. `types`: of its arguments. `context`: to make many programs in.
    """
    dialect, rewrites = options["dialect"], options["rewrites"] != "none"
    graph = captured(_decompositions()).graph
    if rewrites and any(map(_may_change, graph.nodes)):
        return None
    names: list[str] = []
    further = _further_decompositions(graph) if rewrites else {}
    if further and not _is_accepted(graph, dialect):
        graph = captured(_decompositions() | further).graph
        names.append(capture.BY_TORCH)
    constants = _lifted(graph)
    text = lower(graph, dialect, {}, context)
    if rewrites and dialect == "stablehlo":
        text, changed = for_iree(text)
        names += changed
    arguments: list[Argument] = [
        *(Input(kind, position) for position, kind in enumerate(types)),
        *constants,
    ]
    return Lowered(text, ENTRY, arguments, rewrites=tuple(names))


def _lifted(graph: fx.Graph) -> list[Constant]:
    """Make the constants that a graph holds arguments behind its own, in place."""
    constants: list[Constant] = []
    first = next((node for node in graph.nodes if node.op != "placeholder"), None)
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        value = getattr(graph.owning_module, node.target)
        name = f"constant {len(constants)}"
        with graph.inserting_before(first):
            argument = graph.placeholder(f"lifted_{len(constants)}")
        argument.meta["val"] = FakeTensorMode().from_tensor(value)
        node.replace_all_uses_with(argument)
        constants.append(Constant(convert.tensor_type(name, value), convert.to_numpy(value)))
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        graph.erase_node(node)
    return constants


def _quantization(captured: capture.Captured, dialect: str) -> dict[Any, Callable]:
    """PyTorch's definitions of the operators of quantization that torch-mlir does not lower to a dialect.

    torch-mlir 20261001 knows quantize and dequantize, except in StableHLO, and fuses them with products.
    """
    definitions = capture.quantization(captured)
    if dialect == "stablehlo":
        return definitions
    # Its dialect calls them `quantized_decomposed_quantize_per_tensor`, for one.
    names = {op: str(op).removesuffix(".default").replace(".", "_") for op in definitions}
    return {op: definitions[op] for op in definitions if not hasattr(torch_dialect, names[op])}


def _is_accepted(graph: fx.Graph, dialect: str) -> bool:
    """Return whether torch-mlir lowers a graph to a dialect.

    Its own dialect is lowered by IREE, with the passes by which torch-mlir makes linalg.
    """
    try:
        lower(graph, "linalg-on-tensors" if dialect == "torch" else dialect, {})
    except compiler_utils.TorchMlirCompilerError:
        return False
    return True


def _further_decompositions(graph: fx.Graph) -> dict[Any, Callable]:
    """Return PyTorch's own decompositions of the operators of a graph; empty if there are none.

    Those into primitives of torch._refs are left out, because torch-mlir refuses more of these.
    """
    known = ((node.target, decomposition_table.get(node.target)) for node in graph.nodes)
    return {
        op: table for op, table in known if table and table.__module__.startswith("torch._decomp")
    }


def _may_change(node: fx.Node) -> bool:
    """Return whether an FX rewrite may change a node of a single operator: they are about tensors of indices, the
    maximum over windows, transposed convolutions, the gradients of convolutions and slices, and what values.py has: some operators, and
    any with booleans, bytes or nothing in its tensors.

    The rewrite of embedding bags is not: it needs offsets that the graph itself computes.
    """
    name = str(node.target).replace("select_scatter", "")
    tensors = [other.meta.get("val") for other in (node, *node.all_input_nodes)]
    adds = any(word in name for word in _ADDS)
    of_products = adds and any("aten.mul" in str(other.target) for other in node.all_input_nodes)
    is_transposed = node.target is torch.ops.aten.convolution.default and argument(
        node, "transposed"
    )
    return (
        of_products
        or is_transposed
        or any(word in name for word in _REWRITTEN)
        or any(
            tensor.dtype in _NARROW or not tensor.numel() or (adds and tensor.dtype.itemsize == 2)
            for tensor in tensors
            if isinstance(tensor, torch.Tensor)
        )
    )


def lower(
    graph: fx.Graph, dialect: str, seconds: dict[str, float], context: ir.Context | None = None
) -> str:
    """A module in `dialect` whose function ENTRY is a decomposed graph; its arguments are the graph's.

    The locations of its operations have the names of the graph's nodes. Adds the seconds of each step. Raises what torch-mlir raises.
    """
    with timed(seconds, "import"):
        context = context or ir.Context()
        torch_dialect.register_dialect(context)
        importer = FxImporter(context=context, graph_node_importer_cls=_NodeImporter)
        importer._cc = _NamedLocations(context, py_attr_tracker=importer._py_attr_tracker)
        # The functions of control flow, as import_frozen_program imports them.
        if graph.owning_module is not None:
            importer._import_all_child_modules(graph.owning_module, ENTRY)
        importer.import_stateless_graph(graph, func_name=ENTRY)
        module = importer.module
    with timed(seconds, "lower"):
        compiler_utils.run_pipeline_with_repro_report(
            module, _TO_BACKEND_IR, "Lowering TorchFX IR -> Torch Backend IR"
        )
        said: list[str] = []

        def hear(diagnostic: ir.Diagnostic) -> bool:
            said.append(diagnostic.message)
            return False  # it is printed too

        handler = context.attach_diagnostic_handler(hear)
        try:
            compiler_utils.lower_mlir_module(False, compiler_utils.OutputType.get(dialect), module)
        except compiler_utils.TorchMlirCompilerError as error:
            refused = said[0].partition(_REFUSED)[2] if said else ""
            if refused.startswith((*_VALUES, *_CONTROL_FLOW)) and (left := _not_lowered(module)):
                raise capture.UnsupportedProgram(left) from error
            raise
        finally:
            handler.detach()
    return module.operation.get_asm(enable_debug_info=True)


def _not_lowered(module: ir.Module) -> str:
    """What a lowering that failed has left of the torch dialect: the first operator, and the others; "" if
    there is none. torch-mlir's own message names the first operation that is left. That is often only
    the constant that the operator takes ('torch.constant.int', 'torch.vtensor.literal')."""
    left: dict[str, str] = {}
    for operation in below(module.operation, inner_first=True):
        if operation.name.startswith(_OPERATORS):
            left.setdefault(operation.name, str(operation).splitlines()[0])
    if not left:
        return ""
    for name, operator in _CONTROL_FLOW.items():
        if name in left:
            return f"failed to legalize operation '{name}', which is {operator}"
    (name, shown), *others = left.items()
    more = f" (and {', '.join(repr(other) for other, _ in others)})" if others else ""
    return f"failed to legalize operation '{name}'{more}: {shown}"


class _NodeImporter(GraphNodeImporter):
    """Imports torch.cond too, and names an operator with functions that it does not import. In torch-mlir 20261001 there are
    while_loop and flex_attention."""

    def _import_hop(self, loc: ir.Location, node: fx.Node, hop: Any) -> None:
        if not hasattr(self, f"_import_hop_{hop.name()}"):
            raise capture.UnsupportedProgram(
                f"unsupported operator torch.ops.higher_order.{hop.name()}: torch-mlir does not import it"
            )
        super()._import_hop(loc, node, hop)

    def _import_hop_cond(self, loc: ir.Location, node: fx.Node, hop: Any) -> None:
        """Make `torch.prim.If` of torch.cond; its functions have been imported."""
        predicate, *branches, operands = node.args
        with loc:
            types = [self._cc.value_info_to_type(result) for result in node.meta["val"]]
            chosen = self._import_argument(loc, predicate)
            if chosen.type != self._cc.torch_bool_type:
                chosen = ir.Operation.create(
                    "torch.aten.Bool.Tensor", [self._cc.torch_bool_type], [chosen]
                ).result
            values = [self._import_argument(loc, operand) for operand in operands]
            choice = ir.Operation.create("torch.prim.If", types, [chosen], regions=2)
            for region, branch in zip(choice.regions, branches, strict=True):
                function = node.graph.owning_module.get_submodule(branch.target)
                name = self.fx_importer._graph_module_to_func_name[id(function)]
                with ir.InsertionPoint(region.blocks.append()):
                    called = ir.Operation.create(
                        "func.call",
                        types,
                        values,
                        attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
                    )
                    ir.Operation.create("torch.prim.If.yield", operands=list(called.results))
        self._multi_result_nodes.add(node)
        for number, result in enumerate(choice.results):
            self.bind_node_value(node, result, number)


class _NamedLocations(ContextCache):
    """Makes the location of an operation from its node's name; the importer's own one, which has the line
    of the model's file, is inside it."""

    def get_node_location(self, node: fx.Node) -> ir.Location:
        inner = super().get_node_location(node) or ir.Location.unknown(context=self._c)
        return ir.Location.name(node.name, inner, context=self._c)
