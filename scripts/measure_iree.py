"""Verify a compiled module against golden on a device, then time it."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from scripts.lib.artifacts import tensors
from scripts.lib.artifacts.archive import SCOPE
from scripts.lib.core import exits, process
from scripts.lib.core.machine import physical_cores
from scripts.lib.iree import gbench
from scripts.lib.iree.backends import allocator_flags, runs_on_cpu
from scripts.lib.iree.session import NoDevice, Session, device_name, runtime_flags
from scripts.lib.iree.tools import tool
from scripts.lib.modeling import footprint
from scripts.lib.timing.hostload import HostWatch
from scripts.lib.timing.measurement import Measurement
from scripts.lib.timing.stopping import StoppingRule, plan, typical_seconds
from scripts.lib.verification import torch_same
from scripts.lib.verification.verify import Expected, follow_generation, verify


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.measure_iree", description=__doc__)
    parser.add_argument("--vmfb", required=True, type=Path)
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--golden", required=True, type=Path)
    parser.add_argument("--signature", required=True, type=Path)
    parser.add_argument("--device", required=True, help="IREE device URI: local-task, cuda://0")
    parser.add_argument("--threads", type=int, help="CPU workers; default: the physical cores")
    parser.add_argument("--tolerance", default="{}", type=json.loads, help='{"tol":, "cosine":}')
    parser.add_argument("--rule", default="{}", type=json.loads, help="stopping rule, JSON")
    parser.add_argument(
        "--raw-inputs", required=True, type=Path, help="folder that gets the inputs as raw bytes"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    try:
        name = device_name(args.device)
    except NoDevice as error:
        exits.fail(f"no device {args.device}: {error}", exits.UNAVAILABLE)
    measure(args, name)


def measure(args: argparse.Namespace, name: str) -> None:
    rule = StoppingRule(**args.rule)
    threads = args.threads or physical_cores()
    signature = tensors.Signature.read(args.signature)
    count = sum(math.prod(kind.shape) for kind in signature.parameters)
    size = signature.weights_bytes
    footprint.require(footprint.Weights(count, size, size, signature.dtype), "measure")
    stored = tensors.load_npz(args.inputs)
    inputs = [
        tensors.as_native(stored[str(i)], kind.dtype) for i, kind in enumerate(signature.inputs)
    ]
    if runs_on_cpu(args.device) and threads > physical_cores():
        exits.fail(
            f"measure.threads is {threads}, but IREE pins one worker to each of {physical_cores()} cores"
        )
    # A slow device may be stopped anywhere: the log says how far it came.
    print(f"loading on {name}", flush=True)
    session = Session(args.vmfb, args.weights, args.device, threads)
    print(f"loaded in {session.load_s:.3f} s; first call", flush=True)
    outputs, first_call_s = session.call(inputs)
    verification = verify(outputs, Expected.read(args.golden, signature), args.tolerance)
    print(f"first call took {first_call_s:.3f} s: {verification.code}", flush=True)
    again = partial(call_with, session, signature)
    verification = follow_generation(verification, again, inputs, signature)
    del again  # with its session
    common = {
        "device": args.device,
        "device_name": name,
        "threads": threads if runs_on_cpu(args.device) else None,
        "verification": verification,
        "load_ms": session.load_s * 1e3,
        "first_call_ms": first_call_s * 1e3,
        "versions": {"iree": importlib.metadata.version("iree-base-runtime")},
    }
    if verification.code != torch_same.PASS:
        Measurement(**common).write(args.out)
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)
    call_s = typical_seconds(partial(session.call, inputs), first_call_s, rule)
    # The weights are in the device's memory a second time while both processes live.
    del session

    chosen = plan(rule, call_s)
    # They stay, so that the recorded command can be repeated by hand.
    args.raw_inputs.mkdir(parents=True, exist_ok=True)
    files = []
    for i, (array, kind) in enumerate(zip(inputs, signature.inputs, strict=True)):
        raw = args.raw_inputs / f"{i}.bin"
        array.tofile(raw)
        files.append(f"--input={kind.iree}=@{raw}")
    report = args.out.with_name("google-benchmark.json")
    command = [
        tool("iree-benchmark-module"),
        f"--module={args.vmfb}",
        f"--parameters={SCOPE}={args.weights}",
        "--function=main",
        f"--device={args.device}",
        *runtime_flags(args.device, threads),
        *allocator_flags(args.device),
        *files,
        f"--benchmark_min_warmup_time={chosen.warmup_s}",
        # Short calls: the tool finds out itself how many fill a repetition.
        f"--benchmark_min_time={f'{rule.repetition_s}s' if chosen.iterations > 1 else '1x'}",
        f"--benchmark_repetitions={chosen.repetitions}",
        "--benchmark_report_aggregates_only=false",
    ]
    print(f"$ {shlex.join(command)}", flush=True)
    with HostWatch() as watch:
        run = process.run_tool(
            [*command, f"--benchmark_out={report}", "--benchmark_out_format=json"]
        )
    if run.returncode != 0:
        process.exit_like(run.returncode)
    try:
        latency = gbench.read_latency(report)
    except gbench.BenchmarkError as error:
        exits.fail(str(error))
    Measurement(
        **common,
        latency=latency,
        host=watch.load,
        command=shlex.join(command),
        max_rss_mb=round(run.max_rss_mb, 1),
    ).write(args.out)


def call_with(
    session: Session, signature: tensors.Signature, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What the module gives for other inputs than the reference's, of the same types."""
    pairs = zip(arrays, signature.inputs, strict=True)
    return session.call([tensors.as_native(array, kind.dtype) for array, kind in pairs])[0]


if __name__ == "__main__":
    main()
