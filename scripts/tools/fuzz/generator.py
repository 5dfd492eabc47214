"""Draws random graphs of ATen operators: shapes, dtypes, values and arguments that eager accepts.

A graph is drawn by running it. Each step chooses an operator and arguments that suit the values so far, and calls it; what
eager refuses is drawn again. The first graphs of a seed have one operator each. Those after them contain the pairs of a shuffled
list of all pairs, the second operator working on a result of the first. So all pairs are tried, in an order that depends on nothing
but the seed, and any graph can be drawn alone.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from scripts.core import requests
from scripts.core.dimensions import Dimension
from scripts.tools.operators.calls.calling import tensors_in

MOST_ELEMENTS = 4096
"""Of any value of a graph. Miscompiles depend on shapes and not on sizes, and small programs compile fast."""
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 67)
LARGE = (127, 257, 1000)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.int16)
VALUES = (*["normal"] * 6, "whole", "whole", "positive", "positive", "large", "special")
"""Rules of the values of an input."""
SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0])
EAGER_ERRORS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError, OverflowError)
"""What eager raises for arguments that do not suit an operator."""
ATTEMPTS = 40
"""Draws of an operator's arguments before another operator is chosen."""


@dataclass(frozen=True)
class Input:
    """An argument of a graph: `shape`, torch's name of the `dtype`, the rule of its values and their seed. `dynamic`: its dynamic
    dimensions, which all have the same size."""

    shape: tuple[int, ...]
    dtype: str
    values: str
    seed: int
    dynamic: tuple[int, ...] = ()

    @classmethod
    def like(cls, tensor: torch.Tensor, values: str, seed: int) -> Input:
        return cls(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), values, seed)

    def tensor(self) -> torch.Tensor:
        """Its values. Those of floating point are rounded to float16, so that all dtypes hold them alike."""
        dtype, (rule, _, size) = getattr(torch, self.dtype), self.values.partition(":")
        chosen = torch.Generator().manual_seed(self.seed)
        if not dtype.is_floating_point:
            if rule == "once":  # indices below size, along the first dimension without repetition
                order = torch.rand((int(size), *self.shape[1:]), generator=chosen).argsort(0)
                return order[: math.prod(self.shape[:1])].reshape(self.shape).to(dtype)
            low, high = {"large": (-128, 128), "positive": (1, 9)}.get(rule, (-8, 9))
            if rule == "index" or dtype is torch.bool:
                low, high = 0, max(1, int(size or 2))
            elif dtype is torch.uint8 and low < 0:
                low, high = 0, high - low - 1
            return torch.randint(low, high, self.shape, generator=chosen).to(dtype)
        values = torch.randn(self.shape, generator=chosen)
        match rule:
            case "whole":
                values = (3 * values).round()
            case "positive":
                values = values.abs() + 0.25
            case "large":
                values = 100 * values
            case "special":
                place = torch.randint(10, self.shape, generator=chosen)
                values = torch.where(place < len(SPECIAL), SPECIAL[place % len(SPECIAL)], values)
        return values.half().to(dtype)


@dataclass(frozen=True, repr=False)
class Value:
    """A tensor of a graph, by its name: `x` with a number for an input, `v` with a number for a result of a node."""

    name: str

    def __repr__(self) -> str:
        return self.name


def _cond(first: Callable, second: Callable, condition: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.ops.higher_order.cond(condition.any(), lambda v: (first(v),), lambda v: (second(v),), (x,))  # fmt: skip


def _while_loop(body: Callable, count: int, x: torch.Tensor) -> torch.Tensor:
    carried = torch.zeros((), dtype=torch.int64), x
    return torch.ops.higher_order.while_loop(lambda n, v: n < count, lambda n, v: (n + 1, body(v)), carried, ())[1]  # fmt: skip


_FLOW: dict[str, Callable[..., Any]] = {"cond": _cond, "while_loop": _while_loop}
_SOURCES = {
    "cond": "torch.cond({0}.any(), lambda v: (torch.ops.aten.{2}(v),), lambda v: (torch.ops.aten.{3}(v),), ({1},))[0]",
    "while_loop": "torch.while_loop(lambda n, v: n < {0}, lambda n, v: (n + 1, torch.ops.aten.{2}(v)), (torch.zeros((), dtype=torch.int64), {1}))[1]",
}  # fmt: skip
"""Control flow by name, and in a script: its arguments, then the operators of its branches."""


@dataclass(frozen=True)
class Node:
    """A call. `op`: such as `aten.add.Tensor`, or `flow.cond.exp.neg` with the operators of its branches. `args`, `kwargs`: with Value in
    place of tensors. `results`: the names of the tensors that it returns."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[str, ...] = ()

    @property
    def operator(self) -> Callable[..., Any]:
        namespace, name, *more = self.op.split(".")
        if namespace == "flow":
            return functools.partial(_FLOW[name], *(getattr(torch.ops.aten, n).default for n in more))  # fmt: skip
        return operator.attrgetter(self.op)(torch.ops)

    @property
    def used(self) -> list[str]:
        """The names of the values that it takes."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return [leaf.name for leaf in leaves if isinstance(leaf, Value)]

    def replaced(self, kind: type, function: Callable[[Any], Any]) -> Node:
        """The call with leaves of a type in its arguments replaced."""
        args, kwargs = pytree.tree_map_only(kind, function, (self.args, self.kwargs))
        return dataclasses.replace(self, args=args, kwargs=kwargs)

    def source(self) -> str:
        args = [*map(repr, self.args), *(f"{name}={v!r}" for name, v in self.kwargs.items())]
        namespace, name, *more = self.op.split(".")
        if namespace == "flow":
            return f"{self.results[0]} = {_SOURCES[name].format(*args, *more)}"
        return f"{', '.join(self.results)} = torch.ops.{self.op}({', '.join(args)})"


@dataclass(frozen=True)
class Graph:
    """A program: `inputs` by name, `nodes` in order, and the names of the values that it returns."""

    inputs: dict[str, Input]
    nodes: tuple[Node, ...]
    results: tuple[str, ...]

    def run(self, inputs: Iterable[Any], call: Callable[..., Any] | None = None) -> dict[str, Any]:
        """All values, computed from those of the inputs. `call(node, args, kwargs)`: in place of the operator."""
        values = dict(zip(self.inputs, inputs, strict=True))
        for node in self.nodes:
            filled = node.replaced(Value, lambda leaf: values[leaf.name])
            args, kwargs = filled.args, filled.kwargs
            returned = call(node, args, kwargs) if call else node.operator(*args, **kwargs)
            values.update(zip(node.results, tensors_in(returned), strict=True))
        return values

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The results; each is a tensor of its own."""
        values = self.run(inputs)
        return [values[name] for name in self.results]

    def tensors(self) -> list[torch.Tensor]:
        """The values of the inputs."""
        return [argument.tensor() for argument in self.inputs.values()]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dynamic dimensions of its inputs."""
        return tuple(Dimension(n, f"x{n}", axis, "size", min=2) for n, i in enumerate(self.inputs.values()) for axis in i.dynamic)  # fmt: skip

    def with_inputs(self, change: Callable[[Input], Input]) -> Graph:
        """The graph with each of its inputs changed."""
        return dataclasses.replace(self, inputs={n: change(i) for n, i in self.inputs.items()})

    def resized(self) -> Graph:
        """The graph with another size in place of the dynamic one, and without dynamic dimensions."""

        def closed(i: Input) -> Input:
            shape = (
                2 * size + 1 if axis in i.dynamic else size for axis, size in enumerate(i.shape)
            )
            return dataclasses.replace(i, shape=tuple(shape), dynamic=())

        return self.with_inputs(closed)

    @property
    def operators(self) -> list[str]:
        return [node.op.removeprefix("aten.") for node in self.nodes]

    @property
    def dtypes(self) -> list[str]:
        """Of its inputs."""
        return [argument.dtype for argument in self.inputs.values()]

    def pruned(self) -> Graph:
        """Without nodes and inputs that no result needs."""
        needed, nodes = set(self.results), []
        for node in reversed(self.nodes):
            if needed & set(node.results):
                nodes.append(node)
                needed |= set(node.used)
        inputs = {name: argument for name, argument in self.inputs.items() if name in needed}
        return Graph(inputs, tuple(reversed(nodes)), self.results)

    def source(self) -> str:
        """The graph as the body of a Python function of torch."""
        lines = [node.source() for node in self.nodes]
        return "\n".join([*lines, f"return {', '.join(self.results)}"])

    def as_json(self) -> dict[str, Any]:
        """The graph in values of JSON."""
        return pytree.tree_map(_as_json, dataclasses.asdict(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Graph:
        data = pytree.tree_map(_from_json, data, is_leaf=_is_marked)
        inputs = {name: requests.decode(Input, entry) for name, entry in data["inputs"].items()}
        nodes = tuple(requests.decode(Node, entry) for entry in data["nodes"])
        return cls(inputs, nodes, tuple(data["results"]))


_MARKS: dict[str, Callable[[str], Any]] = {"name": Value, "torch": functools.partial(getattr, torch), "float": float}  # fmt: skip
"""What JSON has no values for, by the only name of an object in its place."""


def _as_json(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype):
        return {"torch": str(leaf).removeprefix("torch.")}
    return {"float": str(leaf)} if isinstance(leaf, float) and not math.isfinite(leaf) else leaf


def _is_marked(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and value.keys() <= _MARKS.keys()


def _from_json(leaf: Any) -> Any:
    if not _is_marked(leaf):
        return leaf
    ((mark, text),) = leaf.items()
    return _MARKS[mark](text)


class Unsuitable(Exception):
    """No arguments of this operator suit the values so far."""


class Draw(random.Random):
    """A graph while it is drawn, with the random choices. `values`: its tensors so far by name, as eager computes them. `focus`: the name
    of the value that the next operator has to take, or ""."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.inputs: dict[str, Input] = {}
        self.nodes: list[Node] = []
        self.values: dict[str, torch.Tensor] = {}
        self.focus = ""
        self.floats, self.rule = self.choice(FLOATS), self.choice(VALUES)

    # Choices

    def chance(self, share: float) -> bool:
        return self.random() < share

    def size(self, low: int = 1) -> int:
        if low == 0 and self.chance(0.03):
            return 0
        return self.choice(LARGE) if self.chance(0.03) else self.choice(SIZES)

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        while True:
            shape = tuple(self.size(0) for _ in range(self.randint(low, high)))
            if math.prod(shape) <= MOST_ELEMENTS // 2:
                return shape

    def dtype(self, kinds: str) -> torch.dtype:
        """`f`: floating point, `i`: integer, `b`: boolean; one of these."""
        kind = self.choice([k for k in kinds for _ in range(6 if k == "f" else 1)])
        if kind == "b":
            return torch.bool
        if kind == "i":
            return self.choice(INTEGERS)
        return self.floats if self.chance(0.85) else self.choice(FLOATS)

    def dim(self, tensor: torch.Tensor) -> int:
        if not tensor.dim():
            raise Unsuitable
        return self.randrange(-tensor.dim(), tensor.dim())

    def dims(self, tensor: torch.Tensor) -> list[int]:
        rank = tensor.dim()
        chosen = self.sample(range(rank), self.randint(1, rank)) if rank else []
        return [dim - rank if self.chance(0.3) else dim for dim in chosen]

    def scalar(self, tensor: torch.Tensor) -> float | int | bool:
        if tensor.dtype.is_floating_point or self.chance(0.1):
            return self.choice((0.5, -1.5, 2.0, 3.0, 0.1, -0.25, 0.0, 1.0))
        return self.choice((1, 2, 3, -1, 5, 0)) if tensor.dtype != torch.bool else True

    def pick(self, *choices: Any) -> Any:
        return self.choice(choices)

    # Values

    def new(self, shape: Sequence[int], dtype: torch.dtype, rule: str = "") -> torch.Tensor:
        """A new input."""
        if not rule and dtype.is_floating_point:
            rule = self.rule if self.chance(0.7) else "normal"
        rule = rule or self.choice(("normal", "large", "positive"))
        name, kind = f"x{len(self.inputs)}", str(dtype).removeprefix("torch.")
        self.inputs[name] = Input(tuple(shape), kind, rule, self.getrandbits(31))
        self.values[name] = self.inputs[name].tensor()
        return self.values[name]

    def earlier(self, fits: Callable[[torch.Tensor], bool], share: float) -> torch.Tensor | None:
        """A value so far that fits: the one in focus, or another at this share of the calls."""
        if self.focus and fits(focused := self.values[self.focus]):
            self.focus = ""
            return focused
        fitting = [tensor for tensor in self.values.values() if fits(tensor)]
        return self.choice(fitting[-6:]) if fitting and self.chance(share) else None

    def any(
        self, kinds: str = "fib", low: int = 0, high: int = 5, ok: Callable[[torch.Tensor], bool] = lambda _: True
    ) -> torch.Tensor:  # fmt: skip
        """A value of these kinds and ranks."""

        def fits(tensor: torch.Tensor) -> bool:
            return kind_of(tensor) in kinds and low <= tensor.dim() <= high and ok(tensor)

        if (known := self.earlier(fits, 0.75)) is not None:
            return known
        for _ in range(ATTEMPTS):
            shape = self.shape(low, min(high, 4) if high > low else high)
            if fits(torch.empty(shape, dtype=(dtype := self.dtype(kinds)), device="meta")):
                return self.new(shape, dtype)
        raise Unsuitable

    def exactly(self, shape: Sequence[int], dtype: torch.dtype, rule: str = "") -> torch.Tensor:
        """A value of this shape and dtype. One with a rule is a new input."""
        if math.prod(shape) > MOST_ELEMENTS:
            raise Unsuitable
        known = None if rule else self.earlier(lambda t: t.dtype == dtype and t.shape == tuple(shape), 0.7)  # fmt: skip
        return self.new(shape, dtype, rule) if known is None else known

    def like(self, tensor: torch.Tensor, shape: Sequence[int], rule: str = "") -> torch.Tensor:
        """A value of another value's dtype."""
        return self.exactly(shape, tensor.dtype, rule)

    def beside(self, tensor: torch.Tensor, kinds: str = "fib") -> torch.Tensor:
        """A value that broadcasts with another one, mostly of its dtype."""
        shape = [1 if self.chance(0.2) else size for size in tensor.shape]
        if self.chance(0.25):
            shape = shape[self.randint(0, len(shape)) :]
        elif self.chance(0.1) and tensor.numel() * 3 <= MOST_ELEMENTS and len(shape) < 5:
            shape = [self.choice((1, 2, 3)), *shape]
        same = kind_of(tensor) in kinds and self.chance(0.8)
        return self.exactly(shape, tensor.dtype if same else self.dtype(kinds))

    # Calls

    def call(self, op: str, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        """Add a node, and return its results; raises Unsuitable if eager refuses it, or if a result is too large."""
        node = Node(f"aten.{op}" if op.count(".") == 1 else op, args, kwargs)
        try:
            returned = tensors_in(node.operator(*args, **kwargs))
        except EAGER_ERRORS:
            raise Unsuitable from None
        if not returned or not all(map(is_small, returned)):
            raise Unsuitable
        first = len(self.values) - len(self.inputs)
        results = {f"v{first + at}": tensor for at, tensor in enumerate(returned)}
        # An operator may return what it takes, which then has the new name.
        names = {id(tensor): Value(name) for name, tensor in self.values.items()}
        named = node.replaced(torch.Tensor, lambda tensor: names[id(tensor)])
        self.nodes.append(dataclasses.replace(named, results=tuple(results)))
        self.values |= results
        return returned

    def graph(self) -> Graph:
        """The graph, which returns the values that no node uses, and at times one more."""
        used = {name for node in self.nodes for name in node.used}
        produced = [name for node in self.nodes for name in node.results]
        results = [name for name in produced if name not in used]
        if self.chance(0.2):
            results = list(dict.fromkeys([*results, self.choice(produced)]))
        return Graph(self.inputs, tuple(self.nodes), tuple(results)).pruned()


DTYPES = {*FLOATS, *INTEGERS, torch.bool}


def is_small(tensor: torch.Tensor) -> bool:
    """Whether a graph may have a value of this type and size."""
    return tensor.numel() <= MOST_ELEMENTS and tensor.dtype in DTYPES


def kind_of(tensor: torch.Tensor) -> str:
    if tensor.dtype is torch.bool:
        return "b"
    return "f" if tensor.dtype.is_floating_point else "i"
