"""Parts of an ONNX graph, and the search for the smallest one that fails as the whole graph does.

The search is the same on every machine: it tries the beginnings of the graph by bisection, then the last node of the shortest one
that fails, alone and with more and more of the nodes before it. What a part may take is CPU time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from scripts.frontends.sources.onnx_graph import is_literal

MOST_TOGETHER = 12
"""Nodes of a part of which each is tried to be left out."""
Fails = Callable[[onnx.ModelProto], bool]
"""Whether a part fails as the whole graph does."""


def operator_of(node: onnx.NodeProto) -> str:
    """The operator of a node with its domain: `onnx.Relu`, `com.microsoft.QLinearAdd`."""
    domain = node.domain if node.domain not in ("", "ai.onnx") else "onnx"
    return f"{domain}.{node.op_type}"


@dataclass(frozen=True)
class Graph:
    """A model whose values have these types, by name. A value without one can be neither input nor result of a part."""

    model: onnx.ModelProto
    types: Mapping[str, onnx.TypeProto]

    @classmethod
    def of(cls, model: onnx.ModelProto, computed: Mapping[str, onnx.TypeProto]) -> Graph:
        """`computed`: types that are known besides those in the model."""
        graph = model.graph
        said = (*graph.value_info, *graph.input, *graph.output)
        return cls(model, {**computed, **{value.name: value.type for value in said}})

    @functools.cached_property
    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes that are no literals, in their order."""
        return [node for node in self.model.graph.node if not is_literal(node)]

    @functools.cached_property
    def _literals(self) -> dict[str, onnx.TensorProto]:
        literals = {tensor.name: tensor for tensor in self.model.graph.initializer}
        for node in filter(is_literal, self.model.graph.node):
            literals[node.output[0]] = node.attribute[0].t
        return literals

    @functools.cached_property
    def _makers(self) -> dict[str, int]:
        return {name: at for at, node in enumerate(self.nodes) for name in node.output if name}

    def used(self, at: int) -> list[str]:
        """The values that a node uses, also in the graphs inside it."""
        return [*dict.fromkeys(_used(self.nodes[at]))]

    def before(self, numbers: Collection[int]) -> set[int]:
        """The nodes that compute what these nodes use."""
        used = (name for at in numbers for name in self.used(at))
        return {self._makers[name] for name in used if name in self._makers} - {*numbers}

    def part(self, numbers: Collection[int]) -> onnx.ModelProto | None:
        """A model of these nodes alone: what they use is its input, what others use its result. None if the type of an input, or of
        all results, is not known."""
        chosen = sorted(numbers)
        computed = dict.fromkeys(name for at in chosen for name in self.nodes[at].output if name)
        used = dict.fromkeys(name for at in chosen for name in self.used(at))
        given = [name for name in used if name not in computed and name not in self._literals]
        outside = {value.name for value in self.model.graph.output}
        outside |= {name for at in range(len(self.nodes)) if at not in numbers for name in self.used(at)}  # fmt: skip
        results = [name for at in chosen for name in self.nodes[at].output if name in outside]
        results = [name for name in results if name in self.types]
        if not results or any(name not in self.types for name in given):
            return None
        graph = onnx.helper.make_graph(
            [self.nodes[at] for at in chosen],
            self.model.graph.name,
            [onnx.ValueInfoProto(name=name, type=self.types[name]) for name in given],
            [onnx.ValueInfoProto(name=name, type=self.types[name]) for name in results],
        )
        inner = (name for name in computed if name in self.types and name not in results)
        graph.value_info.extend(onnx.ValueInfoProto(name=name, type=self.types[name]) for name in inner)  # fmt: skip
        for name in used:
            if name in self._literals:
                graph.initializer.add().CopyFrom(self._literals[name])
                graph.initializer[-1].name = name
        part = onnx.helper.make_model(graph, opset_imports=self.model.opset_import)
        part.ir_version = self.model.ir_version
        return part

    def each_alone(self) -> Iterator[tuple[int, onnx.ModelProto | None]]:
        """Each node and a part of it alone, one of those that differ only in their names."""
        tried: set[bytes] = set()
        for at in range(len(self.nodes)):
            part = self.part([at])
            text = b"" if part is None else _nameless(part)
            if text not in tried:
                tried |= {text} - {b""}
                yield at, part


CRASHES, FAILS = ("crashes it", "crash it"), ("fails", "fail")
"""How one and several operators end a tool."""


def failing(graph: Graph, fails: Fails, ends: tuple[str, str]) -> str:
    """What is known about the operators because of which a graph fails. `ends`: CRASHES or FAILS."""

    def try_(numbers: Collection[int]) -> bool:
        part = graph.part(numbers)
        return part is not None and fails(part)

    right, wrong = 0, len(graph.nodes)
    if not try_(range(wrong)):
        return f"operator not known: without what is around it, the graph no longer {ends[0]}"
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if try_(range(middle)) else (middle, wrong)
    last = wrong - 1
    name = operator_of(graph.nodes[last])
    if try_([last]):
        return f"{name} alone {ends[0]} too"
    together = _with_those_before(graph, last, try_)
    if together is None:
        return f"the nodes up to {name} ({graph.nodes[last].name}) {ends[1]} too, those before it do not"  # fmt: skip
    names = [*dict.fromkeys(operator_of(graph.nodes[at]) for at in together)]
    return f"{', '.join(names)} together {ends[1]} too, {name} alone does not"


def _with_those_before(
    graph: Graph, last: int, fails: Callable[[Collection[int]], bool]
) -> Sequence[int] | None:
    """The last node and some of those before it that fail together; None if they do only with more than can be taken apart."""
    numbers = {last}
    while before := graph.before(numbers):
        numbers |= before
        if fails(numbers):
            break
    else:
        return None
    for at in sorted(numbers - {last}) if len(numbers) <= MOST_TOGETHER else ():
        if fails(numbers - {at}):
            numbers -= {at}
    return sorted(numbers)


def _used(node: onnx.NodeProto) -> Iterator[str]:
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            own = {name for each in inner.node for name in each.output}
            own |= {value.name for value in (*inner.input, *inner.initializer)}
            yield from (name for each in inner.node for name in _used(each) if name not in own)
            yield from (value.name for value in inner.output if value.name not in own)


def _nameless(part: onnx.ModelProto) -> bytes:
    """The content of a part of one node, with numbers for names."""
    renamed = onnx.ModelProto.FromString(part.SerializeToString())
    graph = renamed.graph
    values = [*graph.input, *graph.output, *graph.initializer]
    numbers = {name: f"v{i}" for i, name in enumerate(dict.fromkeys(value.name for value in values))}  # fmt: skip
    for value in values:
        value.name = numbers[value.name]
    for node in graph.node:
        node.name = ""
        node.input[:] = [numbers.get(name, name) for name in node.input]
        node.output[:] = [numbers.get(name, name) for name in node.output]
    return renamed.SerializeToString(deterministic=True)
