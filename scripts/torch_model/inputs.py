"""Converts what a model file's functions return to call arguments, and rejects what is not supported."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.torch_model.convert import leaves, opaque, tensor_type
from scripts.torch_model.errors import ModelError

_EXPECTED_INPUT = "a tensor, a tuple of tensors, a dict of keyword inputs, or (args, kwargs)"


def call_arguments(path: str | Path, given: Any) -> tuple[tuple, dict[str, Any]]:
    """What get_dummy_input() returned, as (args, kwargs)."""
    args: tuple = ()
    kwargs: dict[str, Any] = {}
    if isinstance(given, torch.Tensor):
        args = (given,)
    elif isinstance(given, Mapping):  # a dict, or transformers' BatchEncoding
        kwargs = dict(given)
    elif isinstance(given, tuple | list):
        args = tuple(given)
        if len(given) == 2 and isinstance(given[0], tuple | list) and isinstance(given[1], Mapping):
            args, kwargs = tuple(given[0]), dict(given[1])
    else:
        raise ModelError(
            f"{path}: get_dummy_input() returned {described(given)}, expected {_EXPECTED_INPUT}{instead(given)}"
        )
    for key in kwargs:
        if not isinstance(key, str):
            raise ModelError(
                f"{path}: get_dummy_input() returned keyword inputs with the key {key!r}, expected "
                "names of forward()'s parameters"
            )
    return args, kwargs


def argument_names(module: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> list[str]:
    """For each tensor input of a call of a module, the parameter of its forward() that it is given for."""
    parameters = inspect.signature(module.forward).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter.name for parameter in parameters if parameter.kind in by_position]
    rest = [
        parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL
    ]
    given = [*zip([*positional, *rest * len(args)], args, strict=False), *kwargs.items()]
    return [
        name for name, value in given for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)
    ]


def not_a_call(module: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> str:
    """Why forward() cannot be called with what get_dummy_input() returned, and what that may be; "" if it can be."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):  # it is not written in Python
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        named = f" and the keyword inputs {', '.join(kwargs)}" if kwargs else ""
        return (
            f"get_dummy_input() returned {described(args)}{named}, with which forward({', '.join(signature.parameters)}) cannot be "
            f"called: {error}; expected {_EXPECTED_INPUT}"
        )
    return ""


def check_inputs(where: str, tree: Any) -> None:
    """Raise ModelError for inputs that are not supported."""
    tensors = 0
    for path, leaf in leaves(tree):
        if isinstance(leaf, np.ndarray | np.generic):
            raise ModelError(
                f"{where} {described(leaf)} as {path}, expected a tensor{instead(leaf)}"
            )
        if isinstance(leaf, torch.Tensor):
            tensors += 1
            _check_tensor(f"{where} {path}, which", leaf)
    if hidden := opaque(tree):
        raise ModelError(
            f"{where} {hidden[0]}, which holds tensors that are no inputs; pass the tensors "
            "themselves, or make the class a dataclass"
        )
    if not tensors:
        raise ModelError(f"{where} no tensor, expected {_EXPECTED_INPUT}")


def check_weights(where: str, module: torch.nn.Module) -> None:
    """Raise ModelError for weights without values, and for weights that archives do not support."""
    for name, weight in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(weight):
            raise ModelError(
                f"{where} a module whose {name} has no shape yet (a lazy module); call the module "
                "once on an input in get_model()"
            )
        _check_tensor(f"{where} a module whose {name}", weight)


def _check_tensor(what: str, tensor: torch.Tensor) -> None:
    """Raise ModelError for a tensor without values here, not dense, or of an unknown dtype."""
    if tensor.is_quantized:
        raise ModelError(f"{what} is a tensor of torch's old quantised type ({tensor.dtype}); expected plain tensors: .dequantize()")  # fmt: skip
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise ModelError(f"{what} is a tensor of layout {kind}; expected a dense one: .to_dense(), or a padded one")  # fmt: skip
    if tensor.device.type == "meta":
        raise ModelError(f"{what} has no values (device meta); build it on the CPU")
    if tensor.device.type != "cpu":
        raise ModelError(f"{what} is on device {tensor.device}; expected it on the CPU: .cpu() (a stage moves it)")  # fmt: skip
    tensor_type(what, tensor)


def described(value: Any) -> str:
    """A description of a value, for error messages."""
    match value:
        case None:
            return "None"
        case type():
            return f"the class {value.__name__}"
        case tuple() | list():
            return f"a {type(value).__name__} of ({', '.join(type(v).__name__ for v in value)})"
        case np.ndarray():
            return f"a numpy array of {value.dtype}"
        case types.FunctionType() | types.BuiltinFunctionType():
            return f"the function {value.__name__}"
    return f"{type(value).__name__}"


def instead(value: Any) -> str:
    """What to do about a value of the wrong kind, if that is known."""
    match value:
        case None:
            return "; is a `return` missing?"
        case type() if issubclass(value, torch.nn.Module):
            return f"; return an instance: {value.__name__}(...)"
        case np.ndarray() | np.generic():
            return "; make a tensor of it: torch.from_numpy(...)"
        case types.FunctionType() | types.BuiltinFunctionType():
            return "; call it in the forward() of a module"
        case tuple() | list():
            return "; return the module alone"
    return ""
