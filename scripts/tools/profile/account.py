"""Splits the gap between IREE's latency and that of another runtime into terms that add up to it; and says why profiles may be wrong, or
may not be compared with each other.

The kernels of both sides are matched by the nn.Modules of the captured graph. Every millisecond of a call is in one kernel, between
kernels, or outside of them (rounds.CallTimes), and in one term.
"""

from __future__ import annotations

import operator
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.measure.timing import ratios
from scripts.measure.timing.machine_limits import MachineLimits
from scripts.results.wording import milliseconds
from scripts.tools.profile.profile_files import IREE, Profiles
from scripts.tools.profile.profilers import LAYOUT, PRODUCTS, base_name

MS = 1e3
NO_MODULE = "(no module)"
"""The name of what belongs to no module: kernels that the compiler added, or that could not be mapped."""
AGREES = 1.5
"""How much slower or faster than its row a program may be while it is profiled."""
MOVED = 1.5
"""How much the control of a profile may differ from round to round."""
BUSY = 0.2
"""The share of the cores that other processes may use."""
NAMES = {IREE: "IREE"}
SLOWER, IDLE, LAYOUTS, MORE, BETWEEN, UNMAPPED = TERMS = (
    *("slower code", "idle threads", "layout changes", "more work", "between kernels"),
    "not mapped",
)
"""What a gap consists of. `slower code`: kernels of the same modules take longer. `idle threads`: the part of that in which threads
of IREE had nothing to do. `layout changes`: kernels that only move data. `more work`: kernels for modules for which the other side has none: it has fused
their work, or does not do it. `between kernels`: also before the first and after the last one.
`not mapped`: kernels that belong to no module; if a side has more than SOME of them, also those of modules for which it has none."""
SOME = 0.01
"""The share of a call that may be in kernels without a module, before modules without kernels are not mapped either."""
SHARED = 2
"""In how many times as many kernels as the rarest product of a kernel another one may be, to be computed by it too."""
Node = Sequence
"""A node of the captured graph in a profile: [name, operator, module or None]."""
_LAYOUT_DISPATCH = re.compile(
    r"^_encoding_|dispatch_\d+_(?:transpose|pack|unpack|slow_memcpy|copy)"
)
_NUMBERED = re.compile(r"^.*?(?:dispatch|encoding)_\d+_?")


@dataclass(frozen=True)
class Estimate:
    """Milliseconds per call, with half of the width of their 99 % interval; None if there is only one round."""

    ms: float
    half_ms: float | None


@dataclass(frozen=True)
class Region:
    """Kernels of both sides that compute the same modules, or several such with equal shapes. `name`: of the modules, the first ones if there are many; `shape`: that of
    IREE's product, else operators. `regions`: how many there are. `iree_ms`, `other_ms`: per call. `flop`, `moved`: operations per call of the modules,
    and bytes of what they read and write, each once; `limit_ms`: what the machine needs for them at least, None if it is not known. `terms`: what of the gap is here. `function`: the
    dispatch that takes most of the time, "" if IREE has none. `elsewhere`: IREE's cell of the run in which these modules take least time,
    with that time, if it takes less than here by more than both intervals."""

    name: str
    shape: str
    regions: int
    iree_ms: float
    other_ms: float
    flop: int
    moved: int
    limit_ms: float | None
    terms: Mapping[str, Estimate]
    function: str
    elsewhere: tuple[str, Estimate] | None = None


@dataclass
class Dispatched:
    """A function that dispatches call. `calls`, `ms`: per call of the program; `share`: of the call; `tiles`: workgroups per dispatch;
    `busy`: threads that work on it on average; `modules`: their names. `code`: what read_code says of it, {} if nothing. `limit_ms`: what the machine
    needs at least for the work of its code, per call of the program; None if it is not known."""

    function: str
    calls: int
    ms: float
    share: float
    tiles: int
    busy: float | None
    operators: list[str]
    modules: list[str]
    code: Mapping[str, Any]
    limit_ms: float | None


@dataclass(frozen=True)
class Account:
    """The account of a cell. `path`: its lowering path and target. `against`: the runtime that it is compared with, "" if there is no other profile. `call_ms`: by runtime, that of the
    row, or without one of the calls between the profiled ones; `limit_ms`: of the program. `gap`: of the latencies; its parts are `terms`
    and, finer, the terms of `regions`. `doubts`: what speaks against the profiles. `profiled`: by runtime, what was measured beside the
    profile (rounds.py)."""

    path: str
    against: str
    call_ms: Mapping[str, float]
    limit_ms: float | None
    gap: Estimate | None
    terms: Mapping[str, Estimate]
    regions: list[Region]
    dispatches: list[Dispatched]
    doubts: list[str]
    profiled: Mapping[str, Mapping[str, Any]]


def account(profiles: Profiles, against: str = "") -> Account:
    """The account of a cell beside a runtime, by default the fastest one that was profiled. Raises ValueError if there is no profile of
    `against`.

    All times of a profile are scaled so that its call takes as long as the call of the row, which no profiler slows down (_Side).
    """
    every = {IREE: profiles.iree, **profiles.others}
    call_ms = {
        name: profiles.row_ms(name) or float(profile["call_ms"]) for name, profile in every.items()
    }
    if against and against not in profiles.others:
        there = ", ".join(profiles.others) or "none"
        raise ValueError(f"there is no profile of {against} beside {profiles.cell}; there are: {there}")  # fmt: skip
    other = against or min(profiles.others, key=call_ms.__getitem__, default="")
    iree = _Side(profiles.iree, call_ms[IREE])
    kinds = {path: kind for profile in every.values() for path, kind in profile["kinds"].items()}
    work = next((profile["work"] for profile in every.values() if "work" in profile), None)
    regions: list[Region] = []
    terms: dict[str, Estimate] = {}
    if other:
        sides = (iree, _Side(profiles.others[other], call_ms[other]))
        variants = {name: _Side(profile, row_ms) for name, profile in profiles.variants.items() if (row_ms := profiles.row_ms(name))}  # fmt: skip
        matched = _Matched(sides, kinds, work, profiles.limits, variants)
        regions, terms = matched.regions(), matched.terms()
    shown = patterns({node[2] for kernel in iree.kernels for node in kernel["nodes"] if node[2]}, kinds)  # fmt: skip
    return Account(
        str(profiles.cell).partition("/")[2],
        other,
        call_ms,
        _limit_ms(profiles.limits, work) if work else None,
        _gap(profiles, other, call_ms) if other else None,
        terms,
        regions,
        _dispatched(iree, shown, profiles, work),
        doubts(profiles, other),
        {
            name: {key: profile[key] for key in _BESIDE if key in profile}
            for name, profile in every.items()
            if name in (IREE, other)
        },
    )


_BESIDE = ("control_ms", "foreign", "load")


def _gap(profiles: Profiles, other: str, call_ms: Mapping[str, float]) -> Estimate:
    """By how much IREE is slower, from the rows, whose generations are pairs."""
    own, base = (profiles.values_ms.get(name, ()) for name in (IREE, other))
    paired = [a - b for a, b in zip(own, base, strict=True)] if len(own) == len(base) else []
    return Estimate(call_ms[IREE] - call_ms[other], _half(paired))


def _half(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    error = statistics.stdev(values) / len(values) ** 0.5
    return ratios.quantile(len(values) - 1, ratios.CONFIDENCE) * error


def _estimate(rounds: Sequence[float]) -> Estimate:
    return Estimate(statistics.fmean(rounds), _half(rounds))


class _Side:
    """A profile, with the times of each round scaled to a call of `call_ms`. By how much longer a call takes with the profiler than without is
    taken from the time between kernels, in which profilers record, as far as there is any."""

    def __init__(self, profile: Mapping[str, Any], call_ms: float) -> None:
        self.threads = profile["threads"]
        self.call_ms = call_ms
        rounds = profile["rounds_ms"]
        added = max(0.0, statistics.median(map(operator.sub, rounds, profile["control_ms"])))
        between = [*map(operator.add, profile["between_ms"], profile["outside_ms"])]
        less = [min(added, max(0.0, ms)) for ms in between]
        scales = [call_ms / (ms - own) for ms, own in zip(rounds, less, strict=True)]
        self.between = [(ms - own) * scale for ms, own, scale in zip(between, less, scales, strict=True)]  # fmt: skip

        def scaled(rounds: Sequence[float]) -> list[float]:
            return [ms * scale for ms, scale in zip(rounds, scales, strict=True)]

        kernels = profile.get("dispatches") or profile.get("kernels", ())
        count = Counter(node[0] for kernel in kernels for node in kernel["nodes"] if _is_product_node(node))  # fmt: skip
        self.kernels = [
            {**kernel, "rounds_ms": scaled(kernel["rounds_ms"]), "nodes": _own_nodes(kernel["nodes"], count)}
            for kernel in kernels
        ]  # fmt: skip


def _own_nodes(nodes: Sequence[Node], count: Mapping[str, int]) -> list[Node]:
    """The nodes of a kernel without products that it only shares something with. What all layers compute alike, as the mask of their attention, is
    computed at the line of the first layer, so a product of that is a node of many more kernels than the kernel's own one. `count`: how many kernels
    each product is a node of."""
    least = min((count[node[0]] for node in nodes if _is_product_node(node)), default=0)
    return [node for node in nodes if not _is_product_node(node) or count[node[0]] <= SHARED * least]  # fmt: skip


def _is_product_node(node: Node) -> bool:
    return base_name(node[1]) in PRODUCTS


def _is_product(kernel: Mapping[str, Any]) -> bool:
    return any(map(_is_product_node, kernel["nodes"]))


def _is_layout(kernel: Mapping[str, Any]) -> bool:
    return kernel.get("kind") == LAYOUT or bool(_LAYOUT_DISPATCH.search(kernel["function"]))


Rounds = list[float]
_Sums = dict[tuple[str | None, str], Rounds]
"""Milliseconds of each round, by (region, kind of its kernels)."""
_PRODUCT, _OTHER = "product", "other"


class _Matched:
    """The kernels of two sides, by regions: modules that one kernel of products computes together are one region."""

    def __init__(
        self,
        sides: tuple[_Side, _Side],
        kinds: Mapping[str, str],
        work: Mapping[str, Any] | None,
        limits: MachineLimits | None,
        variants: Mapping[str, _Side],
    ) -> None:
        self._sides, self._work, self._limits, self._variants = sides, work, limits, variants
        self._above: dict[str, str] = {}
        for side in sides:
            for kernel in side.kernels:
                modules = [module for module in shares(kernel["nodes"]) if module is not None]
                for module in modules:
                    self._join(modules[0], module)
        self._shown = patterns(self._above, {**dict.fromkeys(self._above, ""), **kinds})
        self._sums: tuple[_Sums, _Sums] = ({}, {})
        self._idle: _Sums = {}
        self._largest: dict[str | None, Mapping[str, Any]] = {}
        for sums, side in zip(self._sums, sides, strict=True):
            for kernel in side.kernels:
                self._add(sums, kernel, side)
        self._entries = list(self._split())

    def _region(self, module: str | None) -> str | None:
        while module is not None and self._above.setdefault(module, module) != module:
            module = self._above[module]
        return module

    def _join(self, first: str, second: str) -> None:
        one, other = self._region(first), self._region(second)
        assert one is not None
        assert other is not None
        self._above[other] = one

    def _add(self, sums: _Sums, kernel: Mapping[str, Any], side: _Side) -> None:
        region = self._region(next(iter(shares(kernel["nodes"]))))
        kind = LAYOUT if _is_layout(kernel) else _PRODUCT if _is_product(kernel) else _OTHER
        rounds = kernel["rounds_ms"]
        _plus(sums, (region, kind), rounds)
        if sums is not self._sums[0] or kind == LAYOUT:
            return
        busy = kernel.get("busy")
        idle = max(0.0, 1 - busy / side.threads) if busy is not None else 0.0
        _plus(self._idle, (region, kind), [ms * idle for ms in rounds])
        if (known := self._largest.get(region)) is None or sum(rounds) > sum(known["rounds_ms"]):
            self._largest[region] = kernel

    def _split(self) -> Iterator[tuple[str | None, str, Rounds]]:
        """Yield (region, term, milliseconds of each round); they add up to the gap in each."""
        own, other = self._sums
        count = len(self._sides[0].between)
        zero = [0.0] * count
        lost = [self._unmapped_ms(sums) > SOME * side.call_ms for sums, side in zip(self._sums, self._sides, strict=True)]  # fmt: skip
        for region, kind in dict.fromkeys((*own, *other)):
            mine, theirs = own.get((region, kind), zero), other.get((region, kind), zero)
            more = [a - b for a, b in zip(mine, _fitted(theirs, count), strict=True)]
            if kind == LAYOUT:
                yield region, LAYOUTS, more
            elif region is None or (not any(theirs) and lost[1]) or (not any(mine) and lost[0]):
                yield region, UNMAPPED, more
            elif not any(theirs) or not any(mine):
                yield region, MORE, more
            else:
                idle = self._idle.get((region, kind), zero)
                waiting = [min(a, max(b, 0.0)) for a, b in zip(idle, more, strict=True)]
                yield region, IDLE, waiting
                yield region, SLOWER, [a - b for a, b in zip(more, waiting, strict=True)]

    def _unmapped_ms(self, sums: _Sums) -> float:
        """Milliseconds of kernels that compute something and belong to no module."""
        return sum(statistics.fmean(sums.get((None, kind), [0.0])) for kind in (_PRODUCT, _OTHER))

    def terms(self) -> dict[str, Estimate]:
        """The parts of the gap, the largest first."""
        sums: dict[str, Rounds] = {}
        for _, term, rounds in self._entries:
            _plus(sums, term, rounds)
        count = len(self._sides[0].between)
        other = _fitted(self._sides[1].between, count)
        _plus(sums, BETWEEN, [a - b for a, b in zip(self._sides[0].between, other, strict=True)])
        known = {term: _estimate(rounds) for term, rounds in sums.items()}
        return dict(sorted(known.items(), key=lambda item: -item[1].ms))

    def regions(self) -> list[Region]:
        """The regions, those with products of equal shapes and those with equal modules and shapes together; the one in which IREE loses most first."""
        groups: dict[tuple[str, str], list[str | None]] = defaultdict(list)
        for region in dict.fromkeys(region for sums in self._sums for region, _ in sums):
            kernel = self._largest.get(region)
            name = "" if kernel and _is_product(kernel) else self._name(region)
            groups[name, self._shape(region)].append(region)
        rows = [self._row(shape, members) for (_, shape), members in groups.items()]
        return sorted(rows, key=lambda row: row.other_ms - row.iree_ms)

    def _name(self, region: str | None) -> str:
        return shown_name(region, self._shown)

    def _shape(self, region: str | None) -> str:
        """What tells regions of one name apart: the dispatch of IREE without its number, else the operators of the other side."""
        if kernel := self._largest.get(region):
            return _NUMBERED.sub("", kernel["function"]) or kernel["function"]
        kernels = (
            k for k in self._sides[1].kernels if self._region(next(iter(shares(k["nodes"])))) == region
        )  # fmt: skip
        return some([*dict.fromkeys(base_name(n[1]) for k in kernels for n in k["nodes"])])

    def _row(self, shape: str, members: Sequence[str | None]) -> Region:
        inside = set(members)
        own, other = (
            sum(statistics.fmean(rounds) for (region, _), rounds in sums.items() if region in inside)
            for sums in self._sums
        )  # fmt: skip
        terms: dict[str, Rounds] = {}
        for region, term, rounds in self._entries:
            if region in inside:
                _plus(terms, term, rounds)
        flop, moved, limit = 0, 0, None
        for path, counted in (self._work["modules"] if self._work else {}).items():
            if path in self._above and self._region(path) in inside:
                flop, moved = flop + counted["flop"], moved + counted["bytes"]
                if (least := _limit_ms(self._limits, self._work or {}, counted)) is not None:
                    limit = (limit or 0.0) + least
        kernels = [self._largest[region] for region in members if region in self._largest]
        largest = max(kernels, key=lambda kernel: sum(kernel["rounds_ms"]), default=None)
        return Region(
            some([*dict.fromkeys(map(self._name, members))]),
            shape,
            len(members),
            own,
            other,
            flop,
            moved,
            limit,
            {term: _estimate(rounds) for term, rounds in terms.items()},
            largest["function"] if largest else "",
            self._elsewhere(inside, _sum_of_rounds(self._sums[0], inside)),
        )

    def _elsewhere(
        self, inside: Collection[str | None], own: Rounds
    ) -> tuple[str, Estimate] | None:
        """The variant in which the modules of some regions take least time, if that is less than `own`, milliseconds of each round, by more than both intervals."""
        if inside == {None} or len(own) < 2:
            return None
        modules = {module for module in self._above if self._region(module) in inside}
        here = _estimate(own)
        best: tuple[str, Estimate] | None = None
        for name, side in self._variants.items():
            sums: dict[None, Rounds] = {}
            for kernel in side.kernels:
                if next(iter(shares(kernel["nodes"]))) in modules:
                    _plus(sums, None, kernel["rounds_ms"])
            there = _estimate(sums[None]) if sums else None
            if there and there.ms + (there.half_ms or 0.0) < (best[1].ms if best else here.ms - (here.half_ms or 0.0)):  # fmt: skip
                best = name, there
        return best


def _sum_of_rounds(sums: _Sums, inside: Collection[str | None]) -> Rounds:
    """Milliseconds of each round in some regions; [] if there are none."""
    total: dict[None, Rounds] = {}
    for (region, _), rounds in sums.items():
        if region in inside:
            _plus(total, None, rounds)
    return total.get(None, [])


def _plus(sums: dict[Any, Rounds], key: Any, rounds: Sequence[float]) -> None:
    known = sums.get(key)
    sums[key] = [a + b for a, b in zip(known, rounds, strict=True)] if known else list(rounds)


def _fitted(rounds: Sequence[float], count: int) -> Rounds:
    """As many rounds as the other side has: the profiles may be of different versions."""
    return [rounds[number % len(rounds)] for number in range(count)]


def _limit_ms(
    limits: MachineLimits | None, work: Mapping[str, Any], part: Mapping[str, Any] | None = None
) -> float | None:
    """The time that the machine needs at least for a model in float32, or for a part of its work; None without its
    limits."""
    if limits is None:
        return None
    whole = sum(work.get(f"{name}_bytes", 0) for name in ("weight", "input", "output")) or None
    flop, moved = (part["flop"], part["bytes"]) if part else (work["flop"], whole or 0)
    return limits.least_seconds(flop, moved, "f32", whole=whole)[0] * MS


def shown_name(path: str | None, shown: Mapping[str, str]) -> str:
    """The name of a module, by those of `patterns`."""
    if path is None:
        return NO_MODULE
    return shown.get(path, path) or "(the model itself)"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" + {len(names) - most}" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _dispatched(
    iree: _Side, shown: Mapping[str, str], profiles: Profiles, work: Mapping[str, Any] | None
) -> list[Dispatched]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for dispatch in iree.kernels:
        groups[dispatch["function"]].append(dispatch)
    functions = []
    for function, group in groups.items():
        each = [statistics.fmean(dispatch["rounds_ms"]) for dispatch in group]
        known = [
            (ms, d["busy"]) for ms, d in zip(each, group, strict=True) if d["busy"] is not None
        ]
        weighed = sum(ms for ms, _ in known)
        busy = sum(ms * threads for ms, threads in known) / weighed if weighed else None
        operators = dict.fromkeys(base_name(node[1]) for d in group for node in d["nodes"])
        names = dict.fromkeys(shown_name(m, shown) for d in group for m in shares(d["nodes"]))
        share = sum(each) / iree.call_ms
        tiles = group[0]["tiles"]
        code = profiles.code.get(function, {})
        known_work = None not in (code.get("flop"), code.get("bytes"))
        least = _limit_ms(profiles.limits, work or {}, code) if known_work else None
        limit = least * len(group) if least is not None else None
        functions.append(Dispatched(function, len(group), sum(each), share, tiles, busy, [*operators], [*names], code, limit))  # fmt: skip
    return sorted(functions, key=lambda dispatch: -dispatch.ms)


def shares(nodes: Iterable[Node]) -> dict[str | None, float]:
    """The share of a dispatch's time that each module gets.

    If the dispatch computes products, their modules have equal shares. Otherwise it belongs to the module of its
    root, which is the first node.
    """
    nodes = list(nodes)
    products = [node for node in nodes if _is_product_node(node)]
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


def doubts(profiles: Profiles, other: str) -> list[str]:
    """Sentences about what speaks against the profiles of a cell; none if nothing does."""
    every = {IREE: profiles.iree} | ({other: profiles.others[other]} if other else {})
    said = [
        text for name, profile in every.items() for text in _of_profile(profiles, name, profile)
    ]
    return said + list(_of_rows(profiles, other))


def _of_profile(profiles: Profiles, runtime: str, profile: Mapping[str, Any]) -> Iterator[str]:
    name = NAMES.get(runtime, runtime)
    low, high = min(profile["control_ms"]), max(profile["control_ms"])
    if high / low > MOVED:
        yield f"the same calls of {name} took {milliseconds(low)} to {milliseconds(high)} ms while it was profiled"
    if profile["foreign"] > BUSY:
        yield f"other processes used {profile['foreign']:.0%} of the cores while {name} was profiled"
    row_ms = profiles.row_ms(runtime)
    if row_ms and not 1 / AGREES <= profile["call_ms"] / row_ms <= AGREES:
        yield f"{name} took {milliseconds(profile['call_ms'])} ms where it was profiled, and {milliseconds(row_ms)} ms in its row"


def _of_rows(profiles: Profiles, other: str) -> Iterator[str]:
    """Yield why the rows do not say how the runtimes compare, if they were timed."""
    own = profiles.values_ms.get(IREE, ())
    base = profiles.values_ms.get(other, ())
    if not other or not (own or base):
        return
    known = ratios.paired(base, own) if len(base) == len(own) else None
    if known is None or not known.interval().is_known:
        yield f"the rows of IREE and {other} do not say how they compare: {_timed(own)} and {_timed(base)}"


def _timed(values_ms: tuple[float, ...]) -> str:
    return f"{len(values_ms)} generation{'s' * (len(values_ms) != 1)}"
