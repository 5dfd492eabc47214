"""Loops in the form that lowering paths take."""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from scripts.lowering.fx_rewrites.edit import aten, fake_mode, value

_WHILE = torch.ops.higher_order.while_loop


def open_first_condition(program: ExportedProgram) -> bool:
    """The condition of a `while_loop` also depends on an argument, which is constant.

    torch-mlir 20261001 computes a first condition that does not depend on an argument, and takes a loop with a first condition
    that is true for one over a range: the condition is lost, and the loop has no end (linalg).
    """
    loops = [node for node in program.graph.nodes if node.target is _WHILE]
    if not loops:
        return False
    allowed = _true_argument(program)
    for loop in loops:
        condition, body, carried, read = loop.args
        for name in (condition.target, body.target):
            inside = program.graph_module.get_submodule(name)
            last = [node for node in inside.graph.nodes if node.op == "placeholder"][-1]
            with inside.graph.inserting_after(last):
                given = inside.graph.placeholder(allowed.name)
            given.meta["val"] = value(allowed)
            if name == condition.target:
                output = inside.graph.output_node()
                result = output.args[0][0] if isinstance(output.args[0], tuple | list) else output.args[0]  # fmt: skip
                with inside.graph.inserting_before(output):
                    is_set = inside.graph.call_function(aten.ne.Scalar, (given, 0))
                    both = inside.graph.call_function(aten.logical_and.default, (result, is_set))
                for node in (is_set, both):
                    node.meta["val"] = value(result)
                output.replace_input_with(result, both)
            inside.recompile()
        loop.args = (condition, body, carried, (*read, allowed))
    return True


def _true_argument(program: ExportedProgram) -> fx.Node:
    """Add a constant of the program that is not zero; return its argument."""
    name, signature = "loop_is_allowed", program.graph_signature
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    kinds = [spec.kind for spec in signature.input_specs]
    place = kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)
    with program.graph.inserting_before(inputs[place] if place < len(inputs) else None):
        node = program.graph.placeholder(name)
    constant = torch.tensor(1)  # IREE 3.13 does not compile a loop that carries a boolean
    node.meta["val"] = fake_mode(program.graph).from_tensor(constant)
    program.constants[name] = constant
    signature.input_specs.insert(
        place, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name)
    )
    return node


def carry_all_of_loops(program: ExportedProgram) -> bool:
    """What the functions of a `while_loop` read from outside becomes a value that the loop carries and does not change.

    torch-mlir 20261001 makes a loop with the results of what it carries alone, and calls its functions with both.
    """
    changed = False
    modules = [m for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    for module in modules:
        for node in list(module.graph.nodes):
            if node.target is _WHILE:
                changed |= _carry_all(module, node)
    return changed


def _carry_all(module: fx.GraphModule, loop: fx.Node) -> bool:
    """Change one loop of a module; return whether it reads something from outside, and nothing but tensors."""
    condition, body, carried, read = loop.args
    is_tensor = [isinstance(n, fx.Node) and isinstance(value(n), torch.Tensor) for n in read]
    if not read or not all(is_tensor):
        return False
    loop.args = (condition, body, (*carried, *read), ())
    loop.meta["val"] = (*value(loop), *map(value, read))
    loop.meta.pop("tensor_meta", None)
    inside = module.get_submodule(body.target)
    inputs = [node for node in inside.graph.nodes if node.op == "placeholder"][-len(read) :]
    output = inside.graph.output_node()
    with inside.graph.inserting_before(output):
        # The same value under another name: no result of a body may be one of its arguments.
        copies = [inside.graph.call_function(aten.clone.default, (node,)) for node in inputs]
    for copy, node in zip(copies, inputs, strict=True):
        copy.meta["val"] = value(node)
    output.args = ((*output.args[0], *copies),)
    inside.recompile()
    return True
