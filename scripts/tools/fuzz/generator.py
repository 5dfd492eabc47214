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
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.core.dimensions import Dimension
from scripts.tools.operators.calls.calling import tensors_in

MOST_ELEMENTS = 4096
"""Of any value of a graph. Miscompiles depend on shapes and not on sizes, and small programs compile fast."""
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 67)
LARGE = (127, 257, 1000)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.int16)
VALUES = (*["normal"] * 6, "whole", "whole", "positive", "positive", "large", "special")
"""Rules of the values of an input (`values_of`)."""
EAGER_ERRORS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError, OverflowError)
"""What eager raises for arguments that do not suit an operator."""
ATTEMPTS = 40
"""Draws of an operator's arguments before another operator is chosen."""


@dataclass(frozen=True)
class Input:
    """An argument of a graph: `shape`, torch's name of the `dtype`, the rule of its values and their seed. `open`: the dimensions whose
    size, which is the same for all, is known when the program is called."""

    shape: tuple[int, ...]
    dtype: str
    values: str
    seed: int
    open: tuple[int, ...] = ()

    def tensor(self) -> torch.Tensor:
        return values_of(self, np.random.default_rng(self.seed))


@dataclass(frozen=True)
class Of:
    """A value of a graph, by its number: inputs first, then the tensors that each node returns."""

    value: int


def _cond(one: Callable, other: Callable, condition: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.ops.higher_order.cond(condition.any(), lambda v: (one(v),), lambda v: (other(v),), (x,))  # fmt: skip


def _while_loop(body: Callable, count: int, x: torch.Tensor) -> torch.Tensor:
    carried = torch.zeros((), dtype=torch.int64), x
    return torch.ops.higher_order.while_loop(lambda n, v: n < count, lambda n, v: (n + 1, body(v)), carried, ())[1]  # fmt: skip


_FLOW: dict[str, Callable[..., Any]] = {"cond": _cond, "while_loop": _while_loop}
_SOURCES = {
    "cond": "torch.cond({0}.any(), lambda v: (torch.ops.aten.{2}(v),), lambda v: (torch.ops.aten.{3}(v),), ({1},))[0]",
    "while_loop": "torch.while_loop(lambda n, v: n < {0}, lambda n, v: (n + 1, torch.ops.aten.{2}(v)), (torch.zeros((), dtype=torch.int64), {1}))[1]",
}  # fmt: skip
"""Control flow by name, and in a script: its arguments, then the operators of its branches."""


def _called(op: str, args: Sequence[str]) -> str:
    namespace, name, *more = op.split(".")
    if namespace == "flow":
        return _SOURCES[name].format(*args, *more)
    return f"torch.ops.{op}({', '.join(args)})"


@dataclass(frozen=True)
class Node:
    """A call. `op`: such as `aten.add.Tensor`, or `flow.cond.exp.neg` with the operators of its branches. `args`, `kwargs`: with Of in place of tensors. `count`: tensors that it returns."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    count: int

    @property
    def operator(self) -> Callable[..., Any]:
        namespace, name, *more = self.op.split(".")
        if namespace == "flow":
            return functools.partial(_FLOW[name], *(getattr(torch.ops.aten, n).default for n in more))  # fmt: skip
        return getattr(getattr(getattr(torch.ops, namespace), name), more[0])

    @property
    def used(self) -> list[int]:
        """The numbers of the values that it takes."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return [leaf.value for leaf in leaves if isinstance(leaf, Of)]


@dataclass(frozen=True)
class Graph:
    """A program: `inputs`, `nodes` in order, and the numbers of the values that it returns."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    results: tuple[int, ...]

    def run(self, inputs: Sequence[Any], call: Callable[..., Any] | None = None) -> list[Any]:
        """All values, computed from those of the inputs. `call(node, args, kwargs)`: in place of the operator."""
        values = list(inputs)
        for node in self.nodes:
            args, kwargs = filled((node.args, node.kwargs), values)
            returned = call(node, args, kwargs) if call else node.operator(*args, **kwargs)
            values += tensors_in(returned)
        return values

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The results; each is a tensor of its own."""
        values = self.run(inputs)
        return [values[number] for number in self.results]

    def tensors(self) -> list[torch.Tensor]:
        """The values of the inputs."""
        return [argument.tensor() for argument in self.inputs]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Those that are open."""
        return tuple(Dimension(n, f"x{n}", axis, "size", min=2) for n, i in enumerate(self.inputs) for axis in i.open)  # fmt: skip

    def resized(self) -> Graph:
        """The graph with another size in place of the open one, and without open dimensions."""
        shapes = [[2 * size + 1 if axis in i.open else size for axis, size in enumerate(i.shape)] for i in self.inputs]  # fmt: skip
        inputs = (dataclasses.replace(i, shape=tuple(shape), open=()) for i, shape in zip(self.inputs, shapes, strict=True))  # fmt: skip
        return dataclasses.replace(self, inputs=tuple(inputs))

    @property
    def operators(self) -> list[str]:
        return [node.op.removeprefix("aten.") for node in self.nodes]

    def pruned(self) -> Graph:
        """Without nodes and inputs that no result needs."""
        needed = set(self.results)
        numbers = self.numbers()
        kept: list[int] = []
        for place in reversed(range(len(self.nodes))):
            if needed & set(numbers[place]):
                kept.insert(0, place)
                needed |= set(self.nodes[place].used)
        inputs = [number for number in range(len(self.inputs)) if number in needed]
        known = {old: new for new, old in enumerate(inputs)}
        for place in kept:
            for number in numbers[place]:
                known[number] = len(known)
        nodes = [renumbered(self.nodes[place], known) for place in kept]
        results = tuple(known[number] for number in self.results)
        return Graph(tuple(self.inputs[n] for n in inputs), tuple(nodes), results)

    def as_json(self) -> dict[str, Any]:
        """The graph in values of JSON."""
        return _as_json(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Graph:
        inputs = (
            Input(**{**entry, "shape": tuple(entry["shape"]), "open": tuple(entry["open"])})
            for entry in data["inputs"]
        )
        nodes = (
            Node(
                entry["op"],
                tuple(map(_from_json, entry["args"])),
                {name: _from_json(value) for name, value in entry["kwargs"].items()},
                entry["count"],
            )
            for entry in data["nodes"]
        )
        return cls(tuple(inputs), tuple(nodes), tuple(data["results"]))

    def numbers(self) -> list[range]:
        """The numbers of the values that each node returns."""
        first, numbers = len(self.inputs), []
        for node in self.nodes:
            numbers.append(range(first, first + node.count))
            first += node.count
        return numbers

    def source(self) -> str:
        """The graph as the body of a Python function of torch."""
        names = [f"x{number}" for number in range(len(self.inputs))]
        lines = []
        for node in self.nodes:
            own = [f"v{len(names) + number}" for number in range(node.count)]
            args = [_shown(value, names) for value in node.args]
            args += [f"{key}={_shown(value, names)}" for key, value in node.kwargs.items()]
            target = ", ".join(own) if node.count > 1 else own[0]
            lines.append(f"{target} = {_called(node.op, args)}")
            names += own
        lines.append(f"return {', '.join(names[number] for number in self.results)}")
        return "\n".join(lines)


def _as_json(tree: Any) -> Any:
    match tree:
        case dict():
            return {name: _as_json(value) for name, value in tree.items()}
        case list() | tuple():
            return [_as_json(value) for value in tree]
        case torch.dtype():
            return {"dtype": str(tree).removeprefix("torch.")}
        case float() if not math.isfinite(tree):
            return {"float": str(tree)}
    return tree


def _from_json(data: Any) -> Any:
    match data:
        case list():
            return [_from_json(value) for value in data]
        case {"value": number}:
            return Of(number)
        case {"dtype": name}:
            return getattr(torch, name)
        case {"float": text}:
            return float(text)
    return data


def filled(tree: Any, values: Sequence[Any]) -> Any:
    """A tree of arguments with values in place of their numbers."""
    return pytree.tree_map_only(Of, lambda leaf: values[leaf.value], tree)


def renumbered(node: Node, known: dict[int, int]) -> Node:
    args, kwargs = pytree.tree_map_only(Of, lambda leaf: Of(known[leaf.value]), (node.args, node.kwargs))  # fmt: skip
    return Node(node.op, args, kwargs, node.count)


def _shown(value: Any, names: Sequence[str]) -> str:
    match value:
        case Of(number):
            return names[number]
        case list() | tuple():
            return f"[{', '.join(_shown(item, names) for item in value)}]"
        case float() if not math.isfinite(value):
            return f'float("{value}")'
    return repr(value)


def values_of(argument: Input, random: np.random.Generator) -> torch.Tensor:
    """The values of an input. Those of floating point are rounded to float16, so that all dtypes hold them alike."""
    dtype, shape = getattr(torch, argument.dtype), argument.shape
    if dtype is torch.bool:
        return torch.from_numpy(np.asarray(random.random(shape) < 0.5))
    if not dtype.is_floating_point:
        low, high = {"large": (-128, 128), "positive": (1, 9)}.get(argument.values, (-8, 9))
        # index:7: indices below 7; once:7: without repetition
        if argument.values.startswith("index"):
            low, high = 0, max(1, int(argument.values.partition(":")[2]))
        elif argument.values.startswith("once"):
            size = int(argument.values.partition(":")[2])
            order = random.permuted(np.tile(np.arange(size), (max(1, math.prod(shape[1:])), 1)), axis=1)  # fmt: skip
            chosen = order[:, : shape[0] if shape else 1].T.reshape(shape)
            return torch.from_numpy(np.ascontiguousarray(chosen)).to(dtype)
        if dtype is torch.uint8 and low < 0:
            low, high = 0, high - low - 1
        drawn = random.integers(low, high, shape)
        return torch.from_numpy(np.asarray(drawn)).to(dtype)
    values = np.asarray(random.standard_normal(shape), np.float32)
    match argument.values:
        case "whole":
            values = np.round(3 * values)
        case "positive":
            values = np.abs(values) + np.float32(0.25)
        case "large":
            values = values * np.float32(100)
        case "special":
            chosen = random.integers(0, 10, shape)
            for place, value in enumerate((np.nan, np.inf, -np.inf, -0.0, 0.0)):
                values = np.where(chosen == place, np.float32(value), values)
    return torch.from_numpy(np.asarray(values, np.float16)).to(dtype)


class Unsuitable(Exception):
    """No arguments of this operator suit the values so far."""


@dataclass
class Draw:
    """A graph while it is drawn. `values`: the tensors so far, as eager computes them. `focus`: the value that the next
    operator has to take, or None."""

    random: random.Random
    inputs: list[Input] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    focus: int | None = None
    floats: torch.dtype = torch.float32
    rule: str = "normal"

    def __post_init__(self) -> None:
        self.floats = self.random.choice(FLOATS)
        self.rule = self.random.choice(VALUES)
        self._made: list[torch.Tensor] = []

    # Choices

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def size(self, low: int = 1) -> int:
        if low == 0 and self.chance(0.03):
            return 0
        return self.random.choice(LARGE) if self.chance(0.03) else self.random.choice(SIZES)

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        while True:
            shape = tuple(self.size(0) for _ in range(self.random.randint(low, high)))
            if math.prod(shape) <= MOST_ELEMENTS // 2:
                return shape

    def dtype(self, kinds: str) -> torch.dtype:
        """`f`: floating point, `i`: integer, `b`: boolean; one of these."""
        kind = self.random.choice([k for k in kinds for _ in range(6 if k == "f" else 1)])
        if kind == "b":
            return torch.bool
        if kind == "i":
            return self.random.choice(INTEGERS)
        return self.floats if self.chance(0.85) else self.random.choice(FLOATS)

    def dim(self, tensor: torch.Tensor) -> int:
        if not tensor.dim():
            raise Unsuitable
        return self.random.randrange(-tensor.dim(), tensor.dim())

    def dims(self, tensor: torch.Tensor) -> list[int]:
        rank = tensor.dim()
        chosen = self.random.sample(range(rank), self.random.randint(1, rank)) if rank else []
        return [dim - rank if self.chance(0.3) else dim for dim in chosen]

    def scalar(self, tensor: torch.Tensor) -> float | int | bool:
        if tensor.dtype.is_floating_point or self.chance(0.1):
            return self.random.choice((0.5, -1.5, 2.0, 3.0, 0.1, -0.25, 0.0, 1.0))
        return self.random.choice((1, 2, 3, -1, 5, 0)) if tensor.dtype != torch.bool else True

    # Values

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def of(self, value: Of) -> torch.Tensor:
        number = value.value
        return self._made[number - INPUTS] if number >= INPUTS else self.values[number]

    def new(self, shape: Sequence[int], dtype: torch.dtype, rule: str = "") -> Of:
        """A new input."""
        if not rule and dtype.is_floating_point:
            rule = self.rule if self.chance(0.7) else "normal"
        rule = rule or self.random.choice(("normal", "large", "positive"))
        name = str(dtype).removeprefix("torch.")
        self.inputs.append(Input(tuple(shape), name, rule, self.random.getrandbits(31)))
        self._made.append(self.inputs[-1].tensor())
        return Of(INPUTS + len(self.inputs) - 1)

    def any(
        self, kinds: str = "fib", low: int = 0, high: int = 5, ok: Callable[[torch.Tensor], bool] = lambda _: True
    ) -> Of:  # fmt: skip
        """A value of these kinds and ranks: the one in focus, an earlier one, or a new input."""

        def fits(tensor: torch.Tensor) -> bool:
            return kind_of(tensor) in kinds and low <= tensor.dim() <= high and ok(tensor)

        if self.focus is not None and fits(self.of(Of(self.focus))):
            focus, self.focus = self.focus, None
            return Of(focus)
        known = [*range(len(self.values)), *range(INPUTS, INPUTS + len(self._made))]
        fitting = [number for number in known if fits(self.of(Of(number)))]
        if fitting and self.chance(0.75):
            return Of(self.random.choice(fitting[-6:]))
        for _ in range(ATTEMPTS):
            shape = self.shape(low, min(high, 4) if high > low else high)
            if fits(torch.empty(shape, dtype=(dtype := self.dtype(kinds)), device="meta")):
                return self.new(shape, dtype)
        raise Unsuitable

    def exactly(self, shape: Sequence[int], kinds: str, dtype: torch.dtype | None = None, rule: str = "") -> Of:  # fmt: skip
        """A value of this shape: an earlier one, or a new input."""
        shape = tuple(shape)
        if math.prod(shape) > MOST_ELEMENTS:
            raise Unsuitable
        if not rule and self.chance(0.7):
            known = [*range(len(self.values)), *range(INPUTS, INPUTS + len(self._made))]

            def fits(tensor: torch.Tensor) -> bool:
                typed = tensor.dtype == dtype if dtype else kind_of(tensor) in kinds
                return typed and tuple(tensor.shape) == shape

            fitting = [number for number in known if fits(self.of(Of(number)))]
            if self.focus is not None and self.focus in fitting:
                focus, self.focus = self.focus, None
                return Of(focus)
            if fitting:
                return Of(self.random.choice(fitting))
        return self.new(shape, dtype or self.dtype(kinds), rule)

    def beside(self, value: Of, kinds: str = "", rule: str = "") -> Of:
        """A value that broadcasts with another one, mostly of its dtype."""
        tensor = self.of(value)
        shape = [1 if self.chance(0.2) else size for size in tensor.shape]
        if self.chance(0.25):
            shape = shape[self.random.randint(0, len(shape)) :]
        elif self.chance(0.1) and tensor.numel() * 3 <= MOST_ELEMENTS and len(shape) < 5:
            shape = [self.random.choice((1, 2, 3)), *shape]
        same = kind_of(tensor) in (kinds or "fib") and self.chance(0.8)
        return self.exactly(shape, kinds or "fib", tensor.dtype if same else None, rule)

    def of_type(self, value: Of, shape: Sequence[int], rule: str = "") -> Of:
        """A value of another value's dtype."""
        dtype = self.of(value).dtype
        return self.exactly(shape, "", dtype, rule)

    # Calls

    def call(self, op: str, *args: Any, **kwargs: Any) -> None:
        """Add a node; raises Unsuitable if eager refuses it, or if a result is too large."""
        node = Node(f"aten.{op}" if op.count(".") == 1 else op, args, kwargs, 0)
        known = _Known(self)
        try:
            returned = tensors_in(node.operator(*filled(args, known), **filled(kwargs, known)))
        except EAGER_ERRORS:
            raise Unsuitable from None
        if not returned or any(tensor.numel() > MOST_ELEMENTS or tensor.dtype not in DTYPES for tensor in returned):  # fmt: skip
            raise Unsuitable
        self.nodes.append(Node(node.op, args, kwargs, len(returned)))
        self.values += returned

    def graph(self) -> Graph:
        """The graph, which returns the values that no node uses, and at times one more."""
        count = len(self.inputs)
        known = {INPUTS + number: number for number in range(count)}
        known |= {number: count + number for number in range(len(self.values))}
        nodes = tuple(renumbered(node, known) for node in self.nodes)
        used = {number for node in nodes for number in node.used}
        produced = range(count, count + len(self.values))
        results = [number for number in produced if number not in used]
        if self.chance(0.2):
            results = sorted({*results, self.random.choice(produced)})
        return Graph(tuple(self.inputs), nodes, tuple(results)).pruned()


INPUTS = 1 << 20
"""The number of the first input while a graph is drawn."""
DTYPES = {*FLOATS, *INTEGERS, torch.bool}


@dataclass(frozen=True)
class _Known(Sequence):
    draw: Draw

    def __getitem__(self, number: Any) -> Any:
        return self.draw.of(Of(number))

    def __len__(self) -> int:
        return INPUTS


def kind_of(tensor: torch.Tensor) -> str:
    if tensor.dtype is torch.bool:
        return "b"
    return "f" if tensor.dtype.is_floating_point else "i"
