"""Answer the requests of test_operators.py; run it in an environment with torch.

.venvs/torch-mlir/bin/python -m tests.pipeline.operators_in_torch problems < problems.json
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import torch

from scripts.core import tensors
from scripts.frontends.lowering import capture, link
from scripts.frontends.torch_model import convert
from scripts.measure.verify import verify
from scripts.measure.verify.verify import Expected
from scripts.tools.operators import make_operator_references
from scripts.tools.operators.calls import call_inputs
from scripts.tools.operators.calls.calling import Call, NotCallable, tensors_in
from scripts.tools.operators.problems.problem import Problem
from scripts.tools.operators.trace_operators import Trace


def problem(op: str, args: str) -> dict:
    """Return the properties of a problem's inputs, eager results and graph."""
    try:
        call = Call(Problem(op, args))
        made = call_inputs.make(call, seed=0)
        before = [tensor.clone() for tensor in made]
        observed = make_operator_references.observe(call, made, {})
    except NotCallable as error:
        return {"refused": str(error)}
    weak, weak_by_backend_bench = make_operator_references.weak_answers(call, made, observed)
    found = {
        "inputs": [_described(tensor) for tensor in made],
        "same_again": _equal(made, call_inputs.make(call, seed=0)),
        "differs_by_seed": not made or not _equal(made, call_inputs.make(call, seed=1)),
        "types": [[list(kind.shape), kind.dtype] for kind in observed.types],
        "fp64": observed.fp64 is not None,
        "deterministic": observed.deterministic,
        "dtype": observed.dtype,
        "marks": make_operator_references.marks(observed.golden),
        "weak": weak,
        "weak_by_backend_bench": weak_by_backend_bench,
        "bound_agrees": _bound(call, made, observed),
        "unchanged": _equal(made, before),
        "results": [array.reshape(-1)[:8].tolist() for array in observed.golden],
    }
    return found | _lowered(call, made, observed)


def _bound(call: Call, made: list, observed: Expected) -> str:
    """Return the verdict of the third of the calls that are timed."""
    run = call.bound(*made)
    with torch.no_grad():
        third = [run() for _ in range(3)][-1]
    return verify.verify([convert.to_numpy(t) for t in tensors_in(third)], observed, {}).code


def _lowered(call: Call, made: list, observed: Expected) -> dict:
    """Return the graph, its results, and whether torch-mlir imports it."""
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table
    from torch_mlir.extras.fx_importer import FxImporter

    try:
        graph = call.graph(get_decomposition_table())
    except NotCallable as error:
        return {"graph_refused": str(error)}
    with torch.no_grad():
        again = [convert.to_numpy(t) for t in graph(*[t.contiguous() for t in made])]
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer.import_stateless_graph(graph.graph, func_name="main")
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return {
        "operators": [str(n.target) for n in graph.graph.nodes if n.op == "call_function"],
        "placeholders": len(placeholders),
        "agrees": verify.verify(again, observed, {}).code,
        "imported": "func.func @main" in str(importer.module),
    }


def programs(asked: list, exporters: list, folder: Path) -> list:
    """Make programs of problems with several exporters, inputs and golden results."""
    refused = []
    for number, (op, args) in enumerate(asked):
        call = Call(Problem(op, args))
        made = call_inputs.make(call, seed=0)
        observed = make_operator_references.observe(call, made, {})
        stored = {str(i): convert.to_numpy(tensor) for i, tensor in enumerate(made)}
        tensors.save_npz(folder / f"{number}.inputs.npz", stored)
        tensors.save_npz(folder / f"{number}.golden.npz", make_operator_references.arrays(observed))
        for name, exporter, options in exporters:
            module = importlib.import_module(f"scripts.frontends.exporters.{exporter}")
            try:
                lowered, _ = module.export(call.as_model(), options)
            except capture.UnsupportedProgram as error:
                refused.append([op, name, str(error)])
                continue
            text = link.link(lowered, call.input_types())
            (folder / f"{number}.{name}.mlir").write_bytes(text)
    return refused


def trace() -> list:
    """Return the trace of a small model."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    recorded = Trace()
    with recorded:
        out = model(torch.ones(2, 4))
        out.detach().clone().mul_(2.0).to(torch.float16)
        out.t().sum().backward()
        torch.empty_like(out)
        out.view(-1)
    return [[op, args, count] for (op, args), count in recorded.counts.items()]


def _described(tensor: torch.Tensor) -> dict:
    flat = tensor.double() if tensor.numel() else torch.zeros(1, dtype=torch.float64)
    return {
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "range": [float(flat.min()), float(flat.max())],
        "distinct": int(tensor.unique().numel()),
    }


def _equal(first: list, second: list) -> bool:
    return all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(first, second, strict=True))  # fmt: skip


def main() -> None:
    asked = json.load(sys.stdin)
    match sys.argv[1:]:
        case ["problems"]:
            found = [problem(op, args) for op, args in asked]
        case ["programs", folder]:
            found = programs(asked["problems"], asked["exporters"], Path(folder))
        case _:
            found = trace()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
