"""How close each row is to what its device can do at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.matrix import plugins, stages, threads
from scripts.records import speedups, stage_files
from scripts.timing import machine_limits
from scripts.timing.machine_limits import COMPUTE, MEMORY, MachineLimits

Record = dict[str, Any]

NOT_COUNTED = "the FLOPs and bytes of a call were not counted; the log of the reference says why"


def read(devices: Iterable[str], root: Path = Path()) -> list[MachineLimits]:
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


def of_row(record: Record, limits: Sequence[MachineLimits]) -> MachineLimits | None:
    """The limits of the device that a row was measured on, with as many threads; None if that was on another machine."""
    if speedups.machine_of(record):
        return None
    run = record["run"]
    return next(
        (device for device in limits if device.is_of(run["device_name"], run["threads"])), None
    )


def section(
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
    of_device = of_row(record, limits)
    if of_device is None:
        return values | {"no_limit_share": _no_limits(record, limits)}
    dtype = record["experiment"]["dtype"]
    values |= share(of_device, counted["flop"], values["moved_bytes"], dtype, latency)
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
    if machine := speedups.machine_of(record):
        return f"measured on {machine}, whose limits are not known here"
    kind, run = record["experiment"]["device"], record["run"]
    number = threads.of(record["experiment"].get("target") or "")
    with_threads = f" with {run['threads']} threads" if run["threads"] else ""
    where = f"{run['device_name']}{with_threads}"
    measured = [
        device_limits
        for device_limits in limits
        if device_limits.device == kind and number in (None, device_limits.threads)
    ]
    if not measured:
        device = threads.named(kind, number)
        status = stages.status_path("machine_limits", device)
        return f"the limits of {where} were not measured ({status})"
    nearest = measured[0]
    with_threads = f" with {nearest.threads} threads" if nearest.threads else ""
    return f"measured on {where}, but the limits are those of {nearest.device_name}{with_threads}"


def share(
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
