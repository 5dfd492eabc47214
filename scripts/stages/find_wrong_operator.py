"""Find the first operator of a model whose program, lowered by one frontend, computes other values than eager mode.

The values of all nodes of the captured graph are compared: those of eager mode, and those of the lowered program,
compiled at O0 for the CPU. The first operator that is also wrong by itself, with the inputs of eager mode, is
written with small inputs, its program, commands and the text of an issue.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from pathlib import Path

from scripts.core import commands, exits
from scripts.core.machine import physical_cores
from scripts.features.reproduce.graph_parts import wrong, wrong_operator
from scripts.lowering import capture
from scripts.torch_model import arguments, errors, loading, source


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.find_wrong_operator", description=__doc__
    )
    arguments.add_arguments(parser)
    parser.add_argument("--exporter", required=True, help="a module of scripts/exporters")
    parser.add_argument(
        "--exporter-options", default="{}", type=json.loads, help='JSON object: {"rewrites": "all"}'
    )
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--out", required=True, type=Path, help="folder, which must exist")
    args = parser.parse_args()
    model, options = arguments.model(args), args.exporter_options
    exporter = importlib.import_module(f"scripts.exporters.{args.exporter}")
    deadline = time.monotonic() + args.budget
    try:
        loaded = loading.load(model.name, model.file, model.options, threads=model.load_threads)
        with tempfile.TemporaryDirectory() as folder:
            cores = physical_cores()
            found = wrong.find(
                loaded, wrong.Lowering(exporter, options, Path(folder), cores, deadline)
            )
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)
    except (wrong.NotFound, capture.UnsupportedProgram) as error:
        exits.fail(f"{model.name}: {error}")
    frontend = wrong_operator.frontend(args.exporter, options)
    report = wrong_operator.write(found, model.name, frontend, options, args.out)
    print(
        f"{model.name}: {' → '.join(report['operators'])} (node {report['node']}, module {report['module']}) is wrong"
    )


if __name__ == "__main__":
    commands.run(main)
