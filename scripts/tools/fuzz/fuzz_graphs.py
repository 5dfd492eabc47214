"""Worker: draw graphs, judge them on a lowering path, and reduce those that fail.

A task is a block of graphs of a seed, by their numbers, one graph to reduce, or the reduced graph of another path to judge. Tasks that begin after the time is over are left for
the next call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import importlib
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from scripts.core import atomic, requests, tensors
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.iree.compile_options import TargetOptions
from scripts.tools.fuzz import generator, operators, oracle, reduction
from scripts.tools.fuzz.generator import EAGER_ERRORS, Graph
from scripts.tools.fuzz.operators import OPERATORS
from scripts.tools.fuzz.paths import CRASHED, OK, REFUSED, TOGETHER, UNDEFINED, WRONG, Ended, LoweringPath  # fmt: skip
from scripts.tools.operators.batch import batch_worker

SEARCH_S = 240.0
"""Seconds of a reduction."""
PROGRAM, SOURCE = "program.mlir", "graph.py"


@dataclass(frozen=True, kw_only=True)
class FuzzRequest(batch_worker.TasksRequest):
    """`packages`: the environment of another IREE, or ""; `until`: seconds since the epoch; `operators`, `dtypes`: globs and names to
    which graphs are limited ((): all)."""

    target: TargetOptions
    device: str
    exporter: str
    exporter_options: Mapping[str, Any] = option(factory=dict)
    packages: str = ""
    until: float = 0.0
    operators: Sequence[str] = ()
    dtypes: Sequence[str] = ()


def fuzz_graphs(request: FuzzRequest, folders: Folders) -> None:
    """Handle blocks of graphs, and graphs to reduce."""
    torch.set_num_threads(1)
    limit(request.operators, request.dtypes)
    if request.packages:
        (site,) = Path(request.packages).glob("lib/python*/site-packages")
        sys.path.insert(0, str(site))
        for name in ("iree.compiler.api", "iree.compiler.ir", "iree.runtime"):
            importlib.import_module(name)
        sys.path.remove(str(site))
    path = LoweringPath(
        request.exporter,
        request.exporter_options,
        request.target.compiler_flags(),
        request.device,
        folders.results / "scratch",
    )

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        facts |= {"done": request.until > time.time(), "task": payload}
        if facts["done"] and "count" in payload:
            facts |= search(path, payload["seed"], payload["first"], payload["count"])
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


def search(path: LoweringPath, seed: int, first: int, count: int) -> dict[str, Any]:
    """Draw and judge graphs. Returns how many ended how, the seconds of each part, and the failures."""
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    seconds = {"draw": 0.0, "path": 0.0}
    for start in range(first, first + count, TOGETHER):
        begun, cases = time.monotonic(), {}
        for number in range(start, min(start + TOGETHER, first + count)):
            graph = operators.draw(seed, number)
            try:
                cases[number] = graph, oracle.reference(graph)
            except oracle.Undefined as why:
                counts[f"undefined: {why}"] += 1
            except EAGER_ERRORS:
                counts["undefined: eager"] += 1
        drawn = time.monotonic()
        for number, ended in path.run(cases).items():
            counts[ended.status] += 1
            if ended.status != OK:
                graph = cases[number][0]
                failures.append({"number": number, "operators": graph.operators, "kind": ended.kind, **dataclasses.asdict(ended)})  # fmt: skip
        seconds["draw"] += drawn - begun
        seconds["path"] += time.monotonic() - drawn
    return {"counts": dict(counts), "failures": failures, "parts": seconds}


def reduce(path: LoweringPath, payload: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Reduce a graph that ended in a way of some kind, and write its reproducer."""
    graph = operators.draw(payload["seed"], payload["number"])

    def fails(graphs: Sequence[Graph]) -> list[bool]:
        return [ended.kind == payload["kind"] for ended in ends(path, graphs)]

    if not fails([graph])[0]:
        return {"reduced": False}
    small = reduction.reduced(graph, fails, time.monotonic() + SEARCH_S)
    (ended,) = ends(path, [small])
    reference = oracle.reference(small)
    write(folder, path, small, reference, ended)
    return {
        "reduced": True,
        "dtypes": [argument.dtype for argument in small.inputs],
        "operators": small.operators,
        "source": small.source(),
        "graph": small.as_json(),
        "inputs": [kind.iree for kind in reference.inputs],
        "ended": dataclasses.asdict(ended),
    }


def ends(path: LoweringPath, graphs: Sequence[Graph]) -> list[Ended]:
    """How graphs end on a path; those without a right result end in UNDEFINED."""
    cases = {}
    for number, graph in enumerate(graphs):
        with contextlib.suppress(oracle.Undefined, *EAGER_ERRORS):
            cases[number] = graph, oracle.reference(graph)
    by_number = path.run(cases)
    return [by_number.get(number, Ended(UNDEFINED)) for number in range(len(graphs))]


def write(
    folder: Path, path: LoweringPath, graph: Graph, reference: oracle.Reference, ended: Ended
) -> None:
    """Write a reproducer that needs the wheels alone."""
    folder.mkdir(parents=True, exist_ok=True)
    given = [tensors.as_native(a, k.dtype) for a, k in zip(reference.arrays, reference.inputs, strict=True)]  # fmt: skip
    atomic.write_text(folder / SOURCE, _script(graph, given, path))
    if ended.stage == "export":
        return
    atomic.write_text(folder / PROGRAM, path.program(graph, reference))
    flags = " ".join(path.flags)
    lines = ["#!/bin/sh", "set -ex", f"iree-compile {flags} {PROGRAM} -o module.vmfb"]
    if ended.status in (WRONG, CRASHED, REFUSED) and ended.stage == "run":
        call = ["iree-run-module --module=module.vmfb --function=main", f"--device={path.device}"]
        for number, (array, kind) in enumerate(zip(given, reference.inputs, strict=True)):
            array.tofile(folder / f"input_{number}.bin")
            call.append(f"--input={kind.iree}=@input_{number}.bin")
        for number, array in enumerate(reference.expected.golden):
            kind = reference.expected.types[number]
            tensors.as_native(array, kind.dtype).tofile(folder / f"expected_{number}.bin")
            call.append(f"--expected_output={'x'.join([*map(str, kind.shape), tensors.DTYPES[kind.dtype][0]])}=@expected_{number}.bin")  # fmt: skip
        lines.append(" ".join(call))
    atomic.write_text(folder / "run.sh", "\n".join([*lines, ""]))


_LOWERED = {
    "torch_mlir": ("from torch_mlir import fx", 'fx.export_and_import(Graph(), *inputs, output_type="{dialect}")'),
    "torch_xla": ("from torch_xla import stablehlo", "stablehlo.exported_program_to_stablehlo(torch.export.export(Graph(), tuple(inputs))).get_stablehlo_text()"),
}  # fmt: skip
"""By exporter what a script imports, and how it lowers a graph."""


def _script(graph: Graph, given: Sequence[np.ndarray], path: LoweringPath) -> str:
    """A Python script of torch that computes what a graph has to compute, and lowers it."""
    imported, lowered = _LOWERED[path.exporter]
    dialect = path.options.get("dialect", "").replace("torch", "linalg-on-tensors")
    lines = ["import torch", imported, "", "", "class Graph(torch.nn.Module):"]
    names = ", ".join(f"x{number}" for number in range(len(given)))
    lines.append(f"    def forward(self{', ' if names else ''}{names}):")
    lines += [f"        {line}" for line in graph.source().splitlines()]
    lines += ["", "", "inputs = ["]
    for array, argument in zip(given, graph.inputs, strict=True):
        values = str(np.asarray(array, np.float64 if array.dtype.kind not in "iub" else array.dtype).tolist())  # fmt: skip
        values = values.replace("nan", 'float("nan")').replace("inf", 'float("inf")') if argument.values == "special" else values  # fmt: skip
        lines.append(
            f"    torch.tensor({values}, dtype=torch.{argument.dtype}).reshape({argument.shape}),"
        )
    lines += ["]", "print(Graph()(*inputs))", f"print({lowered.format(dialect=dialect)})", ""]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    requests.run(FuzzRequest, fuzz_graphs)
