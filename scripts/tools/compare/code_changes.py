"""What differs in the code of two builds of a program, and how much of a change of its latency each dispatch makes; and the passes of
iree-compile whose time differs.

`snakemake code` writes the code of each dispatch as digests, `snakemake profile` its time, and `snakemake compile_time` the time of
passes.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import Kind
from scripts.config.stages import STATUS
from scripts.core import atomic, checkout
from scripts.measure.timing import ratios
from scripts.results.results_file import cell_of
from scripts.supervise import outcome
from scripts.tools.compare.pairs import Estimate, Pair, Record, difference, latency_change
from scripts.tools.compare.store import ALL_PASSES, compile_profile, seconds_by_pass
from scripts.tools.profile import profile_files
from scripts.tools.profile.compile_page import REST

SAME, CHANGED, NEW, GONE = "same code", "changed", "new", "gone"
REARRANGED = "other registers or order"


@dataclass(frozen=True)
class DispatchChange:
    """A dispatch (or another function of a program) before and after. `kind`: SAME, CHANGED, NEW, GONE, or REARRANGED: the same
    instructions with other registers, places on the stack, or in another order.

    `instructions`, `ms`: before and after; None on the side that lacks it, and `ms` where there is no profile. `tiling`: what of its
    pipeline and tile sizes only one side has. `modules`: the nn.Modules that it computes.
    """

    kind: str
    name: str
    instructions: tuple[int | None, int | None]
    tiling: tuple[str, str] = ("", "")
    ms: tuple[float | None, float | None] = (None, None)
    modules: tuple[str, ...] = ()

    @property
    def difference_ms(self) -> float | None:
        """How much longer it takes after; None if it is not known."""
        before, after = self.ms
        is_known = before is not None or after is not None
        return (after or 0.0) - (before or 0.0) if is_known else None


@dataclass(frozen=True)
class Replay:
    """How much a dispatch of the build after changes the latency in the recorded run of the build before, as a share with its
    interval. `why`: why that is not known; "" if it is."""

    name: str
    share: float = 0.0
    low: float = 0.0
    high: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class CodeChange:
    """What differs in the code of a cell. `host`: whether its host program does. `functions`: how many there are on both sides
    together. `changed`: those that differ, those first that change the latency most. `rest_ms`: what the others take longer after,
    and `before_ms` the latency before; None if it is not known. `unknown`: why its code was not compared; "" if it is. `replays`: what dispatches
    change alone (remeasuring.py)."""

    cell: str
    host: bool = False
    functions: int = 0
    changed: tuple[DispatchChange, ...] = ()
    rest_ms: float | None = None
    before_ms: float | None = None
    unknown: str = ""
    replays: tuple[Replay, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether both builds have the same code."""
        return not (self.unknown or self.host or self.changed)

    @property
    def is_rearranged(self) -> bool:
        """Whether all that differs is the choice of registers, places on the stack and the order of instructions."""
        kinds = {change.kind for change in self.changed}
        return not (self.unknown or self.host) and kinds == {REARRANGED}

    def share(self, difference_ms: float | None) -> float | None:
        """A difference as a share of the latency before; None if one of them is not known."""
        if difference_ms is None or not self.before_ms:
            return None
        return difference_ms / self.before_ms


def has_code(pair: Pair) -> bool:
    """Whether both sides have a row that IREE compiles a program for."""
    return pair.both is not None and pair.both[0]["experiment"]["runtime"] == "iree"


def code_change(
    pair: Pair, folders: tuple[Path, Path], in_turns: Estimate | None = None
) -> CodeChange:
    """What differs in the code of a cell. `folders`: those in which the runs before and after were started. `in_turns`: the change of its
    latency, if it was timed again; otherwise that by its rows, if they can be compared."""
    assert pair.both is not None
    estimate = in_turns or latency_change(pair)
    ms: tuple[float | None, float | None] = (None, None)
    if isinstance(estimate, Estimate) and _is_telling(estimate):
        ms = estimate.before_ms, estimate.before_ms * math.exp(estimate.difference.value)
    sides = list(zip(pair.both, folders, strict=True))
    try:
        before, after = (_code(row, folder) for row, folder in sides)
    except LookupError as error:
        return CodeChange(pair.cell, unknown=str(error.args[0]))
    times = [_times(row, folder, known) for (row, folder), known in zip(sides, ms, strict=True)]
    functions = list(_matched(before["functions"], after["functions"], times))
    changed = [function for function in functions if function.kind != SAME]
    rest = [f.difference_ms for f in functions if f.kind == SAME and f.difference_ms is not None]
    return CodeChange(
        pair.cell,
        before["host"] != after["host"],
        len(functions),
        tuple(sorted(changed, key=lambda function: -abs(function.difference_ms or 0.0))),
        sum(rest) if rest else None,
        ms[0],
    )


def _is_telling(estimate: Estimate) -> bool:
    """Whether a change of a latency is known so well that it can be divided among dispatches."""
    ratio = estimate.difference.interval()
    return ratio.low > 1 or ratio.high < 1 or ratio.half_width <= math.log(ratios.SAME)


def _file(row: Record, folder: Path, stage: str, name: str) -> Path:
    return folder / stages.STAGES[stage].path(cell_of(row).to(Kind.IREE_DUMP), name)


def _code(row: Record, folder: Path) -> dict[str, Any]:
    """What `snakemake code` wrote for a row. Raises LookupError with what is missing."""
    path = _file(row, folder, "read_code", "code.json")
    place = path.parent.relative_to(folder)
    if path.is_file() and path.stat().st_size:
        return atomic.read_json(path)
    status = path.with_name(STATUS)
    if not status.is_file():
        raise LookupError(
            f"there is no {place / path.name} in {folder}; make it: {checkout.run_command('code')}, with the --config of the run"
        )
    ended = outcome.read_or_damaged(status)
    raise LookupError(f"{place} ended with {ended.status} ({ended.reason}): {ended.detail}")


@dataclass(frozen=True)
class _Time:
    """The milliseconds of a function in a call of the program, if they are known, and the nn.Modules that it computes."""

    ms: float | None = None
    modules: tuple[str, ...] = ()


def _times(row: Record, folder: Path, latency: float | None) -> Mapping[str, _Time]:
    """The functions of a profile by name; {} if there is none.

    All dispatches of a profile ran in the same seconds, but those of two profiles did not. So a dispatch has its share of its profile,
    of a latency that can be compared with that of the other side.
    """
    cell = cell_of(row)
    profile = profile_files.members_beside(folder, cell).get(str(cell), {}).get("profile")
    if not profile:
        return {}
    dispatches = profile["dispatches"]
    whole = sum(dispatch["ms"] for dispatch in dispatches)
    by_function: dict[str, _Time] = {}
    for dispatch in dispatches:
        before = by_function.get(dispatch["function"], _Time())
        ms = latency and (before.ms or 0.0) + dispatch["ms"] / whole * latency
        modules = (*before.modules, *(module for _, _, module in dispatch["nodes"] if module))
        by_function[dispatch["function"]] = _Time(ms, tuple(dict.fromkeys(modules)))
    return by_function


_PLACE = re.compile(r"^(?P<program>.*?)_?(?P<kind>dispatch|encoding|initializer)_\d+_?")


def _matched(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    times: Sequence[Mapping[str, _Time]],
) -> Iterator[DispatchChange]:
    """The functions of both sides, those in the same place that compute the same as one."""
    # What a function computes, without its number: `conv_3x3_f32` of `main$async_dispatch_12_conv_3x3_f32`.
    was_keys, now_keys = (
        [_PLACE.sub(r"\g<kind> ", f["name"]) for f in side] for side in (before, after)
    )
    matcher = difflib.SequenceMatcher(None, was_keys, now_keys, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for was, now in zip(before[i:i_end], after[j:j_end], strict=True):
                yield _change(was, now, times)
        else:
            yield from (_change(was, None, times) for was in before[i:i_end])
            yield from (_change(None, now, times) for now in after[j:j_end])


def _change(
    was: Mapping[str, Any] | None,
    now: Mapping[str, Any] | None,
    times: Sequence[Mapping[str, _Time]],
) -> DispatchChange:
    before, after = (
        of.get(f["name"], _Time()) if f else _Time()
        for f, of in zip((was, now), times, strict=True)
    )
    instructions = (was["instructions"] if was else None, now["instructions"] if now else None)
    ms, modules = (before.ms, after.ms), after.modules or before.modules
    if was is None or now is None:
        [side] = filter(None, (was, now))
        kind = GONE if was else NEW
        return DispatchChange(kind, side["name"], instructions, ms=ms, modules=modules)
    kind = SAME if was["digest"] == now["digest"] else CHANGED
    if kind == CHANGED and was.get("unordered") and was["unordered"] == now.get("unordered"):
        kind = REARRANGED
    tiling = (_only(was, now), _only(now, was))
    return DispatchChange(kind, now["name"], instructions, tiling, ms, modules)


def _only(function: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What of the pipeline and tile sizes of a function another one lacks."""
    return "; ".join(text for text in function["tiling"] if text not in other["tiling"])


LEAST_PASS_SHARE = 0.05
"""A pass is listed if its seconds differ by this share of the compiler's seconds before."""


@dataclass(frozen=True)
class PassChange:
    """The seconds of a pass before and after, and of what share of the compiler's seconds before the difference is. `name`: ALL
    for the compiler itself."""

    cell: str
    name: str
    before_s: float
    after_s: float
    share: float


def pass_changes_of_pair(pair: Pair, folders: tuple[Path, Path]) -> list[PassChange]:
    """The compiler's seconds on one thread, and the passes in which they differ, the largest difference first; [] if one of the
    runs has no times, or has another measurement. `folders`: those in which the runs before and after were started."""
    if not pair.both or not has_code(pair) or difference(*pair.both):
        return []
    files = [
        compile_profile(folder, cell_of(row))
        for row, folder in zip(pair.both, folders, strict=True)
    ]
    seconds = [seconds_by_pass(file) for file in files if file]
    return pass_changes_between(pair.cell, *seconds) if len(seconds) == 2 and all(seconds) else []


def pass_changes_between(
    cell: str, before: Mapping[str, float], after: Mapping[str, float]
) -> list[PassChange]:
    """The same of two compilations of a cell, by their seconds."""
    before, after = _with_rest(before), _with_rest(after)
    changes = [
        PassChange(cell, name, was, now, (now - was) / before[ALL_PASSES])
        for name in {**before, **after}
        for was, now in [(before.get(name, 0.0), after.get(name, 0.0))]
    ]
    whole, *parts = changes
    large = (change for change in parts if abs(change.share) >= LEAST_PASS_SHARE)
    return [whole, *sorted(large, key=lambda change: -abs(change.share))]


def _with_rest(seconds: Mapping[str, float]) -> dict[str, float]:
    named = sum(seconds.values()) - seconds[ALL_PASSES]
    return {**seconds, REST: seconds[ALL_PASSES] - named}
