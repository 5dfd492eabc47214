"""Export a model through one frontend to a program with named parameters."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.config import plugins
from scripts.config.choices import TESTS
from scripts.core import atomic, commands, dimensions, exits, requests
from scripts.core.commands import option
from scripts.core.dimensions import Sizes
from scripts.core.requests import Folders
from scripts.core.tensors import Signature
from scripts.frontends.lowering import capture, link, locations
from scripts.frontends.sources.load_model import load_for_all_sizes, load_model
from scripts.frontends.torch_model import errors, step
from scripts.frontends.torch_model.arguments import ModelChoice, Optimizer


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """`exporter`: a module of scripts/frontends/exporters. `test`: what the program computes. `dynamic`: by option, the sizes that the program
    is for (core/dimensions.py)."""

    model: ModelChoice
    signature: Path
    exporter: str
    exporter_options: Mapping[str, Any] = option(factory=dict)
    test: str = option("eval", choices=TESTS)
    optimizer: Optimizer = Optimizer.option()
    dynamic: Mapping[str, Any] = option(factory=dict)
    ir_format: str = option("text", choices=link.FORMATS)


def export_program(request: ExportRequest, folders: Folders) -> None:
    """Write the program, its report, and the node and module of each line. Exits if the model cannot be exported."""
    exporter = importlib.import_module(f"scripts.frontends.exporters.{request.exporter}")
    commands.report_working()
    declared = plugins.exporter(request.exporter)
    signature = Signature.read(request.signature)
    sizes = {name: Sizes.of_entry(entry) for name, entry in request.dynamic.items()}
    stage = f"export {request.exporter}"
    with errors.reported():
        if sizes:
            loaded = load_for_all_sizes(
                request.model, sizes, signature, stage, declared.memory_factor
            )
        else:
            loaded = load_model(request.model, stage, declared.memory_factor)
    if request.test == "train":
        loaded = step.for_capture(loaded, signature, request.optimizer)
    try:
        lowered, seconds = exporter.export(loaded, request.exporter_options)
    except capture.UnsupportedProgram as error:
        exits.fail(str(error), exits.UNSUPPORTED)
    start = time.perf_counter()
    inputs = dimensions.opened(signature.inputs, loaded.dimensions)
    program, lines = link.link_located(lowered, inputs, request.ir_format, loaded.changing)
    located = locations.to_json(lines, lowered.origins)
    seconds["link"] = round(time.perf_counter() - start, 4)
    report = {
        "export_s": round(sum(seconds.values()), 4),
        "steps_s": seconds,
        "program_bytes": len(program),
        "rewrites": list(lowered.rewrites),
    }
    if lowered.operators:
        report["operators"] = lowered.operators
    if lowered.left_out:
        report["left_out"] = lowered.left_out
    if loaded.dimensions:
        report["dimensions"] = [asdict(dimension) for dimension in loaded.dimensions]
    for called, version in plugins.installed(declared.versions).items():
        report[f"{called}_version"] = version
    (folders.results / "program.mlir").write_bytes(program)
    atomic.write_json(folders.results / "report.json", report)
    atomic.write_json(folders.results / "locations.json", located)


if __name__ == "__main__":
    requests.run(ExportRequest, export_program)
