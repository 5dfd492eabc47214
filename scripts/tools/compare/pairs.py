"""A cell in two runs: whether its rows may be compared, how its outcome has changed, and how its latency has.

A change of a latency is measured in turns in which both rows were timed, or by the ratios of both to an anchor. measure/timing/ratios.py
decides which are real.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.config.cell import PINNED, EntryName
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Decision, Difference, decide
from scripts.measure.verify import verification
from scripts.results import remedied, speedups
from scripts.results.results_file import cell_of
from scripts.results.results_table import PACKAGES
from scripts.results.row import Row
from scripts.supervise import outcome

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """A cell with its row before and its row after; None where there is none."""

    cell: str
    before: Record | None
    after: Record | None

    @property
    def both(self) -> tuple[Record, Record] | None:
        """Both rows; None if one is missing."""
        return (self.before, self.after) if self.before and self.after else None

    @property
    def measured(self) -> tuple[Record, Record] | None:
        """Both rows of a cell if both have a latency."""
        both = self.both
        return both if both and all(row["latency"] for row in both) else None


def of_files(before: Iterable[Record], after: Iterable[Record]) -> list[Pair]:
    """Return the pairs of two sets of rows, in the order of the rows after; rows that are gone come last."""
    was, now = ({str(cell_of(row)): row for row in rows} for rows in (before, after))
    return [Pair(cell, was.get(cell), now.get(cell)) for cell in dict.fromkeys([*now, *was])]


def of_toolchains(records: Iterable[Record], before: str, after: str) -> list[Pair]:
    """Return the pairs of the rows of two toolchains in one run, without baselines, rows that both share, and imported rows.

    Raises ValueError, with the toolchains that there are, if one of the two has no row.
    """
    rows: dict[str, dict[str, Record]] = {}
    for row in records:
        if row["experiment"]["runtime"] == "iree" and not speedups.machine_of(row):
            shared = str(cell_of(row).without("toolchain"))
            rows.setdefault(toolchain_of(row), {})[shared] = row
    for name in (before, after):
        if name not in rows:
            known = ", ".join(sorted(rows)) or "none"
            raise ValueError(
                f"no row has the toolchain {name!r}; the toolchains of the rows are: {known}"
            )
    was, now = rows[before], rows[after]
    return [Pair(cell, was[cell], now[cell]) for cell in now if cell in was]


# What a row was made with, and why two rows must not be compared.


def toolchain_of(record: Record) -> str:
    """Return the name of the toolchain of a record."""
    return record.get("experiment", {}).get("toolchain") or PINNED


def versions_of(record: Record) -> dict[str, str]:
    """Return the versions of a record by package, without builds. That of the frontend has the name of the exporter."""
    exporter = record.get("experiment", {}).get("exporter") or "frontend"
    return {
        exporter if package == "frontend" else PACKAGES.get(package, package): version
        for package, version in record["versions"].items()
        if version and not package.endswith("_build")
    }


OF_CODE = "code of the model"
OF_MODEL = ("bytes of the weights", "weights", OF_CODE)
"""What a change of a model's code changes, which two commits of a project may differ in."""


def options_of(record: Record) -> dict[str, str | None]:
    """Return the options of a compilation that may differ between rows that are compared."""
    experiment = record["experiment"]
    return {
        "opt level": experiment.get("opt_level"),
        "flags": " ".join(experiment.get("flags") or ()) or None,
        "rewrites": ", ".join((record.get("export") or {}).get("rewrites") or ()) or None,
        OF_CODE: (record["reference"].get("digests") or {}).get("code"),
    }


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what differs between two mappings: each name with its value before and after, None for none.

    The version of Python differs only if both have it: older records have none.
    """
    values = ((name, before.get(name), after.get(name)) for name in {**before, **after})
    both = ("python", PACKAGES["python"])
    return [
        (name, was, now)
        for name, was, now in values
        if was != now and (name not in both or (was and now))
    ]


def difference(before: Record, after: Record, but: Collection[str] = ()) -> str:
    """Return what differs between two rows that would have to be the same, or "". `but`: names of what may differ.

    A value that one of the rows does not have (older records lack some) is not compared.
    """
    for name, was, now in changed(_conditions(before), _conditions(after)):
        if was is None or now is None or name in but:
            continue
        parts = changed(was, now) if isinstance(was, Mapping) else [("", was, now)]
        texts = [f"{part} {old} before, {new} after".strip() for part, old, new in parts]
        return f"{name}: {', '.join(texts)}"
    return ""


def _conditions(record: Record) -> dict[str, Any]:
    """What both rows of a pair must share, by its name."""
    experiment, reference = record["experiment"], record["reference"]
    digests, used = reference.get("digests") or {}, remedied.frontend_used(record)
    return {
        "device": " ".join(map(str, speedups.device_of(record)[:2])),
        "threads": record["run"]["threads"],
        "test": experiment.get("test"),
        "optimizer": experiment.get("optimizer") or None,
        "dtype": experiment.get("dtype"),
        "precision": experiment.get("precision"),
        "matmul precision": experiment.get("matmul_precision"),
        "batch size": experiment.get("batch_size"),
        "options of the model": reference.get("resolved") or record["model"].get("options") or {},
        "bytes of the weights": reference.get("weights_bytes"),
        "weights": digests.get("weights"),
        "inputs": digests.get("inputs"),
        OF_CODE: digests.get("code"),
        "remedy": (record.get("remedy") or {}).get("name") or "none",
        # Without its toolchain.
        "program compiled": str(EntryName.read(used).without("toolchain")) if used else None,
    }


# Outcomes.

FIXED, BROKEN = "fixed", "broken"
OTHER_REASON = "other reason"
NEWLY_WRONG, NEWLY_RIGHT = "newly wrong", "newly right"
DEVICE = "device"
GONE, NEW = "gone", "new"
KINDS = {
    BROKEN: "it worked, and fails now",
    NEWLY_WRONG: "its results are wrong now",
    FIXED: "it failed, and works now",
    NEWLY_RIGHT: "its results were wrong, and are right now",
    OTHER_REASON: "it fails at another stage or for another reason",
    DEVICE: "it compiles on both machines, but one of them does not have the device",
    GONE: "there is no such cell any more",
    NEW: "there was no such cell",
}
"""The kinds of changes of an outcome, worst first, with their meaning."""

_OK, _COMPILES, _WRONG, _FAILED = "ok", "compiles, no device", "wrong results", "failed"


@dataclass(frozen=True)
class Ending:
    """What has become of what was requested: a cell that a remedy has compiled did not compile as requested.

    `failure`: of a failed cell, such as `compile: shared-memory-limit`. `detail`: the line of the log that explains it.
    """

    state: str
    failure: str
    is_remedied: bool
    detail: str

    @classmethod
    def of_record(cls, record: Record) -> Ending:
        """The ending of a record."""
        row = Row.of_record(record)
        ended = row.failed or row.ended
        if row.remedy:
            state = _FAILED
        elif row.ended.status == outcome.OK:
            state = _OK
        elif (record.get("verification") or {}).get("code") == verification.FAIL:
            state = _WRONG
        else:
            state = _COMPILES if row.ended.status == outcome.UNAVAILABLE else _FAILED
        failure = f"{ended.stage}: {ended.reason or ended.status}" if state == _FAILED else ""
        return cls(state, failure, bool(row.remedy), ended.detail or row.ended.detail)

    @property
    def words(self) -> str:
        """The outcome, in few words."""
        return f"{self.failure or self.state}{' (compiled by remedy)' if self.is_remedied else ''}"

    def change(self, after: Ending) -> str:
        """The kind of the change to another ending, of KINDS; "" if there is none."""
        was, now = self.state, after.state
        if was == now:
            return "" if self.failure == after.failure else OTHER_REASON
        if now == _WRONG:
            return NEWLY_WRONG
        if was == _WRONG:
            return {_OK: NEWLY_RIGHT, _FAILED: OTHER_REASON}.get(now, DEVICE)
        if _FAILED not in (was, now):
            return DEVICE
        return BROKEN if now == _FAILED else FIXED


@dataclass(frozen=True)
class OutcomeChange:
    """`before` and `after`: the words of both endings. `detail`: of the one that is a failure."""

    cell: str
    kind: str
    before: str
    after: str
    detail: str = ""


def outcome_change(pair: Pair) -> OutcomeChange | None:
    """Return how the outcome of a cell has changed; None if it has not."""
    before, after = (Ending.of_record(row) if row else None for row in (pair.before, pair.after))
    if before is None or after is None:
        words = (ending.words if ending else "" for ending in (before, after))
        return OutcomeChange(pair.cell, NEW if before is None else GONE, *words)
    kind = before.change(after)
    explained = before if kind in (FIXED, NEWLY_RIGHT) else after
    return (
        OutcomeChange(pair.cell, kind, before.words, after.words, explained.detail)
        if kind
        else None
    )


# Latencies.

TURNS, ANCHOR = "in turns", "by anchor"
"""How a change was measured: both rows were timed in the same turns, or each in turns with the anchor of its group."""
LATENCY, COMPILE_TIME = "latency", "compile time"
IS_ANCHOR = "it is the anchor of both runs, with which their other rows are compared"


@dataclass(frozen=True)
class Term:
    """A part of the error of a change. `turns`: the name of what was timed in turns. `logs`: the logarithm of latency
    after / latency before, or the part of it that these turns tell, in each generation. `noise`: that of what was timed
    in them (ratios.noise), if it is known."""

    turns: str
    logs: tuple[float, ...]
    noise: float | None = None


@dataclass(frozen=True)
class Estimate:
    """The change of a cell. `basis`: TURNS or ANCHOR. `before_ms`, `after_ms`: both latencies, or CPU times of iree-compile. `terms`: the sum of
    their means is the logarithm of latency after / latency before."""

    pair: Pair
    basis: str
    before_ms: float
    after_ms: float
    terms: tuple[Term, ...]

    @property
    def difference(self) -> Difference:
        """The logarithm of latency after / latency before."""
        return _sum(self.terms)


def in_turns(
    pair: Pair,
    name: str,
    before: Sequence[float],
    after: Sequence[float],
    noise: float | None = None,
) -> Estimate:
    """Return the change between milliseconds that were measured again, one per turn. `name`: of the turns."""
    before_ms, after_ms = (math.exp(ratios.log_mean(values)) for values in (before, after))
    return Estimate(pair, TURNS, before_ms, after_ms, (_term(name, before, after, noise),))


def _term(
    turns: str, before: Sequence[float], after: Sequence[float], noise: float | None = None
) -> Term:
    """The term of two series of latencies, one per generation, that were timed in the same turns."""
    return Term(turns, tuple(math.log(b / a) for a, b in zip(before, after, strict=True)), noise)


def _sum(terms: Sequence[Term]) -> Difference:
    """The sum of independent terms. One measurement, compared with itself, has no error however few generations it
    has."""
    exact = Difference(0.0, 0.0, 1.0)
    return ratios.combined([(1, ratios.of_logs(term.logs, term.noise) or exact) for term in terms])


@dataclass(frozen=True)
class NotCompared:
    """A cell with latencies before and after that are not compared. `is_measurable`: whether they can be if both
    programs are timed in turns."""

    cell: str
    why: str
    is_measurable: bool = False


def latency_change(pair: Pair, again: Estimate | None = None) -> Estimate | NotCompared | None:
    """Return the change of a cell: `again`, if both were timed again, or else that by their rows; None if not both
    rows have a latency. Rows that are not the same measurement are not compared, however they were timed, but for rows of which only the
    model's own code or weights differ: these are compared in turns."""
    if pair.measured is None:
        return None
    if why := difference(*pair.measured, but=OF_MODEL):
        return NotCompared(pair.cell, why)
    if again:
        return again
    before, after = (row["latency"] for row in pair.measured)
    if why := difference(*pair.measured):
        # Its anchor has changed with it, so only turns of both can compare them.
        return NotCompared(pair.cell, why, before["anchor_ms"] != before["values_ms"])
    shared = before["group"] == after["group"]
    if not shared:
        was, now = (latency["anchor"] or "none" for latency in (before, after))
        if was != now or was == "none":
            return NotCompared(pair.cell, f"anchor: {was} before, {now} after", True)
        if before["anchor_ms"] == before["values_ms"]:
            return NotCompared(pair.cell, IS_ANCHOR)
    counts = [latency["generations"] for latency in (before, after)]
    is_same = shared and before["values_ms"] == after["values_ms"]
    if min(counts) < ratios.LEAST and not is_same:
        why = f"{counts[0]} generations before, {counts[1]} after; an interval needs {ratios.LEAST}"
        return NotCompared(pair.cell, why, True)
    noises = [None if is_same else speedups.noise(latency) for latency in (before, after)]
    terms = [_term(before["group"], before["values_ms"], after["values_ms"], noises[0])] if shared else [
        _term(before["group"], before["values_ms"], before["anchor_ms"], noises[0]),
        _term(after["group"], after["anchor_ms"], after["values_ms"], noises[1]),
    ]  # fmt: skip
    return Estimate(pair, TURNS if shared else ANCHOR, before["ms"], after["ms"], tuple(terms))


@dataclass(frozen=True)
class TimeChange(Decision):
    """The decided change of a cell; see Estimate. `what`: LATENCY or COMPILE_TIME."""

    what: str
    cell: str
    basis: str
    before_ms: float
    after_ms: float


def decided(
    estimates: Sequence[Estimate], rate: float, threshold: float, what: str
) -> list[TimeChange]:
    """Return the change of each cell, decided over all of them together; see `decide`. `what`: LATENCY or COMPILE_TIME."""
    decisions = decide([estimate.difference for estimate in estimates], rate, threshold)
    return [
        TimeChange(**vars(decision), what=what, cell=estimate.pair.cell, basis=estimate.basis, before_ms=estimate.before_ms, after_ms=estimate.after_ms)
        for estimate, decision in zip(estimates, decisions, strict=True)
    ]  # fmt: skip


ALL = "all"
BY = ("path", "target", "suite")
"""What cells are grouped by for means, beside ALL. The target of a baseline is its name."""


@dataclass(frozen=True)
class MeanChange:
    """The geometric mean of latency after / latency before over `cells` cells, with its 99 % interval.

    `by`: ALL or one of BY; `name`: the group. The interval covers the errors of these measurements.
    """

    by: str
    name: str
    cells: int
    ratio: float
    low: float
    high: float


def means(estimates: Sequence[Estimate]) -> list[MeanChange]:
    """Return the mean over all cells, then those of the groups in the order of the cells.

    Cells that were timed in the same turns share errors, at least that of their anchor, so their mean is computed by
    generation, and only the means of different turns are independent.
    """
    groups: dict[tuple[str, str], list[Estimate]] = {}
    for estimate in estimates:
        assert estimate.pair.after is not None
        for group in ((ALL, ""), *_groups_of(estimate.pair.after)):
            groups.setdefault(group, []).append(estimate)
    changes = []
    for (by, name), members in groups.items():
        logs: dict[str, list[tuple[float, ...]]] = {}
        for term in (term for estimate in members for term in estimate.terms):
            logs.setdefault(term.turns, []).append(term.logs)
        sums = ((turns, map(math.fsum, zip(*rows, strict=True))) for turns, rows in logs.items())
        terms = [
            Term(turns, tuple(total / len(members) for total in totals)) for turns, totals in sums
        ]
        at = _sum(terms).interval()
        changes.append(MeanChange(by, name, len(members), at.ratio, at.low, at.high))
    return sorted(changes, key=lambda mean: (ALL, *BY).index(mean.by))


def _groups_of(record: Record) -> list[tuple[str, str]]:
    """The groups in whose means a row is, each as what it is grouped by and its name."""
    experiment = record["experiment"]
    frontend = experiment["frontend"] if experiment["runtime"] == "iree" else None
    path, target = (
        str(EntryName.read(name).without("toolchain"))
        for name in (frontend or "", experiment["target"] or experiment["runtime"])
    )
    names = zip(BY, (path, target, record["model"]["suite"]), strict=True)
    return [(by, name) for by, name in names if name]
