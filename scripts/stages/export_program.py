"""Export a model through one frontend to a program with named parameters."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path

from scripts.core import atomic, channel, exits
from scripts.core.tensors import Signature
from scripts.lowering import capture, link, locations
from scripts.matrix import plugins
from scripts.matrix.precision import TESTS
from scripts.torch_model import arguments, errors, loading, source, step
from scripts.torch_model.optimizer import Optimizer


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.export_program", description=__doc__
    )
    arguments.add_arguments(parser)
    parser.add_argument("--signature", required=True, type=Path)
    parser.add_argument("--exporter", required=True, help="a module of scripts/exporters")
    parser.add_argument(
        "--exporter-options", default="{}", type=json.loads, help='JSON object: {"rewrites": "all"}'
    )
    parser.add_argument("--test", default="eval", choices=TESTS, help="what the program computes")
    arguments.add_optimizer(parser)
    parser.add_argument("--ir-format", default="text", choices=link.FORMATS)
    parser.add_argument("--out-program", required=True, type=Path)
    parser.add_argument("--out-report", required=True, type=Path)
    parser.add_argument(
        "--out-locations", type=Path, help="JSON: node and module of each line of the program"
    )
    args = parser.parse_args()
    exporter = importlib.import_module(f"scripts.exporters.{args.exporter}")
    channel.working()
    model = arguments.model(args)
    declared = plugins.exporter(args.exporter)
    stage = f"export {args.exporter}"
    try:
        loaded = loading.load(
            model.name, model.file, model.options, stage, declared.memory_factor, model.load_threads
        )
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)
    signature = Signature.read(args.signature)
    if args.test == "train":
        loaded = step.for_capture(loaded, signature, Optimizer.of(**args.optimizer))
    try:
        lowered, seconds = exporter.export(loaded, args.exporter_options)
    except capture.UnsupportedProgram as error:
        exits.fail(str(error), exits.UNSUPPORTED)
    start = time.perf_counter()
    program, lines = link.link_located(
        lowered, signature.inputs, args.ir_format, changing=loaded.changing
    )
    located = locations.to_json(lines, lowered.origins)
    seconds["link"] = round(time.perf_counter() - start, 4)
    report = {
        "export_s": round(sum(seconds.values()), 4),
        "steps_s": seconds,
        "program_bytes": len(program),
        "rewrites": list(lowered.rewrites),
    }
    for called, version in plugins.installed(declared.versions).items():
        report[f"{called}_version"] = version
    args.out_program.write_bytes(program)
    atomic.write_json(args.out_report, report)
    if args.out_locations:
        atomic.write_json(args.out_locations, located)


if __name__ == "__main__":
    main()
