"""StableHLO programs on XLA's CPU client (PJRT, from jaxlib). Nothing here imports torch.

Linking (frontends/lowering/link.py) binds weights to IREE's named parameters. Before a program runs here, each becomes an argument again, after
the inputs, so that no compiler can fold a weight into it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.core import tensors
from scripts.core.tensors import PARAMETER_SCOPE


class Client:
    """The client of this process, with the `threads` threads of the first one. It computes with the arguments of a call alone, so
    a program whose weights are arguments cannot be folded."""

    def __init__(self, threads: int) -> None:
        # The client reads both when it is created.
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["NPROC"] = str(threads)
        import jax
        from jax.extend import backend

        jax.config.update("jax_enable_x64", True)  # else 64-bit inputs are cut to 32 bits
        self._client = backend.get_backend("cpu")
        self._device = self._client.devices()[0]

    def compile(self, program: str) -> Any:
        """The executable of a module of StableHLO with a function @main. What XLA refuses raises RuntimeError or ValueError."""
        return self._client.compile_and_load(program, [self._device])

    def place(self, arrays: Iterable[np.ndarray]) -> list[Any]:
        """The arrays on the device."""
        import jax

        return [jax.device_put(array, self._device).block_until_ready() for array in arrays]


def call(executable: Any, arguments: Sequence[Any]) -> list[Any]:
    """The results of a call, once they exist."""
    results = executable.execute(arguments)
    for result in results:
        result.block_until_ready()
    return results


_DIALECTS = ("func", "stablehlo", "chlo", "builtin")
"""The types that XLA accepts."""
_PARAMETER = re.compile(rf'#flow\.parameter\.named<"{PARAMETER_SCOPE}"::"(?P<key>.*)"> : .*')


class UnlinkError(Exception):
    """A program that is not StableHLO; names the operation that is not."""


@dataclass(frozen=True)
class Unlinked:
    """A module whose `@main` takes the inputs, then the archive's `weights` in that order."""

    text: str
    weights: tuple[str, ...]


def unlink(program: str | bytes, function: str = "main", located: bool = False) -> Unlinked:
    """Read a program, text or bytecode, with a function to call. `located`: its operations say which line of the program they are.
    Raises UnlinkError."""
    from iree.compiler import ir, passmanager

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program)
        keys: dict[str, str] = {}
        for op in list(module.body.operations):
            attributes = op.operation.attributes
            if op.operation.name == "util.global":
                value = str(attributes["initial_value"])
                if (match := _PARAMETER.fullmatch(value)) is None:
                    raise UnlinkError(f"a global is {value}, expected a parameter of the archive")
                keys[attributes["sym_name"].value] = tensors.weight_name(match["key"])
            elif op.operation.name == "func.func":
                called = attributes["sym_name"].value == function
                visibility = "public" if called else "private"
                attributes["sym_visibility"] = ir.StringAttr.get(visibility)
        # Only the function that is called can be given weights, and any function may load them.
        passmanager.PassManager.parse("builtin.module(inline,symbol-dce)").run(module.operation)
        main = None
        for op in list(module.body.operations):
            if op.operation.name == "util.global":
                op.operation.erase()
            elif op.attributes["sym_name"].value == function:
                main = op.operation
        if main is None:
            raise UnlinkError(f"the program has no function @{function}")
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        loaded = _weights_as_arguments(ir, main)
        for operation in within(ir, module.operation):
            if operation.name.split(".")[0] not in _DIALECTS:
                raise UnlinkError(f"{operation.name} is no operation of StableHLO")
        text = module.operation.get_asm(enable_debug_info=located)
        return Unlinked(text, tuple(keys[symbol] for symbol in loaded))


def _weights_as_arguments(ir, main) -> list[str]:
    """Replace every load of a global by an argument of `main`; their symbols, in order."""
    block = main.regions[0].blocks[0]
    values: dict[str, object] = {}
    for operation in within(ir, main):
        if operation.name == "util.global.load":
            symbol = ir.FlatSymbolRefAttr(operation.attributes["global"]).value
            kind = operation.results[0].type
            if symbol not in values:
                values[symbol] = block.add_argument(kind, ir.Location.unknown())
            operation.results[0].replace_all_uses_with(values[symbol])
            operation.erase()
        elif operation.name == "arith.constant":  # XLA knows StableHLO's alone
            new = ir.Operation.create(
                "stablehlo.constant",
                results=[operation.results[0].type],
                attributes={"value": operation.attributes["value"]},
                ip=ir.InsertionPoint(operation),
            )
            operation.results[0].replace_all_uses_with(new.result)
            operation.erase()
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs = [argument.type for argument in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))
    if "arg_attrs" in main.attributes:  # it has one for each argument, and none for the weights
        del main.attributes["arg_attrs"]
    return list(values)


def within(ir, operation) -> list:
    """An operation and those inside it, at any depth, in the order of the text."""
    inside: list = []

    def note(op) -> object:
        inside.append(op.operation)
        return ir.WalkResult.ADVANCE

    operation.walk(note, ir.WalkOrder.PRE_ORDER)
    return inside
