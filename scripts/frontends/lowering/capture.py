"""Captures a model by torch.export for every exporter: with flat tensor inputs in the reference's order.

A capture tool may accept positional tensors only (torch_xla), or order keyword arguments as `forward`
does and not as given (torch.export). So the model is captured inside a module that takes the flat
tensors of the reference and reconstructs the call. None, numbers and strings among the arguments are
constants of the program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import _pytree as fx_pytree
from torch.fx.graph import _PyTreeCodeGen
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from scripts.core import extra
from scripts.core.tensors import CHANGE, GRADIENT, LOSS
from scripts.frontends.lowering import locations
from scripts.frontends.lowering.fx_rewrites import edit
from scripts.frontends.lowering.link import Argument, Constant, Input, Parameter, UnsupportedProgram
from scripts.frontends.lowering.locations import Origins
from scripts.frontends.torch_model import convert, errors
from scripts.frontends.torch_model.arguments import Optimizer
from scripts.frontends.torch_model.loading import (
    FLAT_PREFIX,
    FlatModel,
    LoadedModel,
    input_names,
    named_weights,
)
from scripts.frontends.torch_model.step import (
    Training,
    loss_of,
    make_optimizer,
    set_state,
    state_key,
    state_slots,
)


@dataclass(frozen=True)
class Captured:
    """An exported program of the flat model, and the model from which it was made. `renamed` has the
    model's own name of each state that has another name in the program."""

    program: ExportedProgram
    loaded: LoadedModel
    renamed: Mapping[str, str]


def capture(loaded: LoadedModel) -> Captured:
    """Export the model, or its training step; raises what torch.export raises."""
    inputs = tuple(tensor for _, tensor in loaded.inputs)
    with _modules_of_nodes(loaded.module):
        if loaded.training is None:
            program = torch.export.export(
                FlatModel(loaded).eval(), inputs, dynamic_shapes=_dynamic_shapes(loaded), strict=False
            )  # fmt: skip
        else:
            given = (*inputs, *map(convert.zeros, loaded.training.cotangents))
            program = _joint_graph(_Loss(loaded), given)
    return Captured(program, loaded, _without_quotes(program))


@contextlib.contextmanager
def _modules_of_nodes(module: torch.nn.Module) -> Iterator[None]:
    """While the context lasts, the graph of an exported program is interpreted node by node: what is captured from it then keeps
    the module that each node is of."""
    is_program = isinstance(module, torch.fx.GraphModule) and isinstance(
        module.graph._codegen, _PyTreeCodeGen
    )
    if not is_program:  # a part of a graph takes tensors, and nothing is known of its modules
        yield
        return
    own = {node: node.meta.get("nn_module_stack") for node in module.graph.nodes}
    for node, stack in own.items():
        node.meta["nn_module_stack"] = {
            key: (f"{FLAT_PREFIX}{path}".removesuffix("."), kind)
            for key, (path, kind) in (stack or {}).items()
        }

    def interpreted(*args: Any, **kwargs: Any) -> Any:
        leaves = fx_pytree.tree_flatten_spec((args, kwargs), module._in_spec)
        with torch.fx.traceback.preserve_node_meta():
            values = torch.fx.Interpreter(module).run(*leaves, enable_io_processing=False)
        return module.graph.process_outputs(values)

    module.forward = interpreted
    try:
        yield
    finally:
        del module.forward
        for node, stack in own.items():
            node.meta["nn_module_stack"] = stack


def _dynamic_shapes(loaded: LoadedModel) -> dict[str, dict[int, Any]] | None:
    """The dynamic dimensions of the flat model's inputs, as torch.export takes them; None if there are none.

    It has no multiples as such: an option with multiples of 8 is 8 times a symbol, and a dimension a multiple of that.
    """
    if not loaded.dimensions:
        return None
    roots: dict[str, Any] = {}
    by_input: list[dict[int, Any]] = [{} for _ in loaded.inputs]
    for dimension in loaded.dimensions:
        if dimension.option not in roots:
            least = max(1, -(-dimension.min // dimension.multiple_of))
            most = None if dimension.max is None else dimension.max // dimension.multiple_of
            roots[dimension.option] = torch.export.Dim(dimension.option, min=least, max=most)
        size, factor = roots[dimension.option], dimension.factor * dimension.multiple_of
        size = size if factor == 1 else factor * size
        by_input[dimension.position][dimension.axis] = (
            size + dimension.offset if dimension.offset else size
        )
    return dict(zip(input_names(len(by_input)), by_input, strict=True))


def functional(captured: Captured, decompositions: Mapping[Any, Callable]) -> ExportedProgram:
    """The captured program in functional operators, with these decompositions.

    Only then is known what it changes. That of a training step has the optimizer's update and returns what it changes.
    """
    program = captured.program.run_decompositions(dict(decompositions))
    if captured.loaded.training is None:
        return program
    return _completed(program, captured.loaded.module, captured.loaded.training)


def flat_program(loaded: LoadedModel) -> ExportedProgram:
    """The captured program in PyTorch's functional operators. Raises UnsupportedProgram if a call would depend on the calls before it."""
    program = functional(capture(loaded), {})
    results(program)
    return program


def origins(program: ExportedProgram, left_out: dict[str, str]) -> Origins:
    """What the names in the locations of a program represent; if that fails, `left_out` says why."""
    return extra.or_left_out(
        extra.LOCATIONS,
        lambda: locations.of_nodes(program.graph.nodes, FLAT_PREFIX),
        left_out,
        locations.UNKNOWN,
    )


BY_TORCH = "decompose-by-torch"
"""The rewrite of operators that a lowering path does not know, by PyTorch's own definition of them."""


def quantization(captured: Captured) -> dict[torch._ops.OpOverload, Callable]:
    """PyTorch's own definitions of the operators `quantized_decomposed` that a captured program calls, as decompositions.

    They are kernels in Python (torch.ao.quantization.fx._decomposed, PyTorch 2.15 and 2.9), and not in PyTorch's table of
    decompositions.
    """
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    called = {
        node.target
        for graph in _graphs(captured.program.graph_module)
        for node in graph.nodes
        if getattr(node.target, "namespace", "") == "quantized_decomposed"
    }
    return {
        op: functools.partial(op._op_dk, key)
        for op in called
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)
    }


def _graphs(module: torch.fx.GraphModule) -> list[torch.fx.Graph]:
    return [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]


def operators(program: ExportedProgram) -> dict[str, list[str]]:
    """The operators of a program (`add.Tensor`), each with the types of the tensors that it takes in any call."""
    kinds: dict[str, set[str]] = {}
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            name = str(node.target).removeprefix("aten.")
            dtypes = (edit.value(tensor).dtype for tensor in edit.operands(node))
            kinds.setdefault(name, set()).update(
                str(dtype).removeprefix("torch.") for dtype in dtypes
            )
    return {name: sorted(kinds[name]) for name in sorted(kinds)}


def control_flow(program: ExportedProgram) -> list[str]:
    """The operators with functions (`torch.ops.higher_order.cond`) that a program calls, in order."""
    called = (node.target for graph in _graphs(program.graph_module) for node in graph.nodes)
    operators = (op for op in called if isinstance(op, torch._ops.HigherOrderOperator))
    return list(dict.fromkeys(f"torch.ops.{op.namespace}.{op.name()}" for op in operators))


_NOT_QUOTED = re.compile(r'["\\\x00-\x1f\x7f]')


def _without_quotes(program: ExportedProgram) -> dict[str, str]:
    """Rename states whose names FX cannot write into generated code; return their original names.

    A name that is not an identifier is written between double quotes, without escapes
    (`torch.fx.graph._format_target`): a parameter `it"s` causes a SyntaxError.
    """
    signature, states = program.graph_signature, (program.state_dict, program.constants)
    state_names = {name for state in states for name in state}
    renamed: dict[str, str] = {}
    for old in [name for name in state_names if _NOT_QUOTED.search(name)]:
        new = _NOT_QUOTED.sub("_", old)
        while new in state_names:
            new += "_"
        state_names.add(new)
        renamed[new] = old
        for spec in (*signature.input_specs, *signature.output_specs):
            spec.target = new if spec.target == old else spec.target
        for state in states:
            if old in state:
                state[new] = state.pop(old)
    return renamed


def arguments(captured: Captured, program: ExportedProgram) -> dict[str, Argument]:
    """What each tensor argument of a captured program is, by the target name or placeholder
    that the program gives it, in the program's order.

    `program`: the same program after decompositions. Raises UnsupportedProgram for what no
    archive can hold.
    """
    loaded = captured.loaded
    weights, aliases = named_weights(loaded.module)
    types = {name: convert.tensor_type(name, weight) for name, weight in weights.items()}
    given = loaded.input_types
    if loaded.training is not None:
        given += loaded.training.cotangents
        types |= loaded.training.state
    inputs = iter(enumerate(given))
    by_name: dict[str, Argument] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            position, kind = next(inputs)
            by_name[spec.arg.name] = Input(kind, position)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            name = captured.renamed.get(spec.target, spec.target).removeprefix(FLAT_PREFIX)
            key = aliases.get(name, name)
            if key not in types:
                raise UnsupportedProgram(f"weight {name} is not in the model's state")
            by_name[spec.target] = Parameter(types[key])
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            value = program.constants[spec.target]
            kind = convert.tensor_type(spec.target, value)
            by_name[spec.target] = Constant(kind, convert.to_numpy(value))
        else:
            raise UnsupportedProgram(f"input {spec.arg} of kind {spec.kind.name}")
    return by_name


def results(program: ExportedProgram) -> list[int]:
    """Indices of the results that are the user's tensors.

    Raises UnsupportedProgram where a call would depend on the calls before it.
    """
    chosen: list[int] = []
    for index, spec in enumerate(program.graph_signature.output_specs):
        if spec.kind is not OutputKind.USER_OUTPUT:
            name = (spec.target or str(spec.arg)).removeprefix(FLAT_PREFIX)
            raise UnsupportedProgram(errors.changes_buffer(name, spec.kind.name))
        if hasattr(spec.arg, "name"):
            chosen.append(index)
    return chosen


@functools.cache
def warm_up() -> None:
    """Capture a trivial module: the first capture of a process imports much of torch."""
    tiny = torch.export.export(torch.nn.ReLU(), (torch.zeros(1),), strict=False)
    tiny.run_decompositions({})


@contextlib.contextmanager
def timed(into: dict[str, float], step: str) -> Iterator[None]:
    """Add the seconds spent in this context to `into[step]`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        into[step] = round(into.get(step, 0.0) + time.perf_counter() - start, 4)


aten = torch.ops.aten


# A training step: forward pass, loss, backward pass and the optimizer's update as one program. torch.export captures a model that returns
# its loss, and torch.export.experimental adds the backward pass (the joint graph of AOTAutograd). The update of each weight is captured from
# torch.optim itself and appended. The program changes nothing: it returns the loss, the gradients, and the new value of each parameter,
# buffer and tensor of the optimizer's state. So each call takes the same step from the weights of the archive.


class _Loss(FlatModel):
    """Takes the inputs of the model one by one, then the cotangents, and returns the loss."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
        own = sum(constant is None for constant in self.constants)
        return (loss_of(self.called(inputs[:own]), inputs[own:]),)


def _joint_graph(model: _Loss, inputs: tuple[torch.Tensor, ...]) -> ExportedProgram:
    """The joint graph of a model's loss and gradients, in core operators that still need decompositions.

    Attention is captured as its products: its fused kernels have operators for the backward pass that no
    lowering path takes. Raises what torch.export raises.
    """
    with sdpa_kernel(SDPBackend.MATH):
        forward = torch.export.export(model, inputs, strict=False)
        _drop_unused_parameters(forward)
        return _export_forward_backward(forward)


def _drop_unused_parameters(program: ExportedProgram) -> None:
    """Take parameters without users from the arguments, because the joint graph needs a gradient of each.

    A tied weight is an argument under each of its names, and one of these is used.
    """
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in list(program.graph_signature.input_specs):
        node = nodes.get(getattr(spec.arg, "name", ""))
        if spec.kind is InputKind.PARAMETER and node is not None and not node.users:
            program.graph_signature.input_specs.remove(spec)
            program.graph.erase_node(node)
            program.state_dict.pop(spec.target)
    program.graph_module.recompile()


def _completed(
    program: ExportedProgram, module: torch.nn.Module, training: Training
) -> ExportedProgram:
    """A decomposed joint graph with the optimizer's update, in place. All of its results are the user's: those of
    `training.results`, in this order.

    `module`: the model. Raises UnsupportedProgram if the graph changes other things than the eager step.
    """
    results = _results(program, module)
    state = _state(program, training)
    slots = state_slots(training.optimizer)
    graph_of = functools.cache(functools.partial(_update_graph, _Update(training.optimizer, slots)))
    for name, weight in _weights(program, module).items():
        if GRADIENT + name not in results:
            continue
        keys = [state_key(slot, name) for slot in slots]
        operands = [weight, results[GRADIENT + name], *(state[key] for key in keys)]
        kind = weight.meta["val"]
        new = _inserted(program.graph, graph_of(kind.shape, kind.dtype), operands)
        results |= {CHANGE + key: value for key, value in zip([name, *keys], new, strict=True)}
    if missing := [name for name in training.results if name not in results]:
        raise UnsupportedProgram(
            f"the captured training step does not return the {missing[0]} ({len(missing)} missing), "
            "which the eager step does"
        )
    _return(program, [results[name] for name in training.results])
    return program


def _results(program: ExportedProgram, module: torch.nn.Module) -> dict[str, fx.Node]:
    """The results of a joint graph by their names; the gradient of a tied weight is the sum of all its uses."""
    _, aliases = named_weights(module)
    output = program.graph.output_node()
    results: dict[str, fx.Node] = {}
    for spec, node in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        name = (spec.target or "").removeprefix(FLAT_PREFIX)
        name = aliases.get(name, name)
        match spec.kind:
            case OutputKind.LOSS_OUTPUT:
                results[LOSS] = node
            case OutputKind.GRADIENT_TO_PARAMETER if GRADIENT + name in results:
                with program.graph.inserting_before(output):
                    both = (results[GRADIENT + name], node)
                    total = program.graph.call_function(aten.add.Tensor, both)
                edit.retype(total)
                results[GRADIENT + name] = total
            case OutputKind.GRADIENT_TO_PARAMETER:
                results[GRADIENT + name] = node
            case OutputKind.BUFFER_MUTATION:
                results[CHANGE + name] = node
    return results


def _weights(program: ExportedProgram, module: torch.nn.Module) -> dict[str, fx.Node]:
    """The arguments of a program that are parameters, by name."""
    _, aliases = named_weights(module)
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    weights: dict[str, fx.Node] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.PARAMETER:
            name = spec.target.removeprefix(FLAT_PREFIX)
            weights.setdefault(aliases.get(name, name), nodes[spec.arg.name])
    return weights


def _state(program: ExportedProgram, training: Training) -> dict[str, fx.Node]:
    """New arguments of a program for the optimizer's state, by key; buffers, as far as torch knows."""
    mode = edit.fake_mode(program.graph)
    first = next(node for node in program.graph.nodes if node.op == "placeholder")
    state: dict[str, fx.Node] = {}
    specs = []
    for number, (name, kind) in enumerate(training.state.items()):
        value = convert.zeros(kind)
        with program.graph.inserting_before(first):
            node = program.graph.placeholder(f"b_optimizer_{number}")
        node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        state[name] = node
        argument = TensorArgument(node.name)
        specs.append(InputSpec(InputKind.BUFFER, argument, FLAT_PREFIX + name, persistent=True))
        program.state_dict[FLAT_PREFIX + name] = value
    program.graph_signature.input_specs[:0] = specs
    return state


class _Update(torch.nn.Module):
    """A step of an optimizer as a function: of a weight, its gradient, and its tensors for the weight."""

    def __init__(self, optimizer: Optimizer, slots: Sequence[str]) -> None:
        super().__init__()
        self.optimizer, self.slots = optimizer, slots

    def forward(
        self, weight: torch.Tensor, gradient: torch.Tensor, *state: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        weight = weight.clone()
        weight.grad = gradient
        stepper = make_optimizer(self.optimizer, [weight])
        held = {state_key(slot, ""): value for slot, value in zip(self.slots, state, strict=True)}
        set_state(stepper, weight, "", self.slots, held)
        stepper.step()
        return (weight, *(stepper.state[weight][slot] for slot in self.slots))


def _update_graph(update: _Update, shape: torch.Size, dtype: torch.dtype) -> fx.Graph:
    """The graph of an update for weights of this type: from the weight, its gradient and the optimizer's tensors to
    the new weight and the new tensors."""
    # Each a separate tensor: to torch.export, one tensor given twice is one argument.
    shapes = [shape] * 2 + [() if slot == "step" else shape for slot in update.slots]
    given = tuple(torch.zeros(each, dtype=dtype) for each in shapes)
    with torch.no_grad():
        return torch.export.export(update, given, strict=False).run_decompositions().graph


def _inserted(graph: fx.Graph, update: fx.Graph, arguments: list[fx.Node]) -> list[fx.Node]:
    """The results of `update` for these arguments, as nodes before the end of `graph`."""
    output = graph.output_node()
    holders = [node for node in update.nodes if node.op == "placeholder"]
    known = dict(zip(holders, arguments, strict=True))
    for node in update.nodes:
        if node.op != "call_function":
            continue
        if node.target is aten._local_scalar_dense.default:
            known[node] = known[node.args[0]]  # a number for eager's kernels: here a tensor will do
            continue
        with graph.inserting_before(output):
            known[node] = graph.node_copy(node, known.__getitem__)
        edit.retype(known[node])
    return [known[node] for node in update.output_node().args[0]]


def _return(program: ExportedProgram, results: list[fx.Node]) -> None:
    """Let a program return these nodes and nothing else, as results of the user's."""
    output = program.graph.output_node()
    output.args = (tuple(results),)
    returned = [TensorArgument(node.name) for node in results]
    program.graph_signature.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, argument, None) for argument in returned
    ]
    call = program.module_call_graph[0]
    assert call.signature is not None
    _, spec = pytree.tree_flatten(tuple(range(len(results))))
    call.signature = dataclasses.replace(call.signature, outputs=list(returned), out_spec=spec)
    edit.finish(program)
