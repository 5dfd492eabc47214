"""Measures the time from a PyTorch model to a program on disk: this exporter and torch-mlir's own.

Run it with the Python of the torch-mlir environment.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

from torch_mlir import fx

from benchmarks import timing
from scripts.core import tensors
from scripts.frontends.exporters import torch_mlir as exporter
from scripts.frontends.lowering import link
from scripts.frontends.torch_model import convert, loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import named_weights

MODELS = Path(__file__).parents[1] / "models"
PACKAGES = ("torch", "torch-mlir", "iree-base-compiler")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.export_speed", description=__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet", "vit"], metavar="NAME")
    parser.add_argument(
        "--dialects", nargs="+", default=["torch"], choices=exporter.OPTIONS["dialect"]
    )
    parser.add_argument("--repeats", type=int, default=5, help="timings of each, after a warm-up")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    results = {"machine": timing.machine(PACKAGES), "export": []}
    for name in args.models:
        loaded = loading.load(ModelChoice(name, MODELS / f"{name}.py", {}))
        for dialect in args.dialects:
            results["export"].append(compare(loaded, dialect, args.repeats))
            _print(results["export"][-1])
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def compare(loaded: loading.LoadedModel, dialect: str, repeats: int) -> dict:
    """Time both in turns, so that other load of the machine affects both."""
    ours, theirs, steps = [], [], []
    with tempfile.TemporaryDirectory(prefix="vmfbench-export-") as folder:
        named, literal = Path(folder, "named.mlir"), Path(folder, "literal.mlir")
        for turn in range(repeats + 1):
            seconds, parts = _timed(_export_named, loaded, dialect, named)
            other, _ = _timed(_export_literal, loaded, dialect, literal)
            if turn:
                ours.append(seconds)
                theirs.append(other)
                steps.append(parts)
        weights, _ = _timed(_write_archive, loaded, Path(folder, "weights.irpa"))
        program_bytes, literal_bytes = named.stat().st_size, literal.stat().st_size
    return {
        "model": loaded.name,
        "dialect": dialect,
        "seconds": timing.spread(ours),
        "steps_s": {step: statistics.median(s[step] for s in steps) for step in steps[0]},
        "program_bytes": program_bytes,
        "archive_s": weights,
        "export_and_import_seconds": timing.spread(theirs),
        "export_and_import_bytes": literal_bytes,
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "ratio_by_turn": [b / a for a, b in zip(ours, theirs, strict=True)],
    }


def _export_named(loaded: loading.LoadedModel, dialect: str, path: Path) -> dict[str, float]:
    """What the export stage does once the model is loaded."""
    lowered, steps = exporter.export(loaded, {"dialect": dialect})
    start = time.perf_counter()
    inputs = [convert.tensor_type(name, tensor) for name, tensor in loaded.inputs]
    program = link.link(lowered, inputs)
    steps["link"] = time.perf_counter() - start
    path.write_bytes(program)
    return steps


def _export_literal(loaded: loading.LoadedModel, dialect: str, path: Path) -> None:
    """What torch-mlir documents: weights become literals of the program."""
    module = fx.export_and_import(loaded.module, *loaded.args, output_type=dialect, **loaded.kwargs)
    path.write_text(str(module), encoding="utf-8")


def _write_archive(loaded: loading.LoadedModel, path: Path) -> None:
    """The weights that the program names; the reference stage writes them, once a model."""
    weights, _ = named_weights(loaded.module)
    tensors.write_archive(
        path, ((key, convert.to_bytes(weight)) for key, weight in weights.items())
    )


def _timed(call, *arguments) -> tuple[float, dict[str, float]]:
    gc.collect()
    start = time.perf_counter()
    parts = call(*arguments)
    return time.perf_counter() - start, parts


def _print(row: dict) -> None:
    ours, theirs = row["seconds"], row["export_and_import_seconds"]
    print(f"{row['model']} {row['dialect']}")
    for name, value, size in (
        ("this exporter", ours, row["program_bytes"]),
        ("export_and_import", theirs, row["export_and_import_bytes"]),
    ):
        text = f"{value['median']:7.2f} s  ({value['min']:.2f} to {value['max']:.2f})"
        print(f"  {name:18} {text}  {size:,} bytes")
    turns = ", ".join(f"{ratio:.1f}" for ratio in row["ratio_by_turn"])
    print(f"  ratio              {row['ratio']:7.1f}    (by turn: {turns})")
    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in row["steps_s"].items())
    print(f"  steps              {steps} s; archive {row['archive_s']:.2f} s", flush=True)


if __name__ == "__main__":
    main()
