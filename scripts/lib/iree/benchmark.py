"""iree-benchmark-module: its command line, its execution and its results."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.lib.artifacts import tensors
from scripts.lib.artifacts.archive import SCOPE
from scripts.lib.core import exits, process
from scripts.lib.iree import gbench
from scripts.lib.iree.backends import allocator_flags, runs_on_cpu
from scripts.lib.iree.module_links import openable
from scripts.lib.iree.session import Module, runtime_flags
from scripts.lib.iree.tools import tool
from scripts.lib.timing.arguments import Timing
from scripts.lib.timing.hostload import HostWatch
from scripts.lib.timing.latency import HostLoad, Latency
from scripts.lib.timing.measurement import TOOL
from scripts.lib.timing.stopping import Schedule, StoppingRule

ONE_CALL_S = 1e-6
"""A warm-up time that a single repetition exceeds. google-benchmark runs at least one warm-up
repetition for any time above 0, and none for 0."""


@dataclass(frozen=True)
class Timed:
    """A measurement and its timer (measurement.TIMERS). `command`: the command line of the tool that
    times it; `max_rss_mb`: peak resident memory of the timed process, MiB."""

    latency: Latency
    host: HostLoad
    command: str
    max_rss_mb: float
    timer: str = TOOL


def run(
    module: Module, inputs: Sequence[str], timing: Timing, chosen: Schedule, report: Path
) -> Timed:
    """Time a module for `chosen`, with `inputs` as the flags of `write_inputs`.

    The tool writes google-benchmark's JSON to `report`. If the tool fails, this exits as the tool
    does; if it measured nothing, with a plain error.
    """
    command = command_line(module, inputs, timing, chosen)
    print(f"$ {shlex.join(command)}", flush=True)
    with HostWatch(timing.threads if runs_on_cpu(module.device) else 1) as watch:
        done = process.run_tool(
            [*command, f"--benchmark_out={report}", "--benchmark_out_format=json"]
        )
    if done.returncode != 0:
        process.exit_like(done.returncode)
    try:
        latency = gbench.read_latency(report)
    except gbench.BenchmarkError as error:
        exits.fail(str(error))
    return Timed(latency, watch.load, shlex.join(command), round(done.max_rss_mb, 1))


def command_line(
    module: Module, inputs: Sequence[str], timing: Timing, chosen: Schedule
) -> list[str]:
    """The tool's command line without the options for its report."""
    return [
        tool("iree-benchmark-module"),
        f"--module={openable(module.vmfb)}",
        *([f"--parameters={SCOPE}={module.weights}"] if module.weights else []),
        f"--function={module.function}",
        f"--device={module.device}",
        *runtime_flags(module.device, timing.threads),
        *allocator_flags(module.device),
        *inputs,
        f"--benchmark_min_warmup_time={max(chosen.warmup_s, ONE_CALL_S):g}",
        f"--benchmark_min_time={_repetition(timing.rule, chosen)}",
        f"--benchmark_repetitions={chosen.repetitions}",
        "--benchmark_report_aggregates_only=false",
    ]


def _repetition(rule: StoppingRule, chosen: Schedule) -> str:
    """The option for the length of a repetition: a number of calls, or seconds that the tool fills with
    calls."""
    if rule.iterations_per_run or chosen.iterations == 1:
        return f"{chosen.iterations}x"
    return f"{rule.repetition_s}s"


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


def raw_inputs(stored: Path, signature: Path, folder: Path) -> list[str]:
    """Write the inputs of a reference (its inputs.npz and signature.json) as raw bytes into a folder; the flags of the
    tool that name them."""
    types = tensors.Signature.read(signature).inputs
    values = tensors.load_npz(stored)
    arrays = [tensors.as_native(values[str(i)], kind.dtype) for i, kind in enumerate(types)]
    return write_inputs(folder, arrays, types)
