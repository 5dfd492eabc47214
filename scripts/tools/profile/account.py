"""Shares out the time of a call over modules and dispatches, beside PyTorch's times and the machine's limit; and says why profiles may be wrong, or
may not be compared with each other: then nothing is recommended."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.measure.timing import ratios
from scripts.measure.timing.machine_limits import MachineLimits
from scripts.results.wording import milliseconds
from scripts.tools.profile.profile_files import IREE, Profiles

MS = 1e3
NO_MODULE = "(no module)"
"""The row of what belongs to no module: other time of a call, and layers that the compiler added."""
PRODUCTS = frozenset(
    {
        *("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "einsum"),
        *("convolution", "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_weight_int4pack_mm"),
    }
)
"""Operators of ATen that are products. What is fused with one takes little of the time."""
AGREES = 1.5
"""How much slower or faster than its row a program may be while it is profiled."""
MOVED = 1.5
"""How much the control of a profile may differ from round to round."""
BUSY = 0.2
"""The share of the cores that other processes may use."""
NAMES = {IREE: "IREE"}
Node = Sequence
"""A node of the captured graph in a profile: [name, operator, module or None]."""


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
        torch = [(name, ms) for name, ms in self.ms.items() if name != IREE]
        return min(torch, key=lambda pair: pair[1], default=None)

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
    """The whole account of a cell. `call_ms`: by runtime, that of the row, or without one of the calls between the profiled ones;
    `limit_ms`: of the program. `doubts`: why nothing is recommended. `profiled`: by runtime, what was measured beside the
    profile (rounds.py)."""

    parts: list[Part]
    kernels: list[Kernel]
    call_ms: Mapping[str, float]
    limit_ms: float | None
    doubts: list[str]
    profiled: Mapping[str, Mapping[str, Any]]


def account(profiles: Profiles) -> Account:
    """The modules and the kernels of a cell, each by falling time in IREE.

    All times of a profile are scaled so that its profiled call takes as long as the call of the row: rows are timed in turns, and
    profiles one after the other.
    """
    every = {IREE: profiles.iree, **profiles.torch}
    call_ms = {
        name: profiles.row_ms(name) or float(profile["call_ms"]) for name, profile in every.items()
    }
    scale = {
        name: call_ms[name] / profile.get("profiled_ms", profile["call_ms"])
        for name, profile in every.items()
    }
    dispatches = [
        {**dispatch, "ms": dispatch["ms"] * scale[IREE]} for dispatch in profiles.iree["dispatches"]
    ]
    kinds = dict(profiles.iree["kinds"])
    times: dict[str, dict[str | None, float]] = {IREE: defaultdict(float)}
    for dispatch in dispatches:
        for module, share in shares(dispatch["nodes"]).items():
            times[IREE][module] += dispatch["ms"] * share
    for runtime, profile in profiles.torch.items():
        times[runtime] = {
            module["module"]: module["ms"] * scale[runtime] for module in profile["modules"]
        }
        own = {m["module"]: m["kind"] for m in profile["modules"] if m["module"] is not None}
        kinds = own | kinds
    paths = {path for by_path in times.values() for path in by_path if path is not None}
    work = profiles.torch.get("eager", {}).get("work")
    shown = patterns(paths | set(work["modules"] if work else ()), kinds)
    parts = _parts(times, shown, kinds)
    if work:
        _add_limits(parts, work, shown, profiles.limits)
    return Account(
        sorted(parts.values(), key=lambda part: -part.ms.get(IREE, 0.0)),
        _kernels(dispatches, shown),
        call_ms,
        _limit_ms(profiles.limits, work) if work else None,
        doubts(profiles),
        {
            name: {key: profile[key] for key in _BESIDE if key in profile}
            for name, profile in every.items()
        },
    )


_BESIDE = ("control_ms", "foreign", "load")


def _add_limits(
    parts: Mapping[str, Part],
    work: Mapping[str, Any],
    shown: Mapping[str, str],
    limits: MachineLimits | None,
) -> None:
    for path, counted in work["modules"].items():
        if part := parts.get(_name(path, shown)):
            part.flop += counted["flop"]
            if (least := _limit_ms(limits, work, counted)) is not None:
                part.limit_ms = (part.limit_ms or 0.0) + least


def _limit_ms(
    limits: MachineLimits | None, work: Mapping[str, Any], part: Mapping[str, Any] | None = None
) -> float | None:
    """The time that the machine needs at least for a model in float32, or for a part of its work; None without its
    limits."""
    if limits is None:
        return None
    whole = work["weight_bytes"] + work["input_bytes"] + work["output_bytes"]
    flop, moved = (part["flop"], part["bytes"]) if part else (work["flop"], whole)
    return limits.least_seconds(flop, moved, "f32", whole=whole)[0] * MS


def _parts(
    times: Mapping[str, Mapping[str | None, float]],
    shown: Mapping[str, str],
    kinds: Mapping[str, str],
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    members: dict[str, set[str | None]] = defaultdict(set)
    for runtime, by_path in times.items():
        for path, ms in by_path.items():
            name = _name(path, shown)
            kind = "" if path is None else kinds.get(path, "")
            part = parts.setdefault(name, Part(name, kind, 0, dict.fromkeys(times, 0.0)))
            part.ms[runtime] += ms
            members[name].add(path)
            part.modules = len(members[name])
    return parts


def _name(path: str | None, shown: Mapping[str, str]) -> str:
    if path is None:
        return NO_MODULE
    return shown.get(path, path) or "(the model itself)"


def _kernels(dispatches: Iterable[Mapping[str, Any]], shown: Mapping[str, str]) -> list[Kernel]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for dispatch in dispatches:
        groups[dispatch["function"]].append(dispatch)
    total = sum(kernel["ms"] for group in groups.values() for kernel in group) or 1.0
    kernels = []
    for function, group in groups.items():
        ms = sum(kernel["ms"] for kernel in group)
        known = [kernel for kernel in group if kernel["busy"] is not None]
        weighed = sum(kernel["ms"] for kernel in known)
        busy = sum(kernel["ms"] * kernel["busy"] for kernel in known) / weighed if weighed else None
        operators = dict.fromkeys(
            base_name(node[1]) for kernel in group for node in kernel["nodes"]
        )
        names = dict.fromkeys(_name(m, shown) for kernel in group for m in shares(kernel["nodes"]))
        tiles = group[0]["tiles"]
        kernels.append(
            Kernel(function, len(group), ms, ms / total, tiles, busy, [*operators], [*names])
        )
    return sorted(kernels, key=lambda kernel: -kernel.ms)


def base_name(operator: str) -> str:
    """`mm` of `aten.mm.default`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


def shares(nodes: Iterable[Node]) -> dict[str | None, float]:
    """The share of a dispatch's time that each module gets.

    If the dispatch computes products, their modules have equal shares. Otherwise it belongs to the module of its
    root, which is the first node.
    """
    nodes = list(nodes)
    products = [node for node in nodes if base_name(node[1]) in PRODUCTS]
    modules = dict.fromkeys(node[2] for node in products or nodes[:1]) or {None: None}
    return dict.fromkeys(modules, 1 / len(modules))


def patterns(paths: Iterable[str], kinds: Mapping[str, str]) -> dict[str, str]:
    """Names under which paths are shown: repeated layers have one, such as `encoder.layers.*.mlp`.

    Two modules are layers of the same kind if they have modules inside them, their names differ only in a number, and
    they and all modules below them have the same classes. `kinds`: the class of each module by path.
    """
    known = sorted({*kinds, *paths})
    alike: dict[tuple, list[str]] = defaultdict(list)
    for path in filter(None, known):
        inside = [other for other in known if other.startswith(f"{path}.")]
        below = tuple((other.removeprefix(path), kinds.get(other)) for other in inside)
        above, _, name = path.rpartition(".")
        if below and re.search(r"\d", name):
            key = (above, re.sub(r"\d+", "*", name), kinds.get(path), below)
            alike[key].append(path)
    repeated = {path: key[1] for key, group in alike.items() if len(group) > 1 for path in group}

    def shown(path: str) -> str:
        parts = path.split(".")
        above = (".".join(parts[: end + 1]) for end in range(len(parts)))
        return ".".join(repeated.get(*pair) for pair in zip(above, parts, strict=True))

    return {path: shown(path) for path in paths}


def doubts(profiles: Profiles) -> list[str]:
    """Sentences about what speaks against the profiles of a cell; none if nothing does."""
    every = {IREE: profiles.iree, **profiles.torch}
    said = [
        text for name, profile in every.items() for text in _of_profile(profiles, name, profile)
    ]
    return said + list(_of_rows(profiles))


def _of_profile(profiles: Profiles, runtime: str, profile: Mapping[str, Any]) -> Iterator[str]:
    name = NAMES.get(runtime, runtime)
    if "control_ms" not in profile:
        yield f"the profile of {name} is of an older version, without a control: make it again (--forcerun)"
        return
    low, high = min(profile["control_ms"]), max(profile["control_ms"])
    if high / low > MOVED:
        yield f"the same calls of {name} took {milliseconds(low)} to {milliseconds(high)} ms while it was profiled"
    if profile["foreign"] > BUSY:
        yield f"other processes used {profile['foreign']:.0%} of the cores while {name} was profiled"
    row_ms = profiles.row_ms(runtime)
    if row_ms and not 1 / AGREES <= profile["call_ms"] / row_ms <= AGREES:
        yield f"{name} took {milliseconds(profile['call_ms'])} ms where it was profiled, and {milliseconds(row_ms)} ms in its row"


def _of_rows(profiles: Profiles) -> Iterator[str]:
    """Yield why the rows do not say how the runtimes compare, if they were timed."""
    own = profiles.values_ms.get(IREE, ())
    for runtime in profiles.torch:
        base = profiles.values_ms.get(runtime, ())
        if not own and not base:
            continue
        known = ratios.paired(base, own) if len(base) == len(own) else None
        if known is None or not known.interval().is_known:
            yield f"the rows of IREE and {runtime} do not say how they compare: {_timed(own)} and {_timed(base)}"


def _timed(values_ms: tuple[float, ...]) -> str:
    return f"{len(values_ms)} generation{'s' * (len(values_ms) != 1)}"
