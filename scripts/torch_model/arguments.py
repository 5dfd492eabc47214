"""Command-line options of every stage that loads a model, and their values."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ModelChoice:
    """A model file and the options of its entry. `name` is its name in the matrix.

    `load_threads`: CPU threads that build it; None for torch's own choice.
    """

    name: str
    file: Path
    options: Mapping[str, Any]
    load_threads: int | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that loads a model."""
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-file", required=True, type=Path)
    parser.add_argument("--options", default="{}", type=json.loads, help='JSON: {"seq_len": 128}')
    parser.add_argument("--load-threads", type=int, help="CPU threads (default: torch's choice)")


def add_optimizer(parser: argparse.ArgumentParser) -> None:
    """Add the option for the optimizer of training steps, for Optimizer.of."""
    shown = 'JSON: {"name": "SGD", "lr": 0.01}'
    parser.add_argument("--optimizer", default="{}", type=json.loads, help=shown)


def model(args: argparse.Namespace) -> ModelChoice:
    """The values of `add_arguments`."""
    return ModelChoice(args.name, args.model_file, args.options, args.load_threads)
