"""Shares out the time of a call over modules and dispatches, beside PyTorch's times and the machine's limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.features.profile.modules import base_name, patterns, shares
from scripts.features.profile.reading import Profiles
from scripts.timing.machine_limits import MachineLimits
from scripts.timing.ratios import log_mean

IREE = "iree"
MS = 1e3
NO_MODULE = "(no module)"
"""The row of what is of no module that is known: other time of a call, and layers that the compiler added."""


@dataclass
class Part:
    """A module, or several alike. `modules`: how many; `kind`: their class; `ms`: milliseconds per call by runtime;
    `limit_ms`: what the machine allows, None if it is not known; `flop`: per call."""

    name: str
    kind: str
    modules: int
    ms: dict[str, float] = field(default_factory=dict)
    limit_ms: float | None = None
    flop: int = 0

    @property
    def best_torch(self) -> tuple[str, float] | None:
        """The faster of eager and inductor, and its milliseconds."""
        return min(
            ((name, ms) for name, ms in self.ms.items() if name != IREE),
            key=lambda one: one[1],
            default=None,
        )

    @property
    def excess_ms(self) -> float:
        """By how much IREE is slower than the faster of eager and inductor; without them, than the limit."""
        best = self.best_torch
        return self.ms.get(IREE, 0.0) - (best[1] if best else self.limit_ms or 0.0)


@dataclass
class Kernel:
    """A function that dispatches call. `calls`, `ms`: per call of the program; `share`: of the time of all dispatches;
    `tiles`: workgroups per call; `busy`: threads that work on it on average; `parts`: the names of its modules."""

    function: str
    calls: int
    ms: float
    share: float
    tiles: int
    busy: float | None
    operators: list[str]
    parts: list[str]


@dataclass(frozen=True)
class Account:
    """The whole account of a cell. `call_ms`: by runtime, without a profiler where it is known; `limit_ms`: of the program."""

    parts: list[Part]
    kernels: list[Kernel]
    call_ms: Mapping[str, float]
    profiled_ms: Mapping[str, float]
    limit_ms: float | None


def account(profiles: Profiles) -> Account:
    """The modules and the kernels of a cell, each by falling time in IREE."""
    dispatches = profiles.iree["dispatches"]
    kinds = dict(profiles.iree["kinds"])
    for one in profiles.torch.values():
        kinds = {m["module"]: m["kind"] for m in one["modules"] if m["module"] is not None} | kinds
    times: dict[str, dict[str | None, float]] = {IREE: _by_module(dispatches)}
    for runtime, one in profiles.torch.items():
        times[runtime] = {m["module"]: m["ms"] for m in one["modules"]}
    paths = {path for found in times.values() for path in found if path is not None}
    work = profiles.torch.get("eager", {}).get("work")
    shown = patterns(paths | set(work["modules"] if work else ()), kinds)
    parts = _parts(times, shown, kinds)
    if work:
        _add_limits(parts, work, shown, profiles.limits)
    return Account(
        sorted(parts.values(), key=lambda one: -one.ms.get(IREE, 0.0)),
        _kernels(dispatches, shown),
        _call_ms(profiles),
        {name: sum(found.values()) for name, found in times.items()},
        limit_ms(profiles.limits, work) if work else None,
    )


def _bytes(work: Mapping[str, Any]) -> int:
    return work["weight_bytes"] + work["input_bytes"] + work["output_bytes"]


def limit_ms(
    limits: MachineLimits | None, work: Mapping[str, Any], part: Mapping[str, Any] | None = None
) -> float | None:
    """The time that the machine needs at least for a model in float32, or for a part of its work; None without its
    limits."""
    if limits is None:
        return None
    whole = _bytes(work)
    flop, moved = (part["flop"], part["bytes"]) if part else (work["flop"], whole)
    return limits.least_seconds(flop, moved, "f32", of=whole)[0] * MS


def _by_module(dispatches: Iterable[Mapping[str, Any]]) -> dict[str | None, float]:
    found: dict[str | None, float] = {}
    for one in dispatches:
        for module, share in shares(one["nodes"]).items():
            found[module] = found.get(module, 0.0) + one["ms"] * share
    return found


def _parts(
    times: Mapping[str, Mapping[str | None, float]],
    shown: Mapping[str, str],
    kinds: Mapping[str, str],
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    members: dict[str, set[str | None]] = {}
    for runtime, found in times.items():
        for path, ms in found.items():
            name = _name(path, shown)
            part = parts.setdefault(name, Part(name, kinds.get(path or "", ""), 0))
            part.ms[runtime] = part.ms.get(runtime, 0.0) + ms
            members.setdefault(name, set()).add(path)
    for name, part in parts.items():
        part.modules = len(members[name])
        part.ms = {runtime: part.ms.get(runtime, 0.0) for runtime in times}
        if name == NO_MODULE:
            part.kind = ""
    return parts


def _name(path: str | None, shown: Mapping[str, str]) -> str:
    if path is None:
        return NO_MODULE
    return shown.get(path, path) or "(the model itself)"


def _add_limits(
    parts: Mapping[str, Part],
    work: Mapping[str, Any],
    shown: Mapping[str, str],
    limits: MachineLimits | None,
) -> None:
    for path, one in work["modules"].items():
        part = parts.get(_name(path, shown))
        if part is None:
            continue
        part.flop += one["flop"]
        least = limit_ms(limits, work, one)
        if least is not None:
            part.limit_ms = (part.limit_ms or 0.0) + least


def _kernels(dispatches: Iterable[Mapping[str, Any]], shown: Mapping[str, str]) -> list[Kernel]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in dispatches:
        found.setdefault(one["function"], []).append(one)
    total = sum(one["ms"] for group in found.values() for one in group) or 1.0
    kernels = []
    for function, group in found.items():
        ms = sum(one["ms"] for one in group)
        weighed = sum(one["ms"] for one in group if one["busy"] is not None)
        busy = sum(one["ms"] * one["busy"] for one in group if one["busy"] is not None)
        operators = dict.fromkeys(base_name(n[1]) for one in group for n in one["nodes"])
        names = dict.fromkeys(_name(m, shown) for one in group for m in shares(one["nodes"]))
        kernels.append(
            Kernel(
                function,
                len(group),
                ms,
                ms / total,
                group[0]["tiles"],
                busy / weighed if weighed else None,
                list(operators),
                list(names),
            )
        )
    return sorted(kernels, key=lambda one: -one.ms)


def _call_ms(profiles: Profiles) -> dict[str, float]:
    """The time of a call by runtime. IREE's is the latency of its row, if that was timed."""
    values = profiles.values_ms
    found = {IREE: math.exp(log_mean(values)) if values else profiles.iree["call_ms"]}
    return found | {name: one["call_ms"] for name, one in profiles.torch.items()}
