"""Compares rows: with each other, as speed-ups with intervals, and with what their device can do at most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts.config import plugins, stages
from scripts.config.cell import EntryName
from scripts.config.choices import BASES, BASES_OF
from scripts.frontends.sources.registry import source_of
from scripts.frontends.sources.source import ModelKind
from scripts.iree.backends import BACKENDS
from scripts.measure.timing import machine_limits, ratios
from scripts.measure.timing.machine_limits import COMPUTE, MEMORY, MachineLimits
from scripts.measure.timing.ratios import Difference, Interval
from scripts.results import stage_files
from scripts.results.columns import COLUMN

Record = dict[str, Any]
Latency = Mapping[str, Any]
"""The section `latency` of a record."""
Comparable = Callable[[Mapping[str, Any]], tuple]


def difference(base: Latency, row: Latency) -> Difference | None:
    """How many times faster `row` is than `base`, as a logarithm with its error.

    Rows of one group are compared by generation. Others are compared through the anchors of their groups, if these are
    the same. None if that is not possible, or if there are too few generations.
    """
    if base["group"] == row["group"]:
        return ratios.paired(base["values_ms"], row["values_ms"], noise(row))
    if not is_comparable(base, row):
        return None
    own, other = (
        ratios.paired(latency["anchor_ms"], latency["values_ms"], noise(latency))
        for latency in (row, base)
    )
    return ratios.combined([(1, own), (-1, other)]) if own and other else None


def is_comparable(base: Latency, row: Latency) -> bool:
    """Whether two latencies were timed in the same turns, or with the same anchor."""
    return base["group"] == row["group"] or bool(base["anchor"] and base["anchor"] == row["anchor"])


def noise(latency: Latency) -> float | None:
    """The noise of the group of a latency; None where it is not known: a group of two, or a record of an older version."""
    return latency.get("noise")


def add_speedups(records: Sequence[Record], key: Comparable | None = None) -> None:
    """Compare each latency with those of all baselines that `records` has, and with eager and inductor in any case. A value is
    None where there is no comparable row, and where the ratio is not known (Interval.is_known): then the baseline is one of the
    latency's `unknown` ones, and its `doubt` says why.

    `key`: the values that two latencies must share; those of `comparable` if it is None.
    """
    key = key or comparable
    bases: dict[tuple, dict[str, Record]] = {}
    names = dict.fromkeys(BASES)
    for record in records:
        if record["latency"] and record["experiment"]["runtime"] != "iree":
            name = str(EntryName.read(runtime_of(record)).without("threads"))
            bases.setdefault(key(record), {}).setdefault(name, record)
            names[name] = None
    for record in records:
        if record["latency"]:
            own, latency = bases.get(key(record), {}), record["latency"]
            unknown = []
            for name in names:
                base = own.get(name)
                values = ratio_values(f"{COLUMN}{name}", base and base["latency"], latency)
                latency |= dict.fromkeys(values, 1.0) if base is record else values
                if base and latency[f"{COLUMN}{name}"] is None:
                    unknown += [name] if is_comparable(base["latency"], latency) else []
            latency["unknown"] = unknown
            if unknown and not latency["doubt"]:
                why = own[unknown[0]]["latency"]["doubt"] or "the interval is wider than ±50 %"
                latency["doubt"] = f"not known how it compares with {', '.join(unknown)}: {why}"
            plain = {name: own[name] for name in BASES_OF[_kind(record)] if name in own}
            latency["verdict"] = _verdict(record, plain)


def _kind(record: Record) -> ModelKind:
    """What the source of a row's model gives; a module for an operator, which has no model."""
    return source_of(record.get("model", {}).get("file", "")).kind


def interval(base: Latency, row: Latency) -> Interval | None:
    """How many times faster `row` is than `base`, with its interval; None as of `difference`."""
    known = difference(base, row)
    return known.interval() if known else None


def ratio_values(name: str, base: Latency | None, row: Latency | None) -> dict[str, float | None]:
    """How many times faster `row` is than `base`, by the names of the value and of the ends of its interval (`<name>_low`,
    `<name>_high`). None where there is no interval or no such latency; the ratio is also None if the interval is too wide
    (Interval.is_known)."""
    values: tuple[float | None, ...] = None, None, None
    if base and row:
        at = interval(base, row)
        values = (at.ratio if at.is_known else None, at.low, at.high) if at else values
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _verdict(record: Record, bases: Mapping[str, Record]) -> str | None:
    """What the ratio of a row to the fastest of these bases says; None for a row of one of them, and where there is none."""
    others = [base["latency"] for base in bases.values() if base is not record]
    if not others or any(base is record for base in bases.values()):
        return None
    fastest = min(others, key=lambda latency: latency["ms"])
    known = interval(fastest, record["latency"])
    return known.verdict if known else ratios.UNDECIDED


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


_TORCH_DEVICE = {backend.device_kind: backend.torch_device for backend in BACKENDS.values()}
"""PyTorch's name of a kind of device; that of a ROCm GPU is "cuda"."""


NOT_COUNTED = "the FLOPs and bytes of a call were not counted; `left_out` says why"


def read_limits(devices: Iterable[str], root: Path = Path()) -> list[MachineLimits]:
    """The limits of devices, of those that were measured. A damaged file is left out, with a note, and its stage marked so
    that the next run repeats it. Raises ValueError for a file of another form."""
    stage = stages.STAGES.get("machine_limits")
    if not stage:
        return []
    measured = []
    for device in devices:
        path = root / stage.path(device, machine_limits.FILE)
        if stage_files.is_left_out(path):
            continue
        if limits := MachineLimits.read(path):
            measured.append(limits)
    return measured


def limits_of_row(record: Record, limits: Sequence[MachineLimits]) -> MachineLimits | None:
    """The limits of the device that a row was measured on, with as many threads; None if that was on another machine."""
    if machine_of(record):
        return None
    run = record["run"]
    return next(
        (device for device in limits if device.is_of(run["device_name"], run["threads"])), None
    )


def work_section(
    record: Record, counted: Mapping[str, Any] | None, limits: Sequence[MachineLimits]
) -> dict[str, Any]:
    """The section `work` of a record. `counted`: the work of a call by its signature; None if it is not known."""
    values: dict[str, Any] = dict.fromkeys(_ALL)
    latency, cast = record["latency"], record["experiment"]["precision"] != "none"
    if counted:
        values["gflop"] = counted["flop"] / 1e9
        if not cast:
            values["moved_bytes"] = sum(counted[key] for key in _MOVED)
    if not latency:
        return values
    if not counted:
        return values | {"no_limit_share": NOT_COUNTED}
    values["gflop_per_s"] = values["gflop"] / latency["ms"] * 1e3
    if cast:
        what = f"the bytes are known for the model's own dtype, not for {record['experiment']['precision']}"
        return values | {"no_limit_share": what}
    values["gb_per_s"] = values["moved_bytes"] / latency["ms"] / 1e6
    if why := _other_precision(record):
        return values | {"no_limit_share": why}
    of_device = limits_of_row(record, limits)
    if of_device is None:
        return values | {"no_limit_share": _no_limits(record, limits)}
    dtype = record["experiment"]["dtype"]
    values |= limit_share(of_device, counted["flop"], values["moved_bytes"], dtype, latency)
    if values["no_limit_share"]:
        values["no_limit_share"] += _rewritten(record)
    return values


_MOVED = ("weight_bytes", "input_bytes", "output_bytes")
_SHARE = ("limit_ms", "limited_by", "limit_share", "limit_share_low", "limit_share_high", "no_limit_share")  # fmt: skip
_ALL = ("gflop", "moved_bytes", "gflop_per_s", "gb_per_s", *_SHARE)


def _other_precision(record: Record) -> str:
    """Why products may be faster than the limits, which are those of the model's dtype; "" if they are not."""
    precision = record["experiment"].get("matmul_precision", "highest")
    if precision == "highest" or record["experiment"]["device"] == "cpu":
        return ""
    return f"products have precision {precision}, and the limits are those of {record['experiment']['dtype']}"


def _rewritten(record: Record) -> str:
    """What to add about a row whose graph was rewritten for speed: the counts are those of the original."""
    applied = (record["export"] or {}).get("rewrites", ())
    names = [name for name in applied if name in plugins.speed_rewrites()]
    return f", or the rewrite {', '.join(names)} saves work" if names else ""


def _no_limits(record: Record, limits: Sequence[MachineLimits]) -> str:
    """Why there are no limits of the device of a row."""
    if machine := machine_of(record):
        return f"measured on {machine}, whose limits are not known here"
    kind, run = record["experiment"]["device"], record["run"]
    number = EntryName.read(record["experiment"].get("target") or "").threads
    with_threads = f" with {run['threads']} threads" if run["threads"] else ""
    where = f"{run['device_name']}{with_threads}"
    measured = [
        device_limits
        for device_limits in limits
        if device_limits.device == kind and number in (None, device_limits.threads)
    ]
    if not measured:
        device = EntryName(kind, threads=number)
        status = stages.status_path("machine_limits", device)
        return (
            f"the limits of {where} were not measured (`snakemake machine_limits` does; {status})"
        )
    nearest = measured[0]
    with_threads = f" with {nearest.threads} threads" if nearest.threads else ""
    return f"measured on {where}, but the limits are those of {nearest.device_name}{with_threads}"


def limit_share(
    limits: MachineLimits, flop: float, moved: int, dtype: str, latency: Mapping[str, Any]
) -> dict[str, Any]:
    """The share of the limit that a latency reaches, with its interval, which is that of the latency.

    If the call takes less time than the device needs, a count or the limits are wrong. Then there is no share, but
    the reason.
    """
    seconds, by = limits.least_seconds(flop, moved, dtype)
    least_ms = seconds * 1e3
    fast, slow = latency["low_ms"], latency["high_ms"]
    values: dict[str, Any] = dict.fromkeys(_SHARE) | {"limit_ms": least_ms, "limited_by": by}
    longest = slow or latency["ms"]
    if least_ms > longest:
        amounts = {MEMORY: f"{moved / 1e6:.3g} MB", COMPUTE: f"{flop / 1e9:.3g} GFLOP"}
        what = (
            f"a call takes at most {longest:.3g} ms, but {limits.device_name} needs {least_ms:.3g} ms for {amounts[by]}:"
            " the count or the limits are wrong"
        )
        return values | {"no_limit_share": what}
    values["limit_share"] = least_ms / latency["ms"]
    if fast and slow:
        values |= {"limit_share_low": least_ms / slow, "limit_share_high": least_ms / fast}
    return values
