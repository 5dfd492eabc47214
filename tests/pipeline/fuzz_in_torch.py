"""Finds planted miscompiles among random graphs, and false alarms of eager against itself; writes graphs as JSON, mutates them and layers of a model, and writes
programs as one function. Prints JSON.

Run in the environment torch-mlir: fuzz_in_torch.py power 3000; fuzz_in_torch.py alarms 1000; … as_json 500; … mutations 500; … layers 20; … merged 3; … values 3; … ends 0; … never_drawn 20; … rules 500
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed

from scripts.frontends.torch_model import convert, loading
from scripts.iree.backends import compile_flags
from scripts.tools.fuzz import forks, layers, operators, oracle, reduction
from scripts.tools.fuzz.fuzz_graphs import VALUES, with_values
from scripts.tools.fuzz.generator import EAGER_ERRORS, Draw, Graph, Input, Node, Unsuitable, Value
from scripts.tools.fuzz.mutation import mutated
from scripts.tools.fuzz.paths import LoweringPath, is_of_dynamic_size, merged

Fault = Callable[[str, Node, list[Any], dict[str, Any]], Any]
"""What a miscompiled operator returns, given its name; None where the fault does not apply."""


def _overwritten(base: str, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if base == "scatter_add":
        return args[0].scatter(args[1], args[2], args[3])
    return None


def _broadcast(base: str, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if base not in ("add", "mul", "sub", "maximum") or not isinstance(args[1], torch.Tensor):
        return None
    x, y = args[:2]
    if y.dim() == 1 and x.dim() == 2 and x.shape[0] == x.shape[1] == y.shape[0]:
        return node.operator(x, y[:, None], **kwargs)
    if x.shape != y.shape and y.numel() > 1:
        return node.operator(x, y.flatten()[0].expand(y.shape), **kwargs)
    return None


class _Stale:
    """The second result of a shape and dtype is the first one."""

    def __init__(self) -> None:
        self.first: dict[Any, torch.Tensor] = {}

    def __call__(self, base: str, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        made = node.operator(*args, **kwargs)
        if not isinstance(made, torch.Tensor) or base in ("empty", "arange", "eye"):
            return None
        return self.first.setdefault((made.shape, made.dtype, base), made)


def _tail(base: str, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if base == "sum" and args[1] and args[0].dim() and args[0].shape[args[1][0]] % 2:
        size = args[0].shape[args[1][0]] - 1
        return node.operator(args[0].narrow(args[1][0], 0, size), *args[1:], **kwargs)
    return None


def _unsigned(base: str, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    is_signed = isinstance(args[0], torch.Tensor) and args[0].dtype is torch.uint8
    if not is_signed or base not in ("_to_copy", "sum", "prod", "amax", "div", "gt", "lt"):
        return None
    made = node.operator(args[0].view(torch.int8), *args[1:], **kwargs)
    return made.view(torch.uint8) if made.dtype is torch.int8 else made


def _padding(base: str, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if base == "max_pool2d" and any(args[3]):
        return node.operator(args[0].abs(), *args[1:])
    return None


FAULTS: dict[str, Callable[[], Fault]] = {
    "dropped negation": lambda: lambda base, n, a, k: a[0] if base == "neg" else None,
    "slice off by one": lambda: lambda base, n, a, k: n.operator(a[0].roll(-1, a[1]), *a[1:]) if base == "slice" else None,
    "wrong rounding": lambda: lambda base, n, a, k: torch.floor(a[0] + 0.5) if base == "trunc" else None,
    "swapped broadcast": lambda: _broadcast,
    "stale buffer": _Stale,
    "wrong NaN rule": lambda: lambda base, n, a, k: torch.fmax(*a) if base == "maximum" else None,
    "lost tail of a sum": lambda: _tail,
    "unsigned as signed": lambda: _unsigned,
    "overwritten in place of added": lambda: _overwritten,
    "wrong padding": lambda: _padding,
    "logical shift of signed numbers": lambda: lambda base, n, a, k: n.operator(a[0].abs(), a[1]) if base == "bitwise_right_shift" else None,
    "order of a sort": lambda: lambda base, n, a, k: n.operator(a[0], a[1], False) if base == "sort" else None,
    "inverted condition": lambda: lambda base, n, a, k: n.operator(a[0], a[2], a[1]) if base == "where" and a[1].shape == a[2].shape else None,
}  # fmt: skip


def graphs(count: int) -> Iterator[tuple[Graph, oracle.Reference]]:
    for number in range(count):
        graph = operators.draw(7, number)
        try:
            yield graph, oracle.reference(graph)
        except (oracle.Undefined, *EAGER_ERRORS):
            continue


def outputs(graph: Graph, call: Any = None) -> list[Any]:
    with torch.no_grad():
        values = graph.run(graph.tensors(), call)
        return [convert.to_numpy(values[name]) for name in graph.results]


def power(count: int) -> dict[str, int]:
    """By fault, after how many graphs it was found; those that were not found are left out."""
    by_fault: dict[str, int] = {}
    for number, (graph, reference) in enumerate(graphs(count)):
        for name, make in FAULTS.items():
            if name in by_fault:
                continue
            fault, applied = make(), []

            def call(node: Node, args: Any, kwargs: Any, fault=fault, applied=applied) -> Any:
                made = fault(node.op.split(".")[1], node, list(args), kwargs)
                applied.append(made is not None)
                return node.operator(*args, **kwargs) if made is None else made

            try:
                computed = outputs(graph, call)
            except EAGER_ERRORS:
                continue
            if any(applied) and reference.problem(computed):
                by_fault[name] = number
        if len(by_fault) == len(FAULTS):
            break
    return by_fault


def alarms(count: int) -> list[str]:
    """What is said about results that are right."""
    problems = []
    for graph, reference in graphs(count):
        problems += filter(None, [reference.problem(outputs(graph))])
    return problems


def as_json(count: int) -> list[int]:
    """The graphs that are others once they were JSON."""
    different = []
    for number in range(count):
        graph = operators.draw(7, number)
        again = Graph.from_json(json.loads(json.dumps(graph.as_json(), allow_nan=False)))
        if again.source() != graph.source() or again.inputs != graph.inputs:
            different.append(number)
    return different


def mutations(count: int) -> dict[str, int]:
    """How many graphs have a mutation, and how many of these are the same when they are drawn again, have their operators, and have other sizes."""
    counts = dict.fromkeys(("mutated", "repeated", "operators", "sizes"), 0)
    for number in range(count):
        graph = operators.draw(7, number)
        if made := mutated(graph, 1, 0):
            counts["mutated"] += 1
            counts["repeated"] += made == mutated(graph, 1, 0)
            counts["operators"] += made.operators == graph.operators
            counts["sizes"] += [i.shape for i in made.inputs.values()] != [
                i.shape for i in graph.inputs.values()
            ]
    return counts


def values(count: int) -> dict[str, Any]:
    """How `count` programs of maximum end with each set of values, by IREE, which loses NaN; and how often one was exported."""

    class Path(LoweringPath):
        def program(self, graph: Graph, reference: oracle.Reference) -> str:
            with (self.folder / "exports.txt").open("a") as file:
                file.write("x")
            return super().program(graph, reference)

    options = {"dialect": "torch", "rewrites": "none"}
    cases = {}
    for n in range(count):
        inputs = {f"x{i}": Input((40, n + 1), "float32", "normal", n + i) for i in range(2)}
        node = Node("aten.maximum.default", (Value("x0"), Value("x1")), {}, ("v0",))
        for rule in VALUES:
            valued = with_values(Graph(inputs, (node,), node.results), rule)
            cases[len(cases)] = valued, oracle.reference(valued)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(pathlib.Path(folder), "torch_mlir", options, compile_flags("llvm-cpu", None, None, ()), "local-sync")  # fmt: skip
        ends = path.run(cases)
        exports = len((path.folder / "exports.txt").read_text(encoding="utf-8"))
    return {"ends": [ends[n].status for n in cases], "rules": VALUES, "exports": exports}


class _Failing(forks.ForkedPath):
    """Fails as the name of a graph's result says."""

    each_s, forks = 0, 0

    def script(self) -> tuple[str, str]:
        return "", ""

    def compiled_call(self, graph: Graph, reference: Any) -> Callable[[], object]:
        return lambda: self._do(graph)

    def judge(self, cases: Any) -> None:
        for group in forks.by_program(cases):
            self._begin(group, forks.COMPILE)
            if cases[group[0]][0].results == ("crashes",):
                os.kill(os.getpid(), signal.SIGSEGV)
            for n in group:
                self._begin(group, forks.RUN)
                self._do(cases[n][0])
                self._end([n], forks.Ended(forks.OK))

    def _do(self, graph: Graph) -> None:
        while graph.results == ("spins",):
            pass
        if graph.results == ("sleeps",):
            time.sleep(3600)
        if graph.results == ("allocates",):
            bytearray(2 * forks.MEMORY)
        if graph.results == ("NaN",) and graph.inputs["x0"].values == "special":
            os.kill(os.getpid(), signal.SIGSEGV)

    def _forked(self, cases: Any) -> Any:
        self.forks += 1
        return super()._forked(cases)


def ends(_: int) -> dict[str, Any]:
    """How graphs end that crash and hang, beside others, in how many forks, and whether their time is measured."""
    forks.LIMIT_S, forks.WAITING = 1, 2
    texts = ("right", "spins", "sleeps", "crashes", "NaN", "allocates")
    graphs = [Graph({"x0": Input((1,), "float32", rule, 0)}, (), (text,)) for text in texts for rule in ("normal", "special")]  # fmt: skip
    cases: Any = {n: (graph, None) for n, graph in enumerate(graphs)}
    with tempfile.TemporaryDirectory() as folder:
        path = _Failing(pathlib.Path(folder))
        by_number = path.run(cases)
        of_crash = _Failing(pathlib.Path(folder))
        of_crash.run({n: cases[n] for n in (6, 7)})
        timed = [text for text, graph in zip(texts, graphs[::2], strict=True) if path.milliseconds(graph, cases[0][1]) is not None]  # fmt: skip
    return {"ends": [by_number[n].status for n in cases], "timed": timed, "forks": of_crash.forks}


def never_drawn(count: int) -> list[str]:
    """The operators of which none of `count` draws finds arguments."""

    def is_drawn(name: str, seed: int) -> bool:
        drawn = Draw(str(seed))
        with contextlib.suppress(Unsuitable):
            operators.OPERATORS[name](drawn)
        return bool(drawn.nodes)

    names = {**operators.OPERATORS, **operators.WEIGHTS}
    return [name for name in names if not any(is_drawn(name, seed) for seed in range(count))]


def _chain(*calls: tuple[str, *tuple[Any, ...]]) -> Graph:
    """Operators of which each takes the result of the one before, on four numbers."""
    nodes = [Node(f"aten.{op}", (Value(f"v{n - 1}" if n else "x0"), *args), {}, (f"v{n}",)) for n, (op, *args) in enumerate(calls)]  # fmt: skip
    return Graph({"x0": Input((4,), "float32", "normal", 0)}, tuple(nodes), nodes[-1].results)


def _reason(graph: Graph) -> str:
    """Why a graph has no right result, or ""."""
    try:
        oracle.reference(graph)
    except oracle.Undefined as why:
        return str(why)
    return ""


def _drawn(name: str) -> Node:
    draw = Draw("0")
    operators.OPERATORS[name](draw)
    return draw.nodes[0]


class _Sliced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[5::2]


def rules(count: int) -> dict[str, Any]:
    """What has a right result, what `count` norms are drawn of, what a refusal is, and how small a graph is made that fails beside others alone."""
    drawn = []
    for n in range(count):
        draw = Draw(str(n))
        with contextlib.suppress(Unsuitable):
            operators.OPERATORS["linalg_vector_norm"](draw)
            x, order, *_ = draw.nodes[0].args
            drawn.append((draw.values[x.name].numel(), abs(order) == float("inf")))
    try:
        size = torch.export.Dim("size", min=2)
        torch.export.export(_Sliced(), (torch.ones(8, 3),), dynamic_shapes=({0: size},))
    except Exception as error:
        of_size = is_of_dynamic_size(error)
    try:
        torch.ones(3).view(2)
    except RuntimeError as error:
        of_view = is_of_dynamic_size(error)
    nodes = [Node("aten.mean.dim", (Value("x0"), [0, 1]), {}, ("v0",)), Node("aten.lt.Scalar", (Value("x0"), 0.3), {}, ("v1",))]  # fmt: skip
    mean = oracle.reference(Graph({"x0": Input((32, 13), "bfloat16", "normal", 0)}, tuple(nodes), ("v0", "v1")))  # fmt: skip
    value, is_less = mean.expected.golden
    near = value + 5 * mean.spread[0]
    is_zero = _chain(("layer_norm.default", [13]), ("logical_not.default",))
    three = _chain(("neg.default",), ("neg.default",), ("neg.default",))
    small = reduction.reduced(three, lambda graphs: [len(graphs) > 1 or graph == three for graph in graphs], float("inf"))  # fmt: skip
    return {
        "infinities": _reason(_chain(("full_like.default", float("inf")), ("argsort.default", 0, False))),
        "zero by infinity": _reason(_chain(("view.default", [1, 1, 2, 2]), ("mul.Scalar", float("inf")), ("upsample_bilinear2d.default", [2, 3], False))),
        "infinity by itself": _reason(_chain(("view.default", [1, 2, 2]), ("mul.Scalar", float("inf")), ("group_norm.default", 1))),
        "devices": [_drawn(name).kwargs["device"] for name in ("arange", "eye")],
        "sum near 0": _reason(dataclasses.replace(is_zero, inputs={"x0": Input((13, 13), "bfloat16", "normal", 0)})),
        "small": _reason(_chain(("mul.Scalar", 1e-3), ("rms_norm.default", [4]))),
        "nothing": sorted({is_infinite for numel, is_infinite in drawn if not numel}),
        "sizes": [of_size, of_view],
        "kinds": len({forks.Ended(forks.REFUSED, forks.EXPORT, f"no <function at {n:#x}>").kind for n in (0x7EFD48B09300, 0x7F4E16315A00)}),
        "nodes": len(small.nodes),
        "near": [bool(mean.problem([near, less])) for less in (is_less, ~is_less, is_less.astype(np.int64))],
    }  # fmt: skip


class Blocks(torch.nn.Module):
    """Five equal blocks, with a normalization that returns three tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.relu(self.norm(self.conv(x))) + x
        return x.flatten(1)


def of_layers(count: int) -> dict[str, Any]:
    """The operators of the layers of a model, and how many of `count` mutations of the first one are computed, with other sizes."""
    loaded = loading.LoadedModel("blocks", Blocks().eval(), (torch.randn(1, 8, 56, 56),), {}, file=None)  # fmt: skip
    parts = layers.of_model(loaded)
    mutations = [made for number in range(count) if (made := mutated(parts[0], 1, number))]
    shapes = {i.shape for made in mutations for i in made.inputs.values() if len(i.shape) == 4}
    return {
        "operators": [graph.operators for graph in parts],
        "computed": sum(len(outputs(graph)) == len(graph.results) for graph in mutations),
        "results": [len(graph.results) for graph in parts],
        "shapes": len(shapes),
    }


class _Crowded(LoweringPath):
    """A compiler that blames the first program of a function for the others."""

    def __init__(self, count: int) -> None:
        self.folder, self.ended = pathlib.Path(), {}
        self._same_program = {n: [n] for n in range(count)}

    def compile(self, text: str, module: pathlib.Path | None) -> str | None:
        return "program:3:5: error: crowded" if text.count(" op ") > 1 else None

    def _problems(
        self, module: pathlib.Path, programs: Iterable[int], cases: forks.Cases
    ) -> dict[int, list[str]]:
        return {n: [""] for n in programs}

    def _begin(self, numbers: list[int], stage: str) -> None: ...

    def _end(self, numbers: list[int], ended: forks.Ended) -> None:
        self.ended |= dict.fromkeys(numbers, ended.status)


def in_one_function(count: int) -> dict[str, Any]:
    """Programs as one function: its text, the lines of each, and how they end if the compiler takes each of them alone."""
    program = "module {\n  func.func @main(%arg0: t) -> t {\n    %0 = op %arg0 : t\n    return %0 : t\n  }\n}\n"
    text, lines = merged(dict.fromkeys(range(count), program))
    numbered, crowded = text.splitlines(), _Crowded(count)
    crowded._judge(dict.fromkeys(range(count), program), {})
    return {
        "text": text,
        "alone": [crowded.ended[n] for n in range(count)],
        "own": [[line for at in lines[n] if (line := numbered[at - 1])] for n in range(count)],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, count = sys.argv[1], int(sys.argv[2])
    print(
        json.dumps(
            {"power": power, "alarms": alarms, "as_json": as_json, "mutations": mutations, "merged": in_one_function, "values": values, "ends": ends, "layers": of_layers,
             "never_drawn": never_drawn, "rules": rules}[what](count)
        )
    )  # fmt: skip
