"""What the report of a compilation for a GPU says of its dispatches: their code, their work, and how long they take at least on the device
that the target stands for."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scripts.core import process
from scripts.iree.backends import BACKENDS
from scripts.tools.gpu_static import code, devices, program
from scripts.tools.gpu_static.code import Kernel
from scripts.tools.gpu_static.devices import MATRIX, VECTOR, Device
from scripts.tools.gpu_static.program import Work

DISPATCHES = "dispatches"
"""The key of a report of compile_iree with the dispatches of a call, each as `Dispatch` has it."""
MEMORY, COMPUTE = "memory", "compute"
CODE = "code"
"""The folder with the code, in that of the dumps."""
ELIDED = 64
"""Elements of constants that dumps have; the code of executables is one."""


@dataclass(frozen=True)
class Dispatch:
    """A dispatch of a call: its function, and how often a call runs it with so many workgroups (None: known at run time only). `work`: None if it depends on
    such sizes. `occupancy`: share of the waves of a compute unit, which `limited_by` limits; None without a known device, and an upper bound if its registers are not
    known. `bound_ms`: least time of one run, which `bound_by` takes; None without a known device or work."""

    function: str
    calls: int
    workgroups: int | None
    threads: int
    kernel: Kernel
    work: Work | None
    occupancy: float | None
    limited_by: str
    bound_ms: float | None
    bound_by: str


@dataclass(frozen=True)
class Dumps:
    """Where iree-compile writes what facts are made of: a temporary folder; None for a CPU."""

    folder: Path | None

    @property
    def flags(self) -> list[str]:
        """The flags of iree-compile that write it. They change no byte of the module."""
        if self.folder is None:
            return []
        below = self.folder / CODE
        return [
            f"--dump-compilation-phases-to={self.folder}",
            f"--iree-hal-dump-executable-intermediates-to={below}",
            f"--iree-hal-dump-executable-binaries-to={below}",
            f"--mlir-elide-elementsattrs-if-larger={ELIDED}",
        ]

    def report(self, backend: str, arch: str | None) -> dict[str, Any]:
        """The part of the report of a compilation for a target; {} for a CPU, and, with a note, if the dumps cannot be read. `arch`: None for
        that of the backend. They are read in a forked process, as the bindings of MLIR may end or stop one on an error."""
        if self.folder is None:
            return {}
        folder, of_target = self.folder, arch or BACKENDS[backend].arch
        device = devices.find(backend, of_target)
        ended, answer = process.forked(lambda: json.dumps(as_report(dispatches(folder, of_target, device), device)).encode())  # fmt: skip
        if ended:
            print("note: the dispatches are not described, as their dumps could not be read", file=sys.stderr)  # fmt: skip
        return {} if ended else json.loads(answer)


@contextlib.contextmanager
def dumps(backend: str, folder: Path) -> Iterator[Dumps]:
    """The dumps of a compilation for a backend, in a folder below `folder` that is deleted in the end."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="dumps-") as below:
        yield Dumps(None if BACKENDS[backend].device_kind == "cpu" else Path(below))


def dispatches(folder: Path, arch: str, device: Device | None) -> list[Dispatch]:
    """The dispatches of a call from the dumps in a folder. Raises OSError and LookupError if these are not as expected."""
    launched = program.exports(program.phase(folder, program.TARGETS))
    works = program.work(program.phase(folder, program.CONFIGURED))
    called = program.calls(program.phase(folder, program.HAL))
    kernels = code.kernels(folder / CODE, arch) if called else {}
    return [
        describe(name, calls, groups, launched[name], kernels[name], works.get(name), device)
        for (name, groups), calls in called.items()
    ]


def describe(function: str, calls: int, workgroups: int | None, launch: tuple[int, int], kernel: Kernel, work: Work | None, device: Device | None) -> Dispatch:  # fmt: skip
    """A dispatch with what follows from its launch (program.exports), its code and its work on a device."""
    threads, shared = launch
    kernel = replace(kernel, shared_bytes=max(shared, kernel.shared_bytes))
    share, limit = devices.occupancy(device, threads, kernel.registers, kernel.shared_bytes) if device else (None, "")  # fmt: skip
    bound, by = _bound(device, workgroups, kernel, work) if device and work else (None, "")
    return Dispatch(function, calls, workgroups, threads, kernel, work, share, limit, bound, by)


def _bound(device: Device, workgroups: int | None, kernel: Kernel, work: Work) -> tuple[float, str]:
    """The milliseconds that one run takes at least, and what takes them.

    By the roofline model (Williams et al. 2009): the larger one of the times for its bytes and for its FLOPs, at the peak of
    the instructions that it has. Workgroups are not split, so the busiest unit has ⌈workgroups / units⌉ of them. A type without a known peak
    counts as no time.
    """
    element = kernel.element if kernel.matrix else work.element
    peaks = device.tflop_per_s
    peak = peaks.get(f"{MATRIX if kernel.matrix else VECTOR} {element}", math.inf)
    flop_s = max(work.product_flop / peak, work.other_flop / peaks[f"{VECTOR} f32"]) / 1e12
    if workgroups:
        flop_s *= math.ceil(workgroups / device.units) * device.units / workgroups
    byte_s = work.bytes / device.gb_per_s / 1e9
    return (flop_s * 1e3, COMPUTE) if flop_s > byte_s else (byte_s * 1e3, MEMORY)


def as_report(called: Sequence[Dispatch], device: Device | None) -> dict[str, Any]:
    """The part of a report: the values of a row whose names begin with `static_`, and the dispatches. A value that is not known for one of the
    dispatches is left out."""
    works = [(each, each.work) for each in called if each.work]
    product = sum(each.calls * work.product_flop for each, work in works)
    on_matrix = sum(each.calls * work.product_flop for each, work in works if each.kernel.matrix)
    by_flop = [(each.calls * (work.product_flop + work.other_flop), each) for each, work in works]
    knows_registers = all(each.kernel.registers is not None for each in called)
    flop = sum(flop for flop, _ in by_flop)
    values: dict[str, Any] = {
        "static_device": device.name if device else None,
        "static_spills": _sum({each.function: each.kernel.spilled_bytes for each in called}.values()),
        "static_bound_ms": _sum(each.bound_ms and each.calls * each.bound_ms for each in called),
    }  # fmt: skip
    if len(works) == len(called):
        if product:
            values["static_matrix_share"] = on_matrix / product
        if device and flop and knows_registers:
            values["static_occupancy"] = sum(part * (each.occupancy or 0.0) for part, each in by_flop) / flop  # fmt: skip
    known = {name: value for name, value in values.items() if value is not None}
    return {**known, DISPATCHES: [asdict(each) for each in called]}


def _sum(values: Iterable[float | None]) -> float | None:
    every = [*values]
    known = [value for value in every if value is not None]
    return sum(known) if len(known) == len(every) else None
