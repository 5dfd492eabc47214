"""Finds few operators of a model that are slower by a factor through a frontend and IREE than in eager mode.

Every part is timed in turns with eager mode, on the same inputs and threads, while nothing else runs. It counts as slower
only if the lower end of the 95 % interval of the ratio is above the factor, and if it loses a share of the milliseconds that
the model loses: every call of a module takes some microseconds, so an operator that does nothing is slower by a large factor.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from scripts.lib.core import process
from scripts.lib.graph_parts import graph as graphs
from scripts.lib.graph_parts.computed import Compiled, Lowering
from scripts.lib.graph_parts.graph import Part
from scripts.lib.iree import benchmark, gbench
from scripts.lib.modeling.loading import LoadedModel
from scripts.lib.reduction import search
from scripts.lib.timing.arguments import Timing
from scripts.lib.timing.stopping import Schedule, StoppingRule, plan, typical_seconds

PAIRS = 3
"""Turns of each: eager, IREE, eager, IREE, …"""
QUANTILE = 4.303
"""Of the t distribution with PAIRS - 1 degrees of freedom, for a 95 % interval."""
LEAST_SHARE = 0.1
"""A part loses at least this share of the time that the whole model loses to eager mode."""
LAST_S = 120.0
"""Time limit for compiling the part that was found once more, after the deadline."""
RULE = StoppingRule(repeat=3, repetition_s=0.05, warmup_s=0.05, budget_s=2, rounds=1)


class NotSlower(Exception):
    """The model is not slower by the factor. Says how fast it is."""


@dataclass(frozen=True)
class Turns:
    """Milliseconds per call of each turn."""

    eager_ms: Sequence[float]
    iree_ms: Sequence[float]

    @property
    def _logs(self) -> list[float]:
        return [math.log(b / a) for a, b in zip(self.eager_ms, self.iree_ms, strict=True)]

    @property
    def ratio(self) -> float:
        """IREE / eager: the geometric mean over the pairs of turns."""
        return math.exp(statistics.fmean(self._logs))

    @property
    def loss_ms(self) -> float:
        """How much longer a call takes through IREE, by the medians of the turns."""
        return statistics.median(self.iree_ms) - statistics.median(self.eager_ms)

    @property
    def low(self) -> float:
        """The lower end of its 95 % interval."""
        error = statistics.stdev(self._logs) / math.sqrt(len(self._logs))
        return math.exp(statistics.fmean(self._logs) - QUANTILE * error)


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
    """The times of a part in eager mode and through IREE; None if its module does not run."""
    if compiled.module is None:
        return None
    inputs = benchmark.write_inputs(lowering.folder / "inputs", compiled.inputs, compiled.types)
    eager_ms, iree_ms = [], []
    with torch.no_grad():
        part.module(*part.inputs)
        seconds = typical_seconds(lambda: part.module(*part.inputs), RULE)
        for _ in range(PAIRS):
            eager_ms.append(_eager(lambda: part.module(*part.inputs), plan(RULE, seconds)))
            timed = _iree(compiled, inputs, lowering, plan(RULE, seconds))
            if timed is None:
                return None
            iree_ms.append(timed)
    return Turns(eager_ms, iree_ms)


def _eager(call: Callable[[], object], chosen: Schedule) -> float:
    """Milliseconds per call, the median of the repetitions, after a call that does not count."""
    call()
    found = []
    for _ in range(chosen.repetitions):
        start = time.perf_counter()
        for _ in range(chosen.iterations):
            call()
        found.append((time.perf_counter() - start) * 1e3 / chosen.iterations)
    return statistics.median(found)


def _iree(
    compiled: Compiled, inputs: Sequence[str], lowering: Lowering, chosen: Schedule
) -> float | None:
    """The same of a module, by iree-benchmark-module; None if the tool fails."""
    assert compiled.module is not None
    report = lowering.folder / "benchmark.json"
    command = benchmark.command_line(
        compiled.module, inputs, Timing(RULE, lowering.threads), chosen
    )
    done = process.run_tool([*command, f"--benchmark_out={report}", "--benchmark_out_format=json"])
    return gbench.read_latency(report).median if done.returncode == 0 else None
