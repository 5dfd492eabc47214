"""What workers do: draw graphs, judge them on a path, and reduce those that fail.

A task is a block of graphs of a seed, or of mutations of a graph (`origin`), by their numbers; one of these to reduce; the reduced
graph of another path to judge; a graph to time; or a model whose parts are to be mutated. Tasks that would begin after the time is over
are left for the next call.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from scripts.core import exits, process
from scripts.core.requests import Folders
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.tools.fuzz import generator, layers, mutation, operators, oracle, reduction
from scripts.tools.fuzz.forks import OK, UNDEFINED, Cases, Ended, ForkedPath
from scripts.tools.fuzz.generator import EAGER_ERRORS, Graph, Input
from scripts.tools.fuzz.operators import OPERATORS
from scripts.tools.operators.batch import batch_worker

SEARCH_S = 240.0
"""Seconds of a reduction."""
VALUES = ("", "special", "positive", "large")
"""The rules of values (generator.VALUES) with which a program is run, first those that it was drawn with. It takes far longer to compile than to run."""


@dataclass(frozen=True, kw_only=True)
class FuzzRequest(batch_worker.TasksRequest):
    """`until`: seconds since the epoch; `operators`, `dtypes`: globs and names to which graphs are limited ((): all)."""

    until: float = 0.0
    operators: Sequence[str] = ()
    dtypes: Sequence[str] = ()


def serve(request: FuzzRequest, path: ForkedPath, folders: Folders) -> None:
    """Handle blocks of graphs, and graphs to reduce or to judge."""
    torch.set_num_threads(1)
    limit(request.operators, request.dtypes)

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        facts |= {"done": request.until > time.time(), "task": payload}
        if facts["done"] and "count" in payload:
            facts |= search(path, payload)
        elif facts["done"] and "model" in payload:
            facts["layers"] = layers_of(payload["model"])
        elif facts["done"] and "timed" in payload:
            graph = Graph.from_json(payload["timed"])
            facts |= described(graph) | {"ms": path.milliseconds(graph, oracle.reference(graph))}
        elif facts["done"] and "graph" in payload:
            (ended,) = ends(path, [Graph.from_json(payload["graph"])])
            facts["status"] = ended.status
        elif facts["done"]:
            facts |= reduce(path, payload, folders.results / "causes" / payload["name"])

    batch_worker.serve(request, handle)


def limit(globs: Sequence[str], dtypes: Sequence[str]) -> None:
    """Draw graphs of these operators and dtypes only."""
    if globs:
        for name in [n for n in OPERATORS if not any(fnmatch.fnmatchcase(n, glob) for glob in globs)]:  # fmt: skip
            del OPERATORS[name]
    if dtypes:
        kinds = [getattr(torch, name) for name in dtypes]
        generator.FLOATS = tuple(k for k in kinds if k.is_floating_point) or generator.FLOATS
        generator.INTEGERS = tuple(k for k in kinds if not k.is_floating_point and k != torch.bool) or generator.INTEGERS  # fmt: skip


def drawn(task: Mapping[str, Any], number: int) -> Graph | None:
    """Graph `number` of a task's seed, or mutation `number` of its origin; None if that has none."""
    if origin := task.get("origin"):
        return mutation.mutated(Graph.from_json(origin), task["seed"], number)
    return operators.draw(task["seed"], number)


def with_values(graph: Graph, rule: str) -> Graph:
    """The graph with inputs by another rule (one of VALUES), except for indices and booleans."""

    def changed(argument: Input) -> Input:
        kept = not rule or argument.dtype == "bool" or argument.values.startswith(("index", "once"))
        return argument if kept else dataclasses.replace(argument, values=rule)

    return graph.with_inputs(changed)


def layers_of(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The layers of a model, as JSON. Exits if it has none, or cannot be loaded."""
    choice = ModelChoice(model["name"], Path(model["file"]), model["options"])

    def work() -> bytes:
        parts = layers.of_model(load_model(choice, "fuzz"))
        return json.dumps([graph.as_json() for graph in parts]).encode()

    code, written = process.forked(work)
    if code or not (graphs := json.loads(written)):
        exits.fail(f"{choice.name}: no layers; the log says why")
    return graphs


def search(path: ForkedPath, task: Mapping[str, Any]) -> dict[str, Any]:
    """Draw and judge a block of graphs. Returns the count of each status, the seconds of each step, the failures, and the correct graph
    with the largest tensor."""
    begun, numbers = time.monotonic(), range(task["first"], task["first"] + task["count"])
    graphs: list[tuple[int, str, Graph | None]] = []
    for number in numbers:
        graph = drawn(task, number)
        valued = {rule: with_values(graph, rule) for rule in VALUES} if graph else {"": None}
        graphs += [(number, rule, g) for rule, g in valued.items() if not rule or g != graph]
    cases, counts = referenced(enumerate(graph for _, _, graph in graphs))
    judged = time.monotonic()
    failures, right = [], []
    for case, ended in path.run(cases).items():
        counts[ended.status] += 1
        (graph, reference), (number, rule, _) = cases[case], graphs[case]
        if ended.status == OK:
            size = max(array.size for array in (*reference.arrays, *reference.expected.golden))
            right.append((size, case))
        elif ended.status != UNDEFINED:
            failures.append({"number": number, "values": rule, "operators": graph.operators, "dtypes": graph.dtypes, "kind": ended.kind, **dataclasses.asdict(ended)})  # fmt: skip
    seconds = {"draw": judged - begun, "path": time.monotonic() - judged}
    said: dict[str, Any] = {"counts": dict(counts), "failures": failures, "parts": seconds}
    if right:
        _, case = max(right)
        said["largest"] = {"number": graphs[case][0], "graph": cases[case][0].as_json()}
    return said


def reduce(path: ForkedPath, payload: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Reduce a graph with a failure of this kind, and write its reproducer."""

    def fails(graphs: Sequence[Graph]) -> list[bool]:
        return [ended.kind == payload["kind"] for ended in ends(path, graphs)]

    graph = drawn(payload, payload["number"])
    valued = graph and with_values(graph, payload["values"])
    if valued is None or not fails([valued])[0]:
        return {"reduced": False}
    small = reduction.reduced(valued, fails, time.monotonic() + SEARCH_S)
    (ended,) = ends(path, [small])
    reference = oracle.reference(small)
    path.write(folder, small, reference, ended)
    inputs = [kind.iree for kind in reference.inputs]
    return described(small) | {"reduced": True, "inputs": inputs, "ended": dataclasses.asdict(ended)}  # fmt: skip


def described(graph: Graph) -> dict[str, Any]:
    """A graph as JSON, and what the rows of results/fuzz.csv have of it: its operators, dtypes and source."""
    return {
        "dtypes": graph.dtypes,
        "operators": graph.operators,
        "source": graph.source(),
        "graph": graph.as_json(),
    }


def ends(path: ForkedPath, graphs: Sequence[Graph]) -> list[Ended]:
    """How graphs end on a path; those without a right result end in UNDEFINED."""
    by_number = path.run(referenced(enumerate(graphs))[0])
    return [by_number.get(number, Ended(UNDEFINED)) for number in range(len(graphs))]


def referenced(graphs: Iterable[tuple[int, Graph | None]]) -> tuple[Cases, Counter[str]]:
    """The graphs that have a right result, with that, and how many others have none for which reason."""
    cases, counts = {}, Counter[str]()
    for number, graph in graphs:
        why = "" if graph else "eager"
        try:
            if graph:
                cases[number] = graph, oracle.reference(graph)
        except oracle.Undefined as undefined:
            why = str(undefined)
        except EAGER_ERRORS:
            why = "eager"
        if why:
            counts[f"undefined: {why}"] += 1
    return cases, counts
