"""tools/variants/tune_iree.py: modules that are timed in turns, while slow ones leave."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest

from scripts.measure.timing import turns
from scripts.measure.timing.turns import MemberEnded
from scripts.measure.timing.worker import SLICE
from scripts.supervise import members
from scripts.tools.variants import tune_iree
from scripts.tools.variants.tune_iree import Race

NOISE = random.Random(0)


class Worker:
    """A process whose calls take about `ms`. `fails`: it ends when it is timed."""

    def __init__(self, ms: float, fails: bool = False) -> None:
        self._ms, self._fails = ms * NOISE.uniform(1, 1.01), fails

    def wait_ready(self) -> None: ...

    def first_call(self):
        return self.ask({}, 1.0)

    def ask(self, request, limit_s):
        if self._fails:
            raise MemberEnded("crashed", "SIGABRT", "it is gone")
        calls = request.get(SLICE, {"calls": 1})["calls"]
        return {"each_s": [self._ms / 1e3] * calls, "cpu_s": 0.0, "compiled": 0, "peak_rss_mb": 1.0}

    def close(self) -> None: ...

    def rest(self) -> None: ...


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(
        tune_iree, "RULE", tune_iree.dataclasses.replace(tune_iree.RULE, budget_s=1e-6)
    )
    monkeypatch.setattr(turns, "PAUSE_S", 0.0)


def parts(names: Iterable[str], anchor: str) -> list[list[str]]:
    return members.parts(dict.fromkeys(names, 1.0), anchor, 1e6, tune_iree.AT_ONCE)


def raced(
    ms: dict[str, float], configured=("a",), keep=1 / 3, left_s=math.inf, failing=lambda _: False
) -> Race:
    found = Race(keep, lambda _: None)
    start = lambda name: Worker(ms[name], failing(name))  # noqa: E731
    found.run(list(ms), configured, start, parts, lambda: left_s)
    return found


def test_slow_modules_leave_and_the_fastest_one_wins():
    of = raced({"a": 5.0} | {f"m{at}": 3 + at / 10 for at in range(30)})
    best = sorted(of.ms, key=of.rank)
    assert best[0] == "m0"
    generations = {name: len({number for number, _ in ms}) for name, ms in of.ms.items()}
    assert list(generations.values()).count(1) == 19, "a third of 31 stays, and the anchor"
    assert (of.anchor, generations["m29"]) == ("a", 1)
    assert (
        generations["a"] == generations["m0"] == max(generations.values()) <= tune_iree.GENERATIONS
    )
    timing = of.timing("m0", "a")
    assert timing.speedup_low < timing.speedup < timing.speedup_high
    assert timing.speedup == pytest.approx(5 / 3, rel=0.01)
    other = of.timing("m29", "a")
    assert (other.speedup_low, other.low_ms, other.generations) == (None, None, 1)
    assert other.speedup == pytest.approx(5 / 5.9, rel=0.02)


def test_what_is_configured_stays_until_another_configured_one_is_faster():
    of = raced({"a": 9.0, "b": 5.0, "c": 5.01, "d": 2.0, "e": 2.5}, configured=("a", "b", "c"))
    number = {name: max(ms)[0] for name, ms in of.ms.items()}
    assert number["a"] == number["b"] == number["c"] == number["d"], "a is the anchor"
    assert number["e"] <= number["d"]
    of = raced({"a": 5.0, "b": 9.0, "d": 5.001}, configured=("a", "b"))
    assert max(of.ms["b"])[0] <= max(of.ms["a"])[0]


def test_where_the_anchor_fails_another_one_takes_its_place():
    made: list[str] = []

    def failing(name: str) -> bool:
        made.append(name)
        return name == "a" and made.count("a") == 2

    of = raced({"a": 5.0, "b": 4.0, "c": 3.0}, configured=("a", "b"), failing=failing)
    assert of.ended["a"].reason == "SIGABRT"
    assert (of.anchor, sorted(of.ms, key=of.rank)) == ("b", ["c", "b"])
    assert of.timing("c", "b").speedup_low > 1


def test_without_seconds_only_the_first_part_and_what_is_configured_are_timed():
    ms = {"a": 5.0} | {f"m{at}": 3.0 for at in range(20)} | {"b": 4.0}
    of = raced(ms, configured=("a", "b"), left_s=0.0)
    assert of.ms.keys() == {"a", *(f"m{at}" for at in range(9)), "m18", "m19", "b"}
    assert all(len({number for number, _ in found}) == 1 for found in of.ms.values())


def test_nothing_is_left_where_all_fail():
    of = raced({"a": 1.0, "b": 1.0}, failing=lambda _: True)
    assert (of.ms, set(of.ended)) == ({}, {"a", "b"})
