"""From a target entry of config.yaml to iree-compile flags: the one place that knows both.

Written for the IREE that envs/iree.yaml pins; a test runs every backend's flags through its
iree-compile and fails on an unknown or a deprecated one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

# Backend: (fixed flags, flag that takes the architecture, default architecture, device URI)
BACKENDS: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    "llvm-cpu": (
        (
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            # The default of 32 KiB refuses BERT and GPT-2; the runtime's worker stacks
            # (--task_worker_stack_size, set by the measurement) are made to fit.
            "--iree-llvmcpu-stack-allocation-limit=262144",
        ),
        "--iree-llvmcpu-target-cpu",
        "host",
        "local-task",
    ),
    "vulkan": (("--iree-hal-target-device=vulkan",), "--iree-vulkan-target", "", "vulkan"),
    "cuda": (("--iree-hal-target-device=cuda",), "--iree-cuda-target", "sm_80", "cuda"),
    "rocm": (("--iree-hal-target-device=hip",), "--iree-rocm-target", "gfx942", "hip"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every stage command takes that calls iree-compile for a target."""
    parser.add_argument("--program", required=True, type=Path)
    parser.add_argument("--backend", required=True, choices=sorted(BACKENDS))
    parser.add_argument("--arch", help="CPU name, sm_80, gfx942, or a Vulkan target")
    parser.add_argument("--opt-level", default="O2", choices=["O0", "O1", "O2", "O3"])
    parser.add_argument("--flags", default="[]", type=json.loads, help="more flags, a JSON list")


def compile_flags(
    backend: str, arch: str | None, opt_level: str, extra: Sequence[str]
) -> list[str]:
    """iree-compile flags of a target; `arch` None or "" is the backend's default."""
    fixed, arch_flag, default_arch, _ = BACKENDS[backend]
    arch = arch or default_arch
    return [
        *fixed,
        *([f"{arch_flag}={arch}"] if arch else []),
        f"--iree-opt-level={opt_level}",
        *extra,
    ]


def default_device(backend: str) -> str:
    """The device URI that modules of a backend run on unless the target names another."""
    return BACKENDS[backend][3]
