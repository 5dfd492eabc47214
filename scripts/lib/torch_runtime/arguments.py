"""What every command that runs a baseline takes, and what it settles before torch is imported."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
from pathlib import Path

from scripts.lib.config.precision import (
    DEFAULT_MATMUL_PRECISION,
    MATMUL_PRECISIONS,
    PRECISIONS,
    TESTS,
)
from scripts.lib.core import exits
from scripts.lib.modeling import arguments


def argument_parser(module: str, description: str) -> argparse.ArgumentParser:
    """What every command that runs a baseline takes."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    arguments.add_arguments(parser)
    parser.add_argument("--runtime", required=True, help="a module of scripts/baselines")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--test", default="eval", choices=TESTS)
    parser.add_argument("--precision", default="none", choices=PRECISIONS)
    parser.add_argument(
        "--matmul-precision", default=DEFAULT_MATMUL_PRECISION, choices=MATMUL_PRECISIONS
    )
    parser.add_argument("--xla-flags", default="", help="XLA_FLAGS of the runtime")
    parser.add_argument(
        "--optimizer", default="{}", type=json.loads, help='{"name": "SGD", "lr": 0.01}'
    )
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--golden", required=True, type=Path, help="of the test")
    parser.add_argument("--signature", required=True, type=Path, help="of the test")
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    return parser


def prepare_process(args: argparse.Namespace) -> None:
    """What must be settled before torch is imported; exits where there is no device."""
    if args.device == "cuda" and not has_cuda_driver():
        exits.fail("no device cuda: no CUDA driver (libcuda.so.1) here", exits.UNAVAILABLE)
    if args.xla_flags:
        os.environ["XLA_FLAGS"] = args.xla_flags


def has_cuda_driver() -> bool:
    """Whether the CUDA driver library can be loaded, as torch and IREE load it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
