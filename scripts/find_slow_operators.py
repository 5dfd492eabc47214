"""Find few operators of a model that are slower by a factor through one frontend and IREE on the CPU than in eager mode.

Parts of the captured graph are timed in turns with eager mode, so nothing else should run on the machine. The part that is left is
written as a program with its inputs, the commands that time it, and the text of an issue.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from pathlib import Path

from scripts.lib.core import commands, exits
from scripts.lib.core.machine import physical_cores
from scripts.lib.graph_parts import slow, slow_writing, writing
from scripts.lib.graph_parts.computed import Lowering
from scripts.lib.lowering import capture
from scripts.lib.modeling import arguments, errors, loading, source


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.find_slow_operators", description=__doc__
    )
    arguments.add_arguments(parser)
    parser.add_argument("--exporter", required=True, help="a module of scripts/exporters")
    parser.add_argument("--exporter-options", default="{}", type=json.loads, help="JSON object")
    parser.add_argument(
        "--flags", required=True, type=json.loads, help="all flags of iree-compile, as a JSON list"
    )
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--factor", type=float, default=1.5, help="default: 1.5")
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--out", required=True, type=Path, help="folder, which must exist")
    args = parser.parse_args()
    model = arguments.model(args)
    exporter = importlib.import_module(f"scripts.exporters.{args.exporter}")
    deadline = time.monotonic() + args.budget
    try:
        loaded = loading.load(model.name, model.file, model.options, threads=model.load_threads)
        with tempfile.TemporaryDirectory() as folder:
            lowering = Lowering(
                exporter, args.exporter_options, tuple(args.flags), Path(folder), args.threads
            )
            found = slow.find(loaded, lowering, args.factor, deadline)
            frontend = writing.frontend(args.exporter, args.exporter_options)
            versions = writing.versions(args.exporter, frontend)
            case = slow_writing.Case(model.name, found, frontend, args.threads, versions)
            slow_writing.write(case, args.out)
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)
    except (slow.NotSlower, capture.UnsupportedProgram) as error:
        exits.fail(f"{model.name}: {error}")
    print(
        f"{model.name}: {len(found.part.nodes)} of {found.of} operators take {found.turns.ratio:.3g} × as long as in eager mode"
    )


if __name__ == "__main__":
    commands.run(main)
