"""Worker: lower operator problems to programs, whose @main takes the problem's tensor arguments."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.core import exits, requests
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.frontends.lowering import capture, link
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.calls.calling import Call, NotCallable
from scripts.tools.operators.problems.problem import PROGRAM, Problem


@dataclass(frozen=True, kw_only=True)
class OperatorExportRequest(batch_worker.TasksRequest):
    exporter: str
    exporter_options: Mapping[str, Any] = option(factory=dict)


def export_operators(args: OperatorExportRequest, folders: Folders) -> None:
    """Lower the problems, each into a folder of its own."""
    exporter = importlib.import_module(f"scripts.frontends.exporters.{args.exporter}")

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        problem = Problem(payload["op"], payload["args"])
        folder = folders.results / problem.name
        try:
            call = Call(problem)
            lowered = _lowered(exporter, call, args.exporter_options)
        except (capture.UnsupportedProgram, NotCallable) as error:
            exits.fail(str(error), exits.UNSUPPORTED)
        program = link.link(lowered, call.input_types())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PROGRAM).write_bytes(program)
        facts["program_bytes"] = len(program)
        facts["rewrites"] = list(lowered.rewrites)
        facts["files"] = batch_worker.record_files(folder, [PROGRAM])

    batch_worker.serve(args, handle)


def _lowered(exporter: Any, call: Call, options: Mapping[str, Any]) -> link.Lowered:
    """Return the lowered call: by its graph alone if the exporter can, else as a model."""
    if hasattr(exporter, "export_graph"):
        # What depends on values, such as an index by a mask, may be rewritten as a model.
        with contextlib.suppress(NotCallable):
            lowered = exporter.export_graph(call.graph, call.input_types(), options)
            if lowered is not None:
                return lowered
    return exporter.export(call.as_model(), options)[0]


if __name__ == "__main__":
    requests.run(OperatorExportRequest, export_operators)
