"""Command-line options of every stage that verifies results, and their values."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import tensors
from scripts.core.tensors import Signature
from scripts.verify.verify import Expected


@dataclass(frozen=True)
class Check:
    """What results are compared with: golden.npz and signature.json of the reference (or gradients)
    stage. `tolerance` has the values that differ from the default (torch_same.Tolerance)."""

    golden: Path
    signature_file: Path
    tolerance: Mapping[str, Any]

    def signature(self) -> Signature:
        return Signature.read(self.signature_file)

    def expected(self, without: str = "") -> Expected:
        """What the files have. `without`: the beginning of the names of results that are left out."""
        signature, stored = self.signature(), tensors.load_npz(self.golden)
        taken = [
            (number, kind)
            for number, kind in enumerate(signature.outputs)
            if not without or not kind.name.startswith(without)
        ]
        return Expected(
            types=[kind for _, kind in taken],
            golden=[stored[f"golden.{number}"] for number, _ in taken],
            fp64=[stored[f"fp64.{number}"] for number, _ in taken] if signature.has_fp64 else None,
            deterministic=signature.deterministic,
            dtype=signature.dtype,
        )


def add_references(parser: argparse.ArgumentParser) -> None:
    """Add the options for the files with which results are compared."""
    parser.add_argument("--golden", required=True, type=Path, help="golden.npz")
    parser.add_argument("--signature", required=True, type=Path, help="signature.json")


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Add the option for the tolerance."""
    shown = 'JSON: {"tol": 1e-3}, {"cosine": true} or {"noise": 0.05}'
    parser.add_argument("--tolerance", default="{}", type=json.loads, help=shown)


def check(args: argparse.Namespace) -> Check:
    """The values of both; the default tolerance for a command that takes none."""
    return Check(args.golden, args.signature, getattr(args, "tolerance", {}))
