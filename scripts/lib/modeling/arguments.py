"""Command-line options of every stage that loads a model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every stage command takes that loads a model."""
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-file", required=True, type=Path)
    parser.add_argument("--options", default="{}", type=json.loads, help="the model's, JSON")
