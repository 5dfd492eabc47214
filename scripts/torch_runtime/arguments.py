"""The options of every command that runs a baseline, and the preparation before torch is imported."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from scripts.core import exits
from scripts.matrix import plugins
from scripts.matrix.precision import DEFAULT_MATMUL_PRECISION, MATMUL_PRECISIONS, PRECISIONS, TESTS
from scripts.timing import arguments as timing_arguments
from scripts.torch_model import arguments
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.optimizer import Optimizer
from scripts.verify import arguments as check_arguments


@dataclass(frozen=True)
class Work:
    """What a baseline's cell runs: a model with the archive's weights and the reference's inputs, or
    the `program` that a frontend exported from it. `scratch`: a temporary folder.

    `runtime` is a module of scripts/baselines, `device` cpu or cuda, `threads` those of the CPU,
    `test` one of precision.TESTS, `precision` one of precision.PRECISIONS. `compile`: arguments of
    torch.compile. `rewrites`: "speed" for the captured graph, rewritten for speed; "" for the model as it is.
    """

    model: ModelChoice
    weights: Path
    inputs: Path
    runtime: str
    device: str
    threads: int
    test: str
    precision: str
    matmul_precision: str
    xla_flags: str
    compile: Mapping[str, Any]
    rewrites: str
    optimizer: Optimizer
    program: Path | None
    scratch: Path


def argument_parser(module: str, description: str) -> argparse.ArgumentParser:
    """The parser with the options of every command that runs a baseline."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    arguments.add_arguments(parser)
    parser.add_argument("--runtime", required=True, help="a module of scripts/baselines")
    parser.add_argument("--device", default="cpu", choices=plugins.DEVICES)
    parser.add_argument("--test", default="eval", choices=TESTS)
    parser.add_argument("--precision", default="none", choices=PRECISIONS)
    parser.add_argument(
        "--matmul-precision", default=DEFAULT_MATMUL_PRECISION, choices=MATMUL_PRECISIONS
    )
    parser.add_argument("--xla-flags", default="", help="XLA_FLAGS of the runtime")
    parser.add_argument(
        "--compile", default="{}", type=json.loads, help='JSON: {"mode": "max-autotune"}'
    )
    parser.add_argument(
        "--rewrites", default="", choices=("", "speed"), help="of the captured graph"
    )
    arguments.add_optimizer(parser)
    parser.add_argument("--program", type=Path, help="for a runtime that runs a frontend's program")
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    check_arguments.add_references(parser)
    timing_arguments.add_threads(parser)
    return parser


def work(args: argparse.Namespace, scratch: Path) -> Work:
    """The values of `argument_parser`."""
    given: dict[str, Any] = {f.name: getattr(args, f.name, None) for f in fields(Work)}
    given |= {"model": arguments.model(args), "threads": timing_arguments.threads(args)}
    given |= {"optimizer": Optimizer.of(**args.optimizer), "scratch": scratch}
    return Work(**given)


def prepare_process(work: Work) -> None:
    """Set what the runtime reads on import. Exits if the runtime cannot run this work."""
    declared = plugins.runtime(work.runtime)
    refused = ""
    if work.test not in declared.tests:
        refused = f"{work.runtime} runs {', '.join(declared.tests)}, not {work.test}"
    elif work.rewrites and work.test != "eval":
        refused = f"a graph is captured and rewritten for eval, not for {work.test}"
    elif work.rewrites and work.precision != "none":
        refused = (
            f"a graph is rewritten for the model's own dtype, not for precision {work.precision}"
        )
    if refused:
        exits.fail(refused, exits.UNSUPPORTED)
    if ("program" in declared.takes) != (work.program is not None):
        needs = "needs" if "program" in declared.takes else "takes no"
        exits.fail(f"{work.runtime} {needs} --program")
    if work.device == "cuda" and not has_cuda_driver():
        exits.fail("no device cuda: no CUDA driver (libcuda.so.1) here", exits.UNAVAILABLE)
    if work.xla_flags:
        os.environ["XLA_FLAGS"] = work.xla_flags


def has_cuda_driver() -> bool:
    """Whether the CUDA driver library can be loaded, as torch and IREE load it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
