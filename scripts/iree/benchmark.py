"""iree-benchmark-module: its command line, the files of its inputs, and its report."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scripts.core import atomic, tensors
from scripts.core.tensors import PARAMETER_SCOPE
from scripts.iree.backends import allocator_flags
from scripts.iree.session import Module, runtime_flags
from scripts.iree.tools import tool

LINKS = Path("results/cache/modules")
"""The folder of links to modules, in the working folder of a run. They are kept, because recorded commands name them."""
_TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def command_line(module: Module, inputs: Sequence[str], threads: int) -> list[str]:
    """The command line of the tool that times a module, with `inputs` as the flags of `write_inputs`."""
    return [
        tool("iree-benchmark-module"),
        f"--module={openable(module.vmfb)}",
        *([f"--parameters={PARAMETER_SCOPE}={module.weights}"] if module.weights else []),
        f"--function={module.function}",
        f"--device={module.device}",
        *runtime_flags(module.device, threads),
        *allocator_flags(module.device),
        *inputs,
    ]


def openable(module: Path) -> Path:
    """The path by which IREE's tools can open a module: its own, or that of a link to it if its own has an `@`.

    `--module=<path>@<symbol>` names a symbol of a dynamic library (IREE 3.13, tooling/context_util.c), so the tools
    cut every path at its first `@`, and cells of toolchains have one in the names of their folders.
    """
    if "@" not in str(module):
        return module
    digest = hashlib.sha256(str(module).encode()).hexdigest()[:12]
    link = LINKS / f"{digest}-{module.name}"
    wanted = os.path.relpath(module, LINKS)
    if not link.is_symlink() or os.readlink(link) != wanted:
        LINKS.mkdir(parents=True, exist_ok=True)
        scratch = link.with_name(f"{link.name}.{os.getpid()}")
        scratch.symlink_to(wanted)
        scratch.replace(link)
    return link


def write_inputs(
    folder: Path, arrays: Sequence[np.ndarray], types: Sequence[tensors.TensorType]
) -> list[str]:
    """Write the inputs as raw bytes into `folder`; return the flags of the tool that name them.

    The files are kept, so that the recorded command can be repeated by hand.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flags = []
    for number, (array, kind) in enumerate(zip(arrays, types, strict=True)):
        raw = folder / f"{number}.bin"
        array.tofile(raw)
        flags.append(f"--input={kind.iree}=@{raw}")
    return flags


class BenchmarkError(Exception):
    """The benchmark reported an error or no measurement."""


def read_ms(path: str | Path) -> list[float]:
    """The milliseconds per call of all repetitions of the benchmark in a file, in the order in which they ran.

    Aggregates are recognized by `run_type` and left out, because their position in the list differs
    between versions. Raises BenchmarkError for `error_occurred`, if there is no repetition, and for
    repetitions of more than one benchmark.
    """
    rows = [row for row in atomic.read_json(path)["benchmarks"] if row["run_type"] == "iteration"]
    for row in rows:
        if row.get("error_occurred"):
            raise BenchmarkError(f"{row['name']}: {row.get('error_message', 'error')}")
    names = {row["run_name"] for row in rows}
    if len(names) != 1:
        raise BenchmarkError(
            f"{path}: expected repetitions of one benchmark, found {sorted(names) or 'none'}"
        )
    rows.sort(key=lambda row: row["repetition_index"])
    return [row["real_time"] * _TO_MS[row["time_unit"]] for row in rows]


def raw_inputs(stored: Path, signature: Path, folder: Path) -> list[str]:
    """Write the inputs of a reference (its inputs.npz and signature.json) as raw bytes into a folder; the flags of the
    tool that name them."""
    types = tensors.Signature.read(signature).inputs
    values = tensors.load_npz(stored)
    arrays = [tensors.as_native(values[str(i)], kind.dtype) for i, kind in enumerate(types)]
    return write_inputs(folder, arrays, types)
