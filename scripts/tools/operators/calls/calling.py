"""The call of an operator problem, as a function from tensors to tensors for eager and all exporters.

All arguments except tensors are constants of the function. The function does not change its arguments: an operator that
works in place or writes to `out` works on copies, which the function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from scripts.core import tensors as carried
from scripts.core.tensors import TensorType
from scripts.frontends.torch_model import convert, loading
from scripts.tools.operators.problems import argument_values
from scripts.tools.operators.problems.problem import Problem

_ALWAYS_WRITTEN = ("running_mean", "running_var")
"""Arguments that batch norms change although their schema does not say so."""
_PLACES = ("device", "pin_memory")
"""Arguments that set the place of a result. They are left out because the runtime decides it."""
_UNSET = [
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
]
"""Operators whose results are uninitialized."""


class NotCallable(Exception):
    """The problem has no function from tensors to tensors; the message begins with the reason."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument and its type. `place`: its index in a list of tensors, else None."""

    argument: str
    place: int | None
    tensor: argument_values.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, argument_values.DTYPES[self.tensor.dtype])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape


@dataclass(frozen=True)
class _Slot:
    """The place of a tensor in the arguments. `index`: its index in `Call.inputs`."""

    index: int


class Call:
    """The function of a problem. Raises NotCallable. `inputs`: its arguments, in order.
    `arguments`: the values of the operator's arguments by their names in the schema, as values of
    `scripts.tools.operators.problems.argument_values`."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.operator = problem, _operator(problem.op)
        self.arguments = _bound(problem, self.operator)
        self.inputs: tuple[TensorSpec, ...] = ()
        self._values = {name: self._prepared(name, v) for name, v in self.arguments.items()}
        self._check()

    @property
    def base(self) -> str:
        """The operator's name without its overload and without the underscore for in-place."""
        name = self.operator._schema.name.partition("::")[2]
        return name[:-1] if name.endswith("_") and not name.endswith("__") else name

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Return the operator's tensor results, then arguments it changed and did not return."""
        args, kwargs, written = self._filled_in(inputs, _cloned)
        returned = self.operator(*args, **kwargs)
        schema = self.operator._schema
        aliased = {name for r in schema.returns if r.alias_info for name in r.alias_info.before_set}
        apart = [
            written[argument.name]
            for argument in schema.arguments
            if argument.alias_info and argument.alias_info.is_write and argument.name in written
            if not aliased & set(argument.alias_info.before_set)
        ]
        return [*tensors_in(returned), *tensors_in(apart)]

    def bound(self, *inputs: torch.Tensor) -> Callable[[], Any]:
        """Return a function that makes the call and nothing else, to be timed; it returns what the operator returns.

        An operator that works in place is replaced by its functional form, which computes what a program of this
        problem computes; so no call depends on the one before. Other arguments that are written, such as `out`, are
        copies that all calls share.
        """
        functional = _functional(self.operator)
        operator = functional or self.operator
        args, kwargs, _ = self._filled_in(inputs, (lambda value: value) if functional else _cloned)
        return lambda: operator(*args, **kwargs)

    def _filled_in(
        self, inputs: Sequence[torch.Tensor], to_write: Callable[[Any], Any]
    ) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """Return the operator's positional and keyword arguments, and those that it changes.
        `to_write` is applied to the latter."""

        def fill(leaf: Any) -> Any:
            return inputs[leaf.index] if isinstance(leaf, _Slot) else leaf

        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        written: dict[str, Any] = {}
        for position, argument in enumerate(self.operator._schema.arguments):
            if argument.name not in self._values:
                continue
            value = argument_values.replaced(self._values[argument.name], fill)
            if _is_written(argument):
                value = written[argument.name] = to_write(value)
            if argument.kwarg_only or len(args) < position:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return args, kwargs, written

    def fake_inputs(self) -> list[FakeTensor]:
        """Return inputs without values, for tracing; no memory is allocated. They are contiguous
        like the inputs of a program. Only eager's tensors have strides."""
        with FakeTensorMode(allow_non_fake_inputs=True):
            return [torch.empty(spec.shape, dtype=spec.dtype) for spec in self.inputs]

    def graph(self, decompositions: Mapping[Any, Callable]) -> torch.fx.GraphModule:
        """Return the function as a graph of functional operators, with one placeholder per input.
        Raises NotCallable if the shapes of its results depend on values."""
        inputs = self.fake_inputs()
        mode = inputs[0].fake_mode if inputs else FakeTensorMode()
        functional = torch.func.functionalize(self)
        try:
            with mode:
                return make_fx(functional, dict(decompositions), "fake")(*inputs)
        except (DynamicOutputShapeException, DataDependentOutputException) as error:
            raise NotCallable(f"data-dependent-shape: {error}") from error

    def as_model(self) -> loading.LoadedModel:
        """Return a model whose forward pass is the call, so that all exporters can lower it. Its
        example inputs are contiguous zeros."""
        inputs = tuple(torch.zeros(spec.shape, dtype=spec.dtype) for spec in self.inputs)
        return loading.LoadedModel(self.problem.name, _Module(self).eval(), inputs, {}, file=None)

    def input_types(self) -> tuple[TensorType, ...]:
        """Return the types of the program's arguments, in order."""
        model = self.as_model()
        return tuple(convert.tensor_type(path, tensor) for path, tensor in model.inputs)

    def _check(self) -> None:
        """Raise NotCallable for problems that no lowering path can support."""
        if self.base in _UNSET:
            raise NotCallable(f"uninitialised: {self.problem.op} returns memory without values")
        if _is_random(self.operator, self.arguments):
            raise NotCallable(f"random: {self.problem.op} draws random numbers")
        for spec in self.inputs:
            if str(spec.dtype).removeprefix("torch.") not in carried.DTYPES:
                raise NotCallable(f"dtype: an argument of {spec.dtype}, which no module takes")
        if self.base.startswith("as_strided") and self.inputs[0].tensor.stride is not None:
            raise NotCallable("strides: the result depends on where values are in memory")
        schema = self.operator._schema
        is_tensor = [_holds_tensors(r.type) for r in schema.returns]
        if not any(is_tensor) and not any(map(_is_written, schema.arguments)):
            raise NotCallable(f"no-tensor-result: {schema}")

    def _prepared(self, name: str, value: Any) -> Any:
        """Return a bound value as the operator takes it, with tensors replaced by slots."""
        place = 0

        def change(leaf: Any) -> Any:
            nonlocal place
            if isinstance(leaf, argument_values.SparseTensor):
                raise NotCallable(f"sparse: argument {name} is a sparse tensor")
            if isinstance(leaf, argument_values.Tensor):
                where = place if isinstance(value, list | tuple) else None
                self.inputs += (TensorSpec(name, where, leaf),)
                leaf = _Slot(len(self.inputs) - 1)
            else:
                leaf = _constant(name, leaf)
            place += 1
            return leaf

        return argument_values.replaced(value, change)


class _Module(torch.nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return self.call(*inputs)


def _operator(op: str) -> torch._ops.OpOverload:
    """Return the operator of a name such as `aten.add.Tensor`. Raises NotCallable if unknown."""
    namespace, _, rest = op.partition(".")
    name, _, overload = rest.partition(".")
    try:
        operator = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError) as error:
        raise NotCallable(f"unknown-operator: torch {torch.__version__} has no {op}") from error
    if not isinstance(operator, torch._ops.OpOverload):
        raise NotCallable(f"unknown-operator: {op} is no operator of torch {torch.__version__}")
    return operator


def _functional(operator: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """Return the functional form of an operator that works in place; None for other operators, and
    if there is no such form with the same arguments."""
    namespace, _, name = operator._schema.name.partition("::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(getattr(torch.ops, namespace), name[:-1], None)
    functional = getattr(packet, operator._overloadname, None)
    own = [argument.name for argument in operator._schema.arguments]
    if functional is None or [argument.name for argument in functional._schema.arguments] != own:
        return None
    return functional


def _bound(problem: Problem, operator: torch._ops.OpOverload) -> dict[str, Any]:
    """Return the arguments by their names in the schema, without _PLACES."""
    args, kwargs = problem.arguments
    schema = operator._schema
    names = [argument.name for argument in schema.arguments]
    positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    if len(args) > len(positional) or not set(kwargs) <= set(names):
        raise NotCallable(f"unknown-operator: {problem.args} do not fit {schema}")
    bound = dict(zip(positional, args, strict=False)) | kwargs
    if "sparse" in str(bound.get("layout")):
        raise NotCallable(f"sparse: a result of layout {bound['layout']}")
    return {name: value for name, value in bound.items() if name not in _PLACES}


def _constant(name: str, leaf: Any) -> Any:
    """Return a value that is not a tensor, as torch takes it."""
    match leaf:
        case argument_values.Name(path):
            known_as = argument_values.DTYPES.get(path) or path.rpartition(".")[2]
            if (constant := getattr(torch, known_as, None)) is None:
                raise NotCallable(f"unknown-operator: argument {name}: torch has no {path}")
            return constant
        case argument_values.Device():
            return torch.device("cpu")
        case str() if name == "dtype" and leaf in argument_values.DTYPES:
            return getattr(torch, argument_values.DTYPES[leaf])
    return leaf


def _is_written(argument: Any) -> bool:
    alias = argument.alias_info
    return argument.name in _ALWAYS_WRITTEN or bool(alias and alias.is_write)


def _is_random(operator: torch._ops.OpOverload, arguments: Mapping[str, Any]) -> bool:
    """Return whether its results are random. They are not if dropout is switched off."""
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    for name in ("train", "training"):
        if arguments.get(name) is False:
            return False
    for argument in operator._schema.arguments:
        if argument.name in ("dropout_p", "p", "dropout"):
            default = argument.default_value if argument.has_default_value() else 1.0
            return arguments.get(argument.name, default) != 0
    return True


def _holds_tensors(kind: Any) -> bool:
    return isinstance(kind, torch._C.TensorType) or any(map(_holds_tensors, kind.containedTypes()))


def _cloned(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, torch.clone, value)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a result, from left to right; None for a missing tensor is left out."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
