"""Finds few operators of a model that are slower by a factor through a frontend and IREE than in eager mode.

Every part is timed in turns with eager mode, on the same inputs and threads, while nothing else runs. It counts as slower
only if the lower end of the interval of the ratio is above the factor, and if it loses a share of the milliseconds that
the model loses: every call of a module takes some microseconds, so an operator that does nothing is slower by a large factor.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from scripts.lib.core import process
from scripts.lib.graph_parts import graph as graphs
from scripts.lib.graph_parts.computed import Compiled, Lowering
from scripts.lib.graph_parts.graph import Part
from scripts.lib.iree import benchmark
from scripts.lib.modeling.loading import LoadedModel
from scripts.lib.reduction import search
from scripts.lib.supervision.members import Member, Process
from scripts.lib.timing import ratios
from scripts.lib.timing.group import latencies
from scripts.lib.timing.turns import Group, Rule, Timed, Worker
from scripts.lib.timing.worker import SLICE, time_slice

QUANTILES = {2: 4.303, 3: 3.182}
"""Of Student's t distribution, for a 95 % interval, by degrees of freedom. The environments of frontends have no scipy."""
LEAST_SHARE = 0.1
"""A part loses at least this share of the time that the whole model loses to eager mode."""
LAST_S = 120.0
"""Time limit for compiling the part that was found once more, after the deadline."""
RULE = Rule(budget_s=1.0, slice_s=0.03, generations=4)
"""How a part is timed."""
LOAD_S = 60.0
"""Seconds in which IREE has to load a part."""


class NotSlower(Exception):
    """The model is not slower by the factor. Says how fast it is."""


@dataclass(frozen=True)
class Turns:
    """Milliseconds per call, one value for each process of IREE (ratios.undisturbed). `eager_ms`: in the same turns."""

    eager_ms: Sequence[float]
    iree_ms: Sequence[float]

    @property
    def interval(self) -> ratios.Interval:
        """IREE / eager, with its interval."""
        found = ratios.paired(self.iree_ms, self.eager_ms)
        assert found is not None
        half = QUANTILES[round(found.df)] * found.scale
        return ratios.Interval(*(math.exp(found.value + off) for off in (0.0, -half, half)))

    @property
    def ratio(self) -> float:
        return self.interval.ratio

    @property
    def low(self) -> float:
        return self.interval.low

    @property
    def loss_ms(self) -> float:
        """How much longer a call takes through IREE, by the medians."""
        return statistics.median(self.iree_ms) - statistics.median(self.eager_ms)


@dataclass(frozen=True)
class Slow:
    """Operators that are slower together, and their program. `whole`: the turns of the whole model; `of`: its operators;
    `tests`: parts that were timed. `complete`: whether the search ended before its deadline."""

    part: Part
    compiled: Compiled
    turns: Turns
    whole: Turns
    of: int
    tests: int
    complete: bool


def find(loaded: LoadedModel, lowering: Lowering, factor: float, deadline: float) -> Slow:
    """Return few operators of a model that are slower than in eager mode by more than `factor`, and that lose at least
    LEAST_SHARE of what the model loses. The files of the program that is returned are in the folder of `lowering`.

    `deadline`: by time.monotonic. Raises NotSlower, and what torch and the exporter raise.
    """
    graph = graphs.of(loaded)
    torch.set_num_threads(lowering.threads)
    found: dict[frozenset[int], tuple[Part, Compiled, Turns]] = {}
    everything = frozenset(range(len(graph.operators)))

    def is_slower(places: frozenset[int]) -> bool:
        part = graphs.only(graph, [graph.operators[place] for place in sorted(places)])
        compiled = lowering.compiled(part, max(1.0, deadline - time.monotonic()))
        turns = in_turns(part, compiled, lowering)
        if turns is not None:
            print(
                f"{len(places)} operators: {turns.ratio:.3g} × eager, {turns.loss_ms:.3g} ms longer",
                flush=True,
            )
            found[places] = part, compiled, turns
        return turns is not None and turns.low > factor and turns.loss_ms >= least_ms()

    def least_ms() -> float:
        return LEAST_SHARE * found[everything][2].loss_ms if everything in found else 0.0

    steps = search.Search(is_slower, deadline)
    kept = search.reduce(everything, (), lambda _: (), steps)
    complete = not steps.is_over
    if kept is None:
        whole = found.get(everything)
        said = f"{whole[2].ratio:.3g} ({whole[2].low:.3g} at least)" if whole else "unknown, it does not run"  # fmt: skip
        raise NotSlower(
            f"not slower than eager mode by {factor:g}: IREE's time / eager's is {said}"
        )
    part, compiled, _ = found[kept]
    # The module's file was replaced by those of later parts.
    compiled = lowering.compiled(part, LAST_S)
    turns = in_turns(part, compiled, lowering)
    if turns is None or turns.low <= factor:
        raise NotSlower("the part that was found is not slower when it is timed again")
    of = len(graph.operators)
    return Slow(part, compiled, turns, found[everything][2], of, steps.tests, complete)


def in_turns(part: Part, compiled: Compiled, lowering: Lowering) -> Turns | None:
    """The times of a part in eager mode and through IREE; None if its module does not run, or its times are not steady."""
    if compiled.module is None:
        return None
    inputs = benchmark.write_inputs(lowering.folder / "inputs", compiled.inputs, compiled.types)
    flags = benchmark.command_line(compiled.module, inputs, lowering.threads)[1:]
    command = (sys.executable, "-m", "scripts.time_module", *flags)
    log = lowering.folder / "iree.txt"

    def start(name: str) -> Worker:
        if name == "eager":
            return _Eager(part)
        member = Member("iree", command, log, forked=False)
        return Process(member, os.getpid(), log, LOAD_S, lambda: None)

    def enough(timed: Mapping[str, Timed]) -> bool:
        every = timed.values()
        return any(of.ended or len(of.generations) == RULE.generations for of in every)

    group = Group(["eager", "iree"], start, RULE, enough)
    with torch.no_grad():
        group.run()
    found = latencies(group.timed)
    counted = ratios.counted(found)
    if len(found) < 2 or len(counted) < ratios.LEAST:
        return None
    return Turns(*([found[name][at] for at in counted] for name in ("eager", "iree")))


class _Eager:
    """A part in eager mode, in this process."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def wait_ready(self) -> None:
        """Make the first call."""
        self._call()

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        if SLICE in request:
            return time_slice(self._call, lambda: None, lambda: None, **request[SLICE])
        return {"peak_rss_mb": process.peak_rss_mb()}

    def close(self) -> None:
        """Does nothing."""

    def _call(self) -> object:
        return self._part.module(*self._part.inputs)
