"""Compares rows with each other: the speed of the machine during each, and speed-ups with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scripts.lib.config.choices import BASES
from scripts.lib.iree.backends import BACKENDS
from scripts.lib.report import ratio
from scripts.lib.timing.latency import GRADES, geometric_mean

Record = dict[str, Any]
Comparable = Callable[[Mapping[str, Any]], tuple]


def add_machine_speeds(found: Sequence[Record]) -> None:
    """Add to each row the speed of the machine during its measurement: its calibration relative to the
    median over the rows that were measured on as many threads of the same CPU."""
    taken = {
        id(record): seconds
        for record in found
        if record["latency"] and (seconds := _calibration_s(record["latency"])) is not None
    }
    alike: dict[tuple, list[float]] = {}
    for record in found:
        if id(record) in taken:
            alike.setdefault(_machine(record), []).append(taken[id(record)])
    for record in found:
        if record["latency"]:
            seconds = taken.get(id(record))
            record["latency"]["machine_speed"] = (
                seconds and statistics.median(alike[_machine(record)]) / seconds
            )


def _calibration_s(latency: Mapping[str, Any]) -> float | None:
    """Seconds of the calibration: the geometric mean over both kernels and all calibrations of a row."""
    found = [s for one in latency["rounds"] for s in (*one["compute_s"], *one["memory_s"])]
    return geometric_mean(found) if found else None


def _machine(record: Record) -> tuple:
    first = record["latency"]["rounds"][0]
    return first["cpu"], first["threads"], machine_of(record)


def add_speedups(found: Sequence[Record], key: Comparable | None = None) -> None:
    """Compare each latency with those of eager and inductor, if there are comparable rows.

    `key`: the values that two latencies must share; those of `comparable` if it is None.
    """
    key = key or comparable
    for base_name in BASES:
        bases: dict[tuple, Record] = {}
        for record in found:
            if runtime_of(record) == base_name and record["latency"]:
                bases.setdefault(key(record), record)
        for record in found:
            if record["latency"]:
                _compare(record, bases.get(key(record)), base_name)


def runtime_of(record: Mapping[str, Any]) -> str:
    """The runtime of a row; for a baseline with own arguments of torch.compile or with rewrites, the name of
    its entry.

    Such a baseline is compared with the runtime in its default mode, on the model as it is.
    """
    experiment = record["experiment"]
    is_own = experiment.get("compile") or experiment.get("rewrites")
    own_name = experiment["target"] if is_own else None
    return own_name or experiment["runtime"]


def comparable(record: Mapping[str, Any]) -> tuple:
    """The values that two latencies of models must share to be comparable."""
    experiment = record["experiment"]
    return (
        record["model"]["name"],
        *(experiment[key] for key in ("test", "dtype", "precision", "batch_size")),
        *device_of(record),
    )


def device_of(record: Mapping[str, Any]) -> tuple:
    """The device of a row, the same for IREE and PyTorch: kind, name, threads, and the machine of an imported row, which
    may have a device of the same name."""
    kind, run = record["experiment"]["device"], record["run"]
    return _TORCH_DEVICE.get(kind, kind), run["device_name"], run["threads"], machine_of(record)


def machine_of(record: Mapping[str, Any]) -> str | None:
    """The machine of an imported row; None for rows of this run."""
    return record["experiment"].get("imported")


_TORCH_DEVICE = {one.device_kind: one.torch_device for one in BACKENDS.values()}
"""PyTorch's name of a kind of device; that of a ROCm GPU is "cuda"."""


def _compare(record: Record, base: Record | None, base_name: str) -> None:
    """Add the speed-up over `base`, its interval, and why there is none."""
    latency, column = record["latency"], f"speedup_vs_{base_name}"
    latency.setdefault("no_interval", ratio.why_none(row_of(latency)))
    latency |= {column: None, f"{column}_low": None, f"{column}_high": None}
    if base_name == "eager":
        # A ratio cannot be trusted more than the less trusted of its two latencies.
        grades = [latency["trust"], base["latency"]["trust"]] if base else []
        latency["speedup_trust"] = max(grades, key=GRADES.index, default=None)
    if base is None:
        return
    if base is record:
        latency |= {column: 1.0, f"{column}_low": 1.0, f"{column}_high": 1.0}
        return
    both = [row_of(one["latency"]) for one in (base, record)]
    if not any(map(ratio.why_none, both)):
        of_base, of_row = map(ratio.log_latency, both)
        between = ratio.ratio(of_base, of_row)
        latency |= {column: between.ratio, f"{column}_low": between.low, f"{column}_high": between.high}  # fmt: skip
        return
    latency[column] = ratio.point(*both)
    if not latency["no_interval"]:
        latency["no_interval"] = f"{base_name}: {ratio.why_none(both[0])}"


def row_of(latency: Mapping[str, Any]) -> list[ratio.Round]:
    """The rounds of a record's latency."""
    return ratio.of_latency(latency["values_ms"], latency["rounds"])
