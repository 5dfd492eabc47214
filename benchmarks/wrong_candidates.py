"""Replaces correct outputs by wrong ones and checks that the default verification rejects them.

python -m benchmarks.wrong_candidates --models gcn bert --out wrong.json

For each model of config.yaml: correct programs (threads, orders of summation, weights moved by an ulp,
float64 with the same rounding) must pass, and no material wrong one may pass (benchmarks/candidates.py
defines material). `--smallest` uses each model's smallest size, as the test does. Needs the torch-mlir
environment of a run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.config import expansion, settings
from scripts.config.entries import Model

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venvs/torch-mlir/bin/python"

PARAMETERS = 8
"""Weights of a model that are zeroed, one at a time, evenly spread over their sorted names."""

GRAPH = {"num_nodes": 60, "num_edges": 240, "features": 32}
LANGUAGE = {"size": "tiny", "seq_len": 16, "cache_len": 32}
SMALLEST: dict[str, dict[str, Any]] = {
    "bert": {"size": "tiny", "seq_len": 16},
    "conv": {},
    "deepseek": LANGUAGE,
    "gat": GRAPH,
    "gatv2": GRAPH,
    "gcn": GRAPH,
    "gpt2": LANGUAGE,
    "graphsage": GRAPH,
    "llama": LANGUAGE,
    # As many tokens as shipped: with few tokens hardly any value is rounded differently.
    "llama-qlora": {"size": "tiny"},
    "llama-spinquant": {"size": "tiny"},
    "mobilenet": {},
    "resnet": {"size": "18"},
    "vit": {"size": "b_32"},
}
"""Options of each family's smallest size; {} where it has one size that is small enough."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.wrong_candidates", description=__doc__
    )
    parser.add_argument("--models", nargs="+", metavar="NAME", help="default: all of config.yaml")
    parser.add_argument("--smallest", action="store_true", help="each model's smallest size")
    parser.add_argument(
        "--parameters",
        type=int,
        default=PARAMETERS,
        help="number of weights to zero, one at a time",
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    chosen = [m for m in models() if not args.models or m.name in args.models]
    found = []
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    # A process per model: at shipped sizes two of them would not fit side by side.
    for model in chosen:
        found += judged([case(model, smallest=args.smallest, parameters=args.parameters)])
        print(summary(found[-1]), flush=True)
        for name in wrongly_passed(found[-1]):
            print(f"passes: {name}", flush=True)
        for name in wrongly_failed(found[-1]):
            print(f"correct, and fails: {name}", flush=True)
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def models() -> list[Model]:
    """The models of the default run."""
    file = ROOT / "config.yaml"
    config, _ = settings.load({}, [file])
    return list(expansion.expand(config, {}, ROOT).models.values())


def case(model: Model, *, smallest: bool, parameters: int = PARAMETERS) -> dict[str, Any]:
    """What `candidates_in_torch.judge_model` takes."""
    return {
        "name": model.name,
        "file": str(ROOT / model.file),
        "options": model.options | (SMALLEST[model.family] if smallest else {}),
        "tolerance": model.tolerance,
        "parameters": parameters,
    }


def judged(cases: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The verdicts on the programs of each model, by one process; raises RuntimeError where it
    fails."""
    done = subprocess.run(
        [PYTHON, "-m", "benchmarks.candidates_in_torch"],
        cwd=ROOT,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{PYTHON}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"model"')]


def wrongly_passed(found: Mapping[str, Any]) -> list[str]:
    """Material wrong candidates that pass."""
    return [row["name"] for row in found["wrong"] if row["material"] and row["passed"]]


def wrongly_failed(found: Mapping[str, Any]) -> list[str]:
    """Right programs that fail."""
    return [f"{row['name']}: {row['detail']}" for row in found["correct"] if not row["passed"]]


COLUMNS = (
    "model",
    "correct programs differ by (RMS)",
    "(largest)",
    "material that pass",
    "an element passes up to",
    "a row",
)


def summary(found: Mapping[str, Any]) -> str:
    """A row of the table in docs/wrong_candidates.md: differences in units of golden's RMS, errors of an element and a row as
    a part of it."""
    right, wrong = found["correct"], found["wrong"]
    material = sum(row["material"] for row in wrong)
    cells = (
        found["model"],
        *(f"{max(row[kind] for row in right):.1e}" for kind in ("rms", "largest")),
        f"{len(wrongly_passed(found))}/{material}",
        *(f"{100 * found[kind]:.2g}%" for kind in ("element", "row")),
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
