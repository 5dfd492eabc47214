"""Find the first operator of a model whose program, lowered by one frontend, computes other values than eager mode.

The values of all nodes of the captured graph are compared: those of eager mode, and those of the lowered program,
compiled at O0 for the CPU. The first operator that is also wrong by itself, with the inputs of eager mode, is
written with small inputs, its program, commands and the text of an issue.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import commands, exits, requests
from scripts.core.commands import option
from scripts.core.machine import physical_cores
from scripts.core.requests import Folders
from scripts.frontends.lowering import capture
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import errors
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.tools.reproduce import wrong_operator


@dataclass(frozen=True, kw_only=True)
class OperatorRequest:
    """`exporter`: a module of scripts/frontends/exporters. `budget`: in seconds."""

    model: ModelChoice
    exporter: str
    exporter_options: Mapping[str, Any] = option(factory=dict)
    budget: float = 300.0


def find_wrong_operator(args: OperatorRequest, folders: Folders) -> None:
    """Write the reproducer of an operator. Exits if none is found."""
    name, how = args.model.name, args.exporter_options
    exporter = importlib.import_module(f"scripts.frontends.exporters.{args.exporter}")
    deadline = time.monotonic() + args.budget
    try:
        with errors.reported(), tempfile.TemporaryDirectory() as folder:
            loaded = load_model(args.model)
            frontend = wrong_operator.frontend(args.exporter, how)
            lowering = wrong_operator.Lowering(
                exporter, how, Path(folder), physical_cores(), deadline
            )
            if "onnx" in exporter.SOURCES:
                # Only its environment has the packages of ONNX.
                wrong_onnx = importlib.import_module("scripts.tools.reproduce.wrong_onnx")
                said = wrong_onnx.write(loaded, lowering, frontend, name, folders.results)
                print(f"{name}: {said} is wrong")
                return
            wrong_call = wrong_operator.find(loaded, lowering)
    except (wrong_operator.NotFound, capture.UnsupportedProgram) as error:
        exits.fail(f"{name}: {error}")
    report = wrong_operator.write(wrong_call, name, frontend, how, folders.results)
    print(
        f"{name}: {' → '.join(report['operators'])} (node {report['node']}, module {report['module']}) is wrong"
    )


if __name__ == "__main__":
    commands.run(lambda: requests.run(OperatorRequest, find_wrong_operator))
