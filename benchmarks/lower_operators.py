"""The worker of benchmarks.operator_programs: lowers problems with torch-mlir and normalises them.

Run it with the Python of the torch-mlir environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from scripts.core import exits, requests
from scripts.core.requests import Folders
from scripts.core.tensors import TensorType
from scripts.frontends.exporters import torch_mlir as exporter
from scripts.frontends.lowering.link import Input, Lowered, link
from scripts.frontends.lowering.stablehlo import for_iree
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.batch.normalise import Normaliser
from scripts.tools.operators.calls.calling import Call, NotCallable
from scripts.tools.operators.problems.problem import Problem


def lower_operators(request: batch_worker.TasksRequest, _: Folders) -> None:
    normaliser, decompositions = Normaliser(), get_decomposition_table()

    def lower(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        try:
            call = Call(Problem(**payload["problem"]))
            graph = call.graph(decompositions).graph
        except NotCallable as error:
            exits.fail(str(error), exits.UNSUPPORTED)
        text = exporter.lower(graph, payload["dialect"], facts)
        if payload["dialect"] == "stablehlo":
            text, _ = for_iree(text)
        linked = link(*_with_arguments(text, call)).decode()
        Path(payload["out"]).write_text(normaliser.normalise(linked, "main"), encoding="utf-8")

    batch_worker.serve(request, lower)


def _with_arguments(text: str, call: Call) -> tuple[Lowered, list[TensorType]]:
    """Return a lowered program with its arguments, and the types of these."""
    types = [
        TensorType(spec.argument, tuple(spec.shape), str(spec.dtype).removeprefix("torch."))
        for spec in call.inputs
    ]
    inputs = [Input(type_, number) for number, type_ in enumerate(types)]
    return Lowered(text, exporter.ENTRY, inputs), types


if __name__ == "__main__":
    requests.run(batch_worker.TasksRequest, lower_operators)
