"""Export a model through one frontend to a program with named parameters."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, dimensions, exits
from scripts.core.commands import option
from scripts.core.dimensions import Sizes
from scripts.core.tensors import Signature
from scripts.lowering import capture, link, locations
from scripts.matrix import plugins
from scripts.matrix.choices import TESTS
from scripts.sources.load_dynamic import load_for_all_sizes
from scripts.sources.load_model import load_model
from scripts.torch_model import errors, step
from scripts.torch_model.arguments import ModelChoice, Optimizer


@dataclass(frozen=True, kw_only=True)
class Options:
    model: ModelChoice
    signature: Path
    exporter: str = option(help="a module of scripts/exporters")
    exporter_options: Mapping[str, Any] = option(factory=dict, help='JSON: {"rewrites": "all"}')
    test: str = option("eval", choices=TESTS, help="what the program computes")
    optimizer: Optimizer = Optimizer.option()
    dynamic: Mapping[str, Any] = option(
        factory=dict, help="JSON, by option: the sizes that the program is for (core/dimensions.py)"
    )
    ir_format: str = option("text", choices=link.FORMATS)
    out_program: Path
    out_report: Path
    out_locations: Path | None = option(None, help="JSON: node and module of each line")


def main() -> None:
    args = commands.parse_options(Options)
    exporter = importlib.import_module(f"scripts.exporters.{args.exporter}")
    commands.report_working()
    declared = plugins.exporter(args.exporter)
    signature = Signature.read(args.signature)
    sizes = {name: Sizes.of_entry(entry) for name, entry in args.dynamic.items()}
    stage = f"export {args.exporter}"
    with errors.reported():
        if sizes:
            loaded = load_for_all_sizes(args.model, sizes, signature, stage, declared.memory_factor)
        else:
            loaded = load_model(args.model, stage, declared.memory_factor)
    if args.test == "train":
        loaded = step.for_capture(loaded, signature, args.optimizer)
    try:
        lowered, seconds = exporter.export(loaded, args.exporter_options)
    except capture.UnsupportedProgram as error:
        exits.fail(str(error), exits.UNSUPPORTED)
    start = time.perf_counter()
    inputs = dimensions.opened(signature.inputs, loaded.dimensions)
    program, lines = link.link_located(lowered, inputs, args.ir_format, changing=loaded.changing)
    located = locations.to_json(lines, lowered.origins)
    seconds["link"] = round(time.perf_counter() - start, 4)
    report = {
        "export_s": round(sum(seconds.values()), 4),
        "steps_s": seconds,
        "program_bytes": len(program),
        "rewrites": list(lowered.rewrites),
    }
    if lowered.left_out:
        report["left_out"] = lowered.left_out
    if loaded.dimensions:
        report["dimensions"] = [asdict(dimension) for dimension in loaded.dimensions]
    for called, version in plugins.installed(declared.versions).items():
        report[f"{called}_version"] = version
    args.out_program.write_bytes(program)
    atomic.write_json(args.out_report, report)
    if args.out_locations:
        atomic.write_json(args.out_locations, located)


if __name__ == "__main__":
    main()
