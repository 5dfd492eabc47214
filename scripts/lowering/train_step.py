"""Captures a training step: forward pass, loss, backward pass and the optimizer's update as one program.

torch.export captures a model that returns its loss, and `torch.export.experimental` adds the backward pass
(the joint graph of AOTAutograd). The update of each weight is captured from torch.optim itself and appended.
The program changes nothing: it returns the loss, the gradients, and the new value of each parameter, buffer and
tensor of the optimizer's state. So each call takes the same step from the weights of the archive.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

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
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from scripts.core.tensors import CHANGE, GRADIENT, LOSS
from scripts.lowering.fx_rewrites import edit
from scripts.lowering.link import UnsupportedProgram
from scripts.torch_model import convert
from scripts.torch_model.arguments import Optimizer
from scripts.torch_model.loading import FLAT_PREFIX, FlatModel, named_weights
from scripts.torch_model.step import (
    Training,
    loss_of,
    make_optimizer,
    set_state,
    state_key,
    state_slots,
)

aten = torch.ops.aten


class Loss(FlatModel):
    """Takes the inputs of the model one by one, then the cotangents, and returns the loss."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
        own = sum(constant is None for constant in self.constants)
        return (loss_of(self.called(inputs[:own]), inputs[own:]),)


def capture(model: Loss, inputs: tuple[torch.Tensor, ...]) -> ExportedProgram:
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


def completed(
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
        made = make_optimizer(self.optimizer, [weight])
        held = {state_key(slot, ""): value for slot, value in zip(self.slots, state, strict=True)}
        set_state(made, weight, "", self.slots, held)
        made.step()
        return (weight, *(made.state[weight][slot] for slot in self.slots))


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
