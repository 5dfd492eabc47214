"""Worker: lower operator problems to programs, whose @main takes the problem's tensor arguments."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.core import exits
from scripts.features.operators.batch import artifacts, batch_worker
from scripts.features.operators.batch.batch_program import ENTRY, FILE
from scripts.features.operators.batch.normalise import Normaliser
from scripts.features.operators.calls.calling import Call, NotCallable
from scripts.features.operators.problems.problem import Problem
from scripts.lowering import capture, link


def main() -> None:
    parser = batch_worker.parser("export_operators", __doc__)
    parser.add_argument("--exporter", required=True, help="a module of scripts/exporters")
    parser.add_argument("--exporter-options", default="{}", type=json.loads, help="JSON object")
    parser.add_argument("--out", required=True, type=Path, help="folder of the batch")
    args = parser.parse_args()
    exporter = importlib.import_module(f"scripts.exporters.{args.exporter}")
    normaliser = Normaliser()

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        problem = Problem(payload["op"], payload["args"])
        folder = args.out / problem.name
        try:
            call = Call(problem)
            lowered = _lowered(exporter, call, args.exporter_options)
        except (capture.UnsupportedProgram, NotCallable) as error:
            exits.fail(str(error), exits.UNSUPPORTED)
        linked = link.link(lowered, call.input_types()).decode()
        text = normaliser.normalise(linked, ENTRY)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(text, encoding="utf-8")
        facts["program_bytes"] = len(text.encode())
        facts["rewrites"] = list(lowered.rewrites)
        facts["files"] = artifacts.record(folder, [FILE])

    batch_worker.serve(args, handle)


def _lowered(exporter: Any, call: Call, options: Mapping[str, Any]) -> link.Lowered:
    """Return the lowered call: by its graph alone if the exporter can, else as a model."""
    if hasattr(exporter, "export_graph"):
        # What depends on values, such as an index by a mask, may be rewritten as a model.
        with contextlib.suppress(NotCallable):
            found = exporter.export_graph(call.graph, call.input_types(), options)
            if found is not None:
                return found
    return exporter.export(call.as_model(), options)[0]


if __name__ == "__main__":
    main()
