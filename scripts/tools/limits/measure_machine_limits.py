"""Measure what a device can do at most: the bandwidth of its memory, and its largest products.

The CPU and CUDA GPUs are measured through PyTorch and IREE, other devices through IREE alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.baselines.sessions.runtime import NoDevice as NoTorchDevice
from scripts.config import plugins
from scripts.core import commands, exits, machine, requests
from scripts.core.commands import option
from scripts.core.machine import load_watched
from scripts.core.requests import Folders
from scripts.iree.backends import BACKENDS
from scripts.iree.session import NoDevice, device_info
from scripts.measure.timing import machine_limits
from scripts.measure.timing.machine_limits import MachineLimits, Sample
from scripts.tools.limits import samples as limit_samples
from scripts.tools.limits.samples import WrongResult

VERSIONS = {"torch": "torch", "iree-base-compiler": "iree"}
BY_DEVICE = {backend.device_kind: backend for backend in BACKENDS.values()}


@dataclass(frozen=True, kw_only=True)
class LimitsRequest:
    """`device`: its kind."""

    device: str = option(choices=list(BY_DEVICE))
    threads: int = machine.threads_option()


def measure_machine_limits(args: LimitsRequest, folders: Folders) -> None:
    """Write the limits. Exits if the device is absent."""
    commands.report_working()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="limits-") as scratch:
        try:
            limits = measure(args.device, args.threads, Path(scratch))
        except NoDevice as error:
            exits.fail(f"no device {args.device}: {error}", exits.UNAVAILABLE)
        except WrongResult as error:
            exits.fail(str(error), exits.WRONG_RESULT)
    if not machine_limits.complete(limits.samples):
        exits.fail(f"no triad or no product ran on {limits.device_name}; the notes above say why")
    for sample in limits.samples:
        unit = "GB/s" if sample.what == machine_limits.TRIAD else "GFLOP/s"
        print(f"{sample.name}, size {sample.size}: {sample.rate:.4g} {unit}")
    for doubt in limits.doubts:
        print(f"note: {doubt}")
    limits.write(folders.results / machine_limits.FILE)


def measure(kind: str, number: int, scratch: Path) -> MachineLimits:
    """The limits of a device with a number of CPU threads. Raises NoDevice and WrongResult."""
    started = time.time()
    backend = BY_DEVICE[kind]
    device = device_info(backend.device, number)
    programs = limit_samples.prepare(backend, device["path"], number, scratch)
    of_torch = _through_torch(kind, number) if kind in plugins.DEVICES else ()
    of_iree = limit_samples.iree_samples(programs, kind, number)
    on_cpu = kind == "cpu"
    with load_watched() as load:
        samples = (*of_torch, *of_iree)
    others = load.others(number if on_cpu else 1)
    return MachineLimits(
        device=kind,
        device_name=device["name"],
        threads=number if on_cpu else None,
        measured_at=started,
        samples=samples,
        versions=plugins.installed(VERSIONS),
        doubts=machine_limits.doubts(samples, others.foreign + others.steal),
    )


def _through_torch(kind: str, number: int) -> Iterable[Sample]:
    """What takes PyTorch's samples; nothing is taken before it is iterated over. Empty, with a note, if this PyTorch
    does not have the device."""
    from scripts.baselines.sessions.torch_device import TorchDevice

    try:
        return limit_samples.torch_samples(TorchDevice(kind, number), number)
    except NoTorchDevice as error:
        print(f"note: PyTorch's samples are left out: {error}", flush=True)
        return ()


if __name__ == "__main__":
    requests.run(LimitsRequest, measure_machine_limits)
