"""Compares rows with each other: speed-ups with intervals, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scripts.iree.backends import BACKENDS
from scripts.matrix import threads
from scripts.matrix.choices import BASES, BASES_OF
from scripts.sources.registry import source_of
from scripts.sources.source import ModelKind
from scripts.timing import ratios
from scripts.timing.ratios import Difference

Record = dict[str, Any]
Latency = Mapping[str, Any]
"""The section `latency` of a record."""
Comparable = Callable[[Mapping[str, Any]], tuple]
COLUMN = "speedup_vs_"
"""How the names of speed-ups begin; the runtime follows."""


def difference(base: Latency, row: Latency) -> Difference | None:
    """How many times faster `row` is than `base`, as a logarithm with its error.

    Rows of one group are compared by generation. Others are compared through the anchors of their groups, if these are
    the same. None if that is not possible, or if there are too few generations.
    """
    if base["group"] == row["group"]:
        return ratios.paired(base["values_ms"], row["values_ms"], noise(row))
    if not base["anchor"] or base["anchor"] != row["anchor"]:
        return None
    own, other = (
        ratios.paired(one["anchor_ms"], one["values_ms"], noise(one)) for one in (row, base)
    )
    return ratios.combined([(1, own), (-1, other)]) if own and other else None


def noise(latency: Latency) -> float | None:
    """The noise of the group of a latency; None where it is not known: a group of two, or a record of an older version."""
    return latency.get("noise")


def point(base: Latency, row: Latency) -> float | None:
    """How many times faster `row` is than `base`, without an interval; None if they cannot be compared."""
    if base["group"] == row["group"]:
        return base["ms"] / row["ms"]
    if not base["anchor"] or base["anchor"] != row["anchor"]:
        return None
    own, other = (ratios.log_mean(one["anchor_ms"]) - math.log(one["ms"]) for one in (row, base))
    return math.exp(own - other)


def add_speedups(found: Sequence[Record], key: Comparable | None = None) -> None:
    """Compare each latency with those of all baselines that `found` has, and with eager and inductor in any case. A value is
    None where there is no comparable row.

    `key`: the values that two latencies must share; those of `comparable` if it is None.
    """
    key = key or comparable
    bases: dict[tuple, dict[str, Record]] = {}
    names = dict.fromkeys(BASES)
    for record in found:
        if record["latency"] and record["experiment"]["runtime"] != "iree":
            name = threads.shared(runtime_of(record))
            bases.setdefault(key(record), {}).setdefault(name, record)
            names[name] = None
    for record in found:
        if record["latency"]:
            own = bases.get(key(record), {})
            for name in names:
                _compare(record, own.get(name), name)
            plain = {name: own[name] for name in BASES_OF[_kind(record)] if name in own}
            record["latency"]["verdict"] = _verdict(record, plain)


def _kind(record: Record) -> ModelKind:
    """What the source of a row's model gives; a module for an operator, which has no model."""
    return source_of(record.get("model", {}).get("file", "")).kind


def _compare(record: Record, base: Record | None, name: str) -> None:
    latency = record["latency"]
    ratio: tuple[float | None, ...] = None, None, None
    if base is record:
        ratio = 1.0, 1.0, 1.0
    elif base is not None:
        of = difference(base["latency"], latency)
        ratio = point(base["latency"], latency), None, None
        if of and (at := of.interval()):
            ratio = at.ratio, at.low, at.high
    column = f"{COLUMN}{name}"
    latency |= dict(zip((column, f"{column}_low", f"{column}_high"), ratio, strict=True))


def _verdict(record: Record, bases: Mapping[str, Record]) -> str | None:
    """What the ratio of a row to the fastest of these bases says; None for a row of one of them, and where there is none."""
    others = [one["latency"] for one in bases.values() if one is not record]
    if not others or any(one is record for one in bases.values()):
        return None
    fastest = min(others, key=lambda one: one["ms"])
    of = difference(fastest, record["latency"])
    return of.interval().verdict if of else ratios.UNDECIDED


def runtime_of(record: Mapping[str, Any]) -> str:
    """The runtime of a row; for a baseline with own arguments of torch.compile or with rewrites, the name of
    its entry.

    Such a baseline is compared with the runtime in its default mode, on the model as it is.
    """
    experiment = record["experiment"]
    is_own = experiment.get("compile") or experiment.get("rewrites")
    own_name = experiment["target"] if is_own else None
    return own_name or experiment["runtime"]


class Conditions(NamedTuple):
    """What two latencies of models must share to be comparable. `machine`: of an imported row."""

    model: str
    test: str
    dtype: str
    precision: str
    batch_size: int
    device: str
    device_name: str | None
    threads: int | None
    machine: str | None


def comparable(record: Mapping[str, Any]) -> Conditions:
    """The conditions under which a row was measured."""
    keys = ("test", "dtype", "precision", "batch_size")
    of_model = (record["experiment"].get(key) for key in keys)
    return Conditions(record["model"]["name"], *of_model, *device_of(record))


def device_of(record: Mapping[str, Any]) -> tuple:
    """The device of a row, the same for IREE and PyTorch: kind, name, threads, and the machine of an imported row, which
    may have a device of the same name."""
    kind, run = record["experiment"]["device"], record["run"]
    name = _TORCH_DEVICE.get(kind, kind)  # older records may lack the other two
    return name, run.get("device_name"), run.get("threads"), machine_of(record)


def machine_of(record: Mapping[str, Any]) -> str | None:
    """The machine of an imported row; None for rows of this run."""
    return record["experiment"].get("imported")


_TORCH_DEVICE = {one.device_kind: one.torch_device for one in BACKENDS.values()}
"""PyTorch's name of a kind of device; that of a ROCm GPU is "cuda"."""
