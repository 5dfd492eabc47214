"""What a device can do at most: the bytes per second of a triad and the FLOP per second of a product.

They are measured once per machine and number of threads, and other figures are shares of them.

The triad is that of STREAM (McCalpin 1995, "Memory Bandwidth and Machine Balance in Current High
Performance Computers"): a = b + s × c. As there, three arrays are counted, and the fastest call counts.
Smaller triads give the bandwidth of the caches, because a program that is called again and again finds
its data there if they fit (Ilic et al. 2014, "Cache-aware Roofline model").
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.core import atomic

TRIAD = "triad"
PRODUCT = "product"
FILE = "limits.json"
MEMORY = "memory"
COMPUTE = "compute"
SPREAD = 1.5
"""How far apart two figures that should be alike may be before a doubt is noted."""
BUSY = 0.1
"""Share of the cores that others may use before a doubt is noted."""


@dataclass(frozen=True)
class Sample:
    """Timed calls of one program.

    `what`: TRIAD or PRODUCT. `through`: what computed it (torch, iree). `size`: bytes of the three arrays
    of a triad, or n of a product of two n × n matrices. `seconds`: wall time of each call.
    """

    what: str
    through: str
    dtype: str
    size: int
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """1e9 bytes or FLOP per second of the fastest call."""
        work = float(self.size) if self.what == TRIAD else 2.0 * self.size**3
        return work / min(self.seconds) / 1e9

    @property
    def name(self) -> str:
        """Such as `triad f32 through torch`."""
        return f"{self.what} {self.dtype} through {self.through}"


@dataclass(frozen=True)
class MachineLimits:
    """The limits of one device of one machine, with `threads` CPU threads (None on other devices).

    `device`: a kind of device. `measured_at`: seconds since the epoch. `doubts`: what suggests that a figure is
    too low or too high, one sentence each.
    """

    device: str
    device_name: str
    threads: int | None
    measured_at: float
    samples: tuple[Sample, ...]
    versions: dict[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @property
    def gb_per_s(self) -> float:
        """The bandwidth of the memory in 1e9 bytes per second: that of the fastest triad that is too large
        for the caches."""
        return max(sample.rate for sample in _in_memory(self.samples))

    def gb_per_s_of(self, moved: float) -> float:
        """The bandwidth for a program that moves `moved` bytes per call, from memory or caches: that of
        the fastest triad of this size or larger. If none is as small, that of all."""
        triads = [sample for sample in self.samples if sample.what == TRIAD]
        least = max((sample.size for sample in triads if sample.size <= moved), default=0)
        return max(sample.rate for sample in triads if sample.size >= least)

    def gflop_per_s(self, dtype: str) -> float:
        """The 1e9 FLOP per second of the fastest product in this dtype; if none was measured, in any."""
        products = [sample for sample in self.samples if sample.what == PRODUCT]
        alike = [sample for sample in products if sample.dtype == dtype]
        return max(sample.rate for sample in alike or products)

    def is_of(self, device_name: str | None, threads: int | None) -> bool:
        """Whether these are the limits of a row that was measured on this device with these threads."""
        return (device_name, threads) == (self.device_name, self.threads)

    def least_seconds(
        self, flop: float, moved: float, dtype: str, whole: float | None = None
    ) -> tuple[float, str]:
        """The time that the device needs at least for a call, and what limits it: MEMORY or COMPUTE.

        By the roofline model (Williams et al. 2009), the larger one of the times for `flop` operations and
        for moving `moved` bytes. `whole`: for a part of a program, the bytes that the whole program moves.
        """
        return max(
            (moved / self.gb_per_s_of(moved if whole is None else whole) / 1e9, MEMORY),
            (flop / self.gflop_per_s(dtype) / 1e9, COMPUTE),
        )

    def write(self, path: str | Path) -> None:
        atomic.write_json(path, asdict(self))

    @classmethod
    def read(cls, path: str | Path) -> MachineLimits | None:
        """Read them; None if the file does not exist or is the empty one of a failed stage.

        Raises ValueError, with the name of the file, if it has another form.
        """
        import msgspec  # the environments of the stages do not have it

        path = Path(path)
        if not path.is_file() or not path.stat().st_size:
            return None
        again = "delete it, and the next run makes it again"
        try:
            limits = msgspec.convert(atomic.read_json(path), cls)
        except (ValueError, msgspec.ValidationError) as error:
            raise ValueError(f"{path}: {error}; {again}") from error
        if not complete(limits.samples):
            raise ValueError(f"{path}: no triad or no product; {again}")
        return limits


def complete(samples: Iterable[Sample]) -> bool:
    """Whether there is a triad and a product."""
    return {TRIAD, PRODUCT} <= {sample.what for sample in samples}


def _in_memory(samples: Iterable[Sample]) -> list[Sample]:
    """The triads that are too large for the caches: those of at least half of the largest size."""
    triads = [sample for sample in samples if sample.what == TRIAD]
    largest = max((sample.size for sample in triads), default=0)
    return [sample for sample in triads if 2 * sample.size >= largest]


def doubts(samples: Sequence[Sample], used_by_others: float) -> tuple[str, ...]:
    """What suggests that the figures are not those of the idle device.

    `used_by_others`: share of the cores that other processes and guests used meanwhile.
    """
    reasons = []
    if used_by_others > BUSY:
        reasons.append(
            f"others used {used_by_others:.0%} of the cores while the limits were measured"
        )
    for sample in samples:
        apart = statistics.median(sample.seconds) / min(sample.seconds)
        if apart > SPREAD:
            reasons.append(f"{sample.name}, size {sample.size}: the median call takes {apart:.1f} × the time of the fastest")  # fmt: skip
    # Caches would make the smaller triad faster. (A product may be faster the larger it is.)
    fastest: dict[int, float] = {}
    for sample in _in_memory(samples):
        fastest[sample.size] = max(sample.rate, fastest.get(sample.size, 0.0))
    least, most = min(fastest.values(), default=1.0), max(fastest.values(), default=1.0)
    if most > SPREAD * least:
        reasons.append(f"triad: {least:.3g} to {most:.3g} GB/s, depending on the size")
    return tuple(reasons)
