"""turns: members of a group are timed in turns, warm, and for as long as the rule says. The clock is simulated."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.measure.timing import group_timing as timing_group
from scripts.measure.timing import ratios, turns
from scripts.measure.timing.turns import Group, MemberEnded, Rule
from scripts.measure.timing.worker import CHECK, SLICE
from scripts.supervise.members import TWIN, Member, time_in_turns

Call = Callable[[int], float]
"""Seconds of a call of a process, by how many it has made before."""


class Machine:
    """A clock that runs only while a worker computes or the group waits, and the workers' diary. `speeds`: of each member;
    of several, each generation has its own. `asked`: the member, the kind and the values of each request."""

    def __init__(self, **speeds: Call | list[Call]) -> None:
        self.now = 0.0
        self.speeds = {
            name: one if isinstance(one, list) else [one] for name, one in speeds.items()
        }
        self.started: dict[str, int] = dict.fromkeys(speeds, 0)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.open: list[Worker] = []
        self.load_s = 1.0
        self.compiles: Callable[[str, int], int] = lambda name, call: 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def start(self, name: str) -> Worker:
        speeds = self.speeds[name]
        call = speeds[min(self.started[name], len(speeds) - 1)]
        self.started[name] += 1
        self.open.append(Worker(self, name, call))
        return self.open[-1]

    def slices(self, name: str | None = None, is_timed: bool = True) -> list[dict[str, Any]]:
        """The slices of the turns, or those before them."""
        return [
            values
            for one, kind, values in self.asked
            if kind == SLICE and name in (None, one) and (values["uncounted"] > 0) == is_timed
        ]


class Worker:
    def __init__(self, machine: Machine, name: str, call: Call) -> None:
        self.machine, self.name, self.call, self.made = machine, name, call, 0

    def wait_ready(self) -> None:
        self.machine.now += self.machine.load_s

    def first_call(self) -> dict[str, Any]:
        return self.ask({SLICE: {"calls": 1, "uncounted": 0, "seconds": 0.0}}, turns.HANG_S)

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        machine = self.machine
        assert self in machine.open
        if CHECK in request:
            machine.asked.append((self.name, CHECK, {}))
            return {"peak_rss_mb": 100.0}
        values = request[SLICE]
        machine.asked.append((self.name, SLICE, {**values, "limit_s": limit_s}))
        end = machine.now + values["seconds"]
        each_s, before = [], self.made
        for number in range(values["uncounted"] + values["calls"]):
            spent = self.call(self.made)
            self.made += 1
            machine.now += spent
            if number >= values["uncounted"]:
                each_s.append(spent)
            if machine.now > end and each_s:
                break
        compiled = sum(machine.compiles(self.name, at) for at in range(before, self.made))
        return {"each_s": each_s, "cpu_s": sum(each_s), "compiled": compiled}

    def close(self) -> None:
        if self in self.machine.open:
            self.machine.open.remove(self)

    rest = close


def always(seconds: float) -> Call:
    return lambda _: seconds


@pytest.fixture
def time(monkeypatch):
    """Times members on a machine; returns the group. Nothing is left open."""

    def of(
        machine: Machine,
        rule: Rule | None = None,
        enough: Callable = lambda _: False,
    ) -> Group:
        clock = SimpleNamespace(monotonic=machine.monotonic, sleep=machine.sleep)
        monkeypatch.setattr(turns, "time", clock)
        monkeypatch.setattr(turns, "machine_times", lambda: (2 * machine.now, machine.now / 10))
        rule = rule or Rule(budget_s=8, generations=4)
        said: list[str] = []
        found = Group(list(machine.speeds), machine.start, rule, enough, said.append, seed=1)
        try:
            found.run()
        finally:
            assert machine.open == []
        found.notes = said
        return found

    return of


def ms(found: Group, name: str) -> list[float]:
    return [
        ratios.undisturbed(one.each_s) * 1e3 if one.each_s else 0.0
        for one in found.timed[name].generations
    ]


def test_every_member_has_a_slice_in_every_turn_in_a_random_order(time):
    machine = Machine(a=always(0.001), b=always(0.002), c=always(0.003))
    found = time(machine, Rule(budget_s=2, generations=1))
    order = [name for name, kind, values in machine.asked if kind == SLICE and values["uncounted"]]
    taken = [tuple(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert len(taken) == found.timed["a"].generations[0].turns > 10
    assert all(sorted(turn) == ["a", "b", "c"] for turn in taken)
    assert set(taken) == set(itertools.permutations("abc"))


def test_a_slice_has_as_many_calls_as_fill_it_and_some_before_that_do_not_count(time):
    machine = Machine(quick=always(0.0001), slow=always(0.02), long=always(0.05))
    found = time(machine, Rule(budget_s=8, generations=4, slice_s=0.03))
    assert {(one["calls"], one["uncounted"]) for one in machine.slices("quick")} == {(300, 30)}
    assert {(one["calls"], one["uncounted"]) for one in machine.slices("slow")} == {(2, 1)}
    assert machine.slices("long") == [], "a call that is longer than a slice needs none before it"
    for name, calls in (("quick", 300), ("slow", 2), ("long", 1)):
        for one in found.timed[name].generations:
            assert len(one.each_s) == calls * one.turns
    assert ms(found, "quick") == pytest.approx([0.1] * 4)


def test_quick_members_have_longer_slices_beside_one_whose_turn_is_long(time):
    machine = Machine(quick=always(0.001), slow=always(2.0))
    time(machine, Rule(budget_s=40, generations=4))
    assert {one["calls"] for one in machine.slices("quick")} == {500}


def test_a_member_whose_calls_become_quicker_gets_more_of_them(time):
    machine = Machine(a=lambda call: 0.01 if call < 30 else 0.001, b=always(0.01))
    found = time(machine, Rule(budget_s=2, generations=1))
    planned = [one["calls"] for one in machine.slices("a")]
    assert (planned[0], planned[-1]) == (3, 30)
    assert ms(found, "a") == pytest.approx([1.0])


def test_slow_first_calls_are_the_warm_up_however_many(time):
    """As a kernel that is built in the background, or a runtime that prepares in its first calls. Calls are 1,000 times
    slower for up to half of the turns."""
    for first in (1, 7, 50, 200):
        machine = Machine(late=lambda call, n=first: 0.1 if call < n else 0.0001, b=always(0.002))
        found = time(machine, Rule(budget_s=120, generations=3))
        assert ms(found, "late") == pytest.approx([0.1] * 3), first
        for one in found.timed["late"].generations:
            assert max(one.each_s) == 0.0001, "no call of before counts"
            assert one.warmup >= first
            assert one.turns > 5


@pytest.mark.parametrize("first", [1, 3, 4, 5])
@pytest.mark.parametrize("slow_s", [0.02, 0.2])
def test_they_are_also_where_the_budget_has_one_turn(time, first, slow_s):
    machine = Machine(late=lambda call: slow_s if call < first else 0.0001, b=always(0.002))
    found = time(machine, Rule(budget_s=0.3, generations=3))
    assert ms(found, "late") == pytest.approx([0.1] * len(found.timed["b"].generations))
    assert max(spent for one in found.timed["late"].generations for spent in one.each_s) == 0.0001


def test_one_that_was_not_warm_becomes_warm_before_it_is_timed_again(time):
    machine = Machine(a=lambda call: max(0.0001, 0.1 * 0.5 ** max(0, call - 5)), b=always(0.002))
    found = time(machine, Rule(budget_s=0.3, generations=1))
    assert ms(found, "a") == pytest.approx([0.1])


def test_turns_of_before_a_member_became_quick_do_not_count(time):
    machine = Machine(a=lambda call: 0.01 if call < 40 else 0.005, b=always(0.01))
    found = time(machine, Rule(budget_s=2, generations=1))
    [one] = found.timed["a"].generations
    assert set(one.each_s) == {0.005}
    assert one.warmup > 30
    assert one.turns < found.timed["b"].generations[0].turns


def test_what_differs_by_noise_alone_keeps_its_turns(time):
    draw = random.Random(2)
    machine = Machine(a=lambda _: 0.001 * draw.uniform(1.0, 1.1), b=always(0.001))
    found = time(machine, Rule(budget_s=2, generations=1))
    [a], [b] = (found.timed[name].generations for name in "ab")
    assert a.turns == b.turns
    assert a.warmup < 200


def test_members_are_started_in_random_order_in_each_generation(time):
    machine = Machine(a=always(0.01), b=always(0.01), c=always(0.01))
    order: list[str] = []
    start = machine.start
    machine.start = lambda name: order.append(name) or start(name)
    time(machine, Rule(budget_s=2, generations=8))
    generations = [order[at : at + 3] for at in range(0, len(order), 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in generations)
    assert len({names[-1] for names in generations}) == 3


def test_a_member_that_never_becomes_steady_leaves_with_an_error(time):
    machine = Machine(never=lambda call: max(2.0 * 0.94**call, 1e-6), b=always(0.001))
    found = time(machine)
    ended = found.timed["never"].ended
    assert (ended.status, ended.reason) == ("error", turns.NOT_STEADY)
    assert "still became faster" in ended.detail
    assert machine.started == {"never": 1, "b": 4}


def test_slices_that_are_faster_as_the_machine_gets_idle_do_not_end_a_member(time):
    """Slices of a second beside a slow member: in the ten seconds of a warm-up there are too few to know."""
    machine = Machine(a=lambda _: 0.08 * 0.92 ** min(max(machine.now - 20, 0), 20), b=always(4.0))
    found = time(machine, Rule(budget_s=200, generations=4))
    assert found.timed["a"].ended is None
    assert any(len(one.each_s) for one in found.timed["a"].generations)


@pytest.mark.parametrize(("seconds", "calls"), [(0.1, 5), (0.4, 3), (5.0, 2), (30.0, 1)])
def test_a_warm_up_of_long_calls_has_five_or_takes_a_second(time, seconds, calls):
    machine = Machine(a=always(seconds))
    found = time(machine, Rule(budget_s=20, generations=4))
    assert found.timed["a"].ended is None
    first, *later = (one.warmup for one in found.timed["a"].generations)
    assert first == calls
    assert set(later) <= {1}, "as fast as in the first generation, so it is warm"


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [
        # One slice more if it is slower by up to a half, and all again if it is slower than that.
        ((0.05, 0.06, 0.08), [turns.LEAST_CALLS, 2, turns.LEAST_CALLS, turns.LEAST_CALLS]),
        ((0.1, 0.12), [turns.LEAST_CALLS, 1, 1, 1]),  # calls of several slices
    ],
)
def test_the_warm_up_of_later_generations_is_shorter(time, seconds, calls):
    found = time(Machine(a=[*map(always, seconds)], b=always(0.001)), Rule(generations=4))
    assert [one.warmup for one in found.timed["a"].generations] == calls


def test_after_a_slow_first_call_calls_of_many_seconds_are_timed_at_once(time):
    """As on a Vulkan device on the CPU, which compiles its shaders in the first call."""
    machine = Machine(a=lambda call: 31.0 if call == 0 else 17.0)
    found = time(machine, Rule(budget_s=20, generations=4))
    assert {(one.warmup, one.turns) for one in found.timed["a"].generations} == {(1, 1)}


def test_what_each_generation_starts_is_closed_and_all_meet_the_same_generations(time):
    machine = Machine(a=[always(0.001), always(0.002)], b=always(0.001))
    found = time(machine)
    assert machine.started == {"a": 4, "b": 4}
    assert ms(found, "a") == pytest.approx([1.0, 2.0, 2.0, 2.0]), "one value of each process"
    assert ms(found, "b") == pytest.approx([1.0] * 4)
    assert found.timed["a"].peak_rss_mb == 100.0


@pytest.mark.parametrize("generations", [3, 8])
def test_turns_take_the_budget(time, generations):
    machine = Machine(a=always(0.001), b=always(0.002))
    found = time(machine, Rule(budget_s=6, generations=generations))
    assert len(found.timed["a"].generations) == generations
    assert found.load.wall_s == pytest.approx(6, rel=0.1)
    assert found.load.own_s == pytest.approx(
        sum(sum(one.each_s) for name in "ab" for one in found.timed[name].generations)
    )


@pytest.mark.parametrize(
    ("a_s", "b_s", "count"),
    [(0.5, 0.4, [1, 4, 4, 4, 4, 4]), (1.0, 1.0, [1, 2, 2, 2, 2]), (100.0, 0.001, [1])],
)
def test_slow_members_have_fewer_generations_with_four_turns_each_five_or_one_turn(
    time, a_s, b_s, count
):
    found = time(Machine(a=always(a_s), b=always(b_s)), Rule(budget_s=20, generations=20))
    assert [one.turns for one in found.timed["a"].generations] == count


def test_it_ends_when_there_is_enough(time):
    machine = Machine(a=always(0.001), b=always(0.002))
    asked = []

    def enough(timed):
        asked.append(len(timed["a"].generations))
        return len(timed["a"].generations) == 2

    found = time(machine, enough=enough)
    assert asked == [1, 2]
    assert len(found.timed["b"].generations) == 2


def test_until_decided_takes_up_to_ten_budgets(time):
    machine = Machine(a=always(0.001))
    rule = Rule(budget_s=1, generations=2, until_decided=True)
    assert rule.most_s == 10
    assert len(time(machine, rule).timed["a"].generations) == 20
    found = time(Machine(a=always(0.001)), rule, lambda timed: len(timed["a"].generations) == 5)
    assert len(found.timed["a"].generations) == 5


def test_a_group_is_enough_by_the_ratios_of_its_members(time):
    draw = random.Random(3)
    wide = [always(0.001 * draw.uniform(0.8, 1.25)) for _ in range(30)]
    enough = functools.partial(
        lambda timed, bases: ratios.is_decided(timing_group.latencies(timed), bases), bases=["a"]
    )
    clear = time(Machine(a=always(0.001), b=always(0.002)), Rule(budget_s=8, generations=8), enough)
    assert len(clear.timed["a"].generations) == ratios.LEAST
    open_ = time(Machine(a=always(0.001), b=wide), Rule(budget_s=8, generations=8), enough)
    assert len(open_.timed["a"].generations) == 8


@pytest.mark.parametrize("at", ["start", "ready", "warm", "turn", "check", "later"])
def test_a_member_that_ends_leaves_the_others_going(time, at):
    machine = Machine(bad=always(0.001), b=always(0.002), c=always(0.001))
    start, died = machine.start, MemberEnded("crashed", "SIGSEGV", "Segmentation fault")

    def broken(name: str) -> Worker:
        if name == "bad" and at == "start":
            raise died
        made = start(name)
        if name != "bad":
            return made
        ask = made.ask

        def ends(request, limit_s):
            is_turn = request.get(SLICE, {}).get("uncounted")
            if (at == "turn" and is_turn) or (at == "warm" and SLICE in request):
                raise died
            if (at == "check" and CHECK in request) or (
                at == "later" and machine.started[name] == 3
            ):
                raise died
            return ask(request, limit_s)

        def ready():
            raise died

        made.ask = ends
        if at == "ready":
            made.wait_ready = ready
        return made

    machine.start = broken
    found = time(machine)
    assert found.timed["bad"].ended is died
    assert len(found.timed["bad"].generations) == (2 if at == "later" else 0)
    assert any("bad left the group: crashed (SIGSEGV)" in note for note in found.notes)
    for name in "bc":
        assert found.timed[name].ended is None
        assert len(found.timed[name].generations) == 4
    assert machine.started["bad"] <= (3 if at == "later" else 1)


def test_what_compiles_while_it_is_timed_leaves_and_what_compiles_before_does_not(time):
    machine = Machine(a=always(0.001), b=always(0.001))
    machine.compiles = lambda name, call: int(name == "b" and call < 10)
    found = time(machine)
    assert found.timed["b"].ended is None
    machine = Machine(a=always(0.001), b=always(0.001))
    machine.compiles = lambda name, call: int(name == "b" and call == 300)
    found = time(machine)
    ended = found.timed["b"].ended
    assert (ended.status, ended.reason) == ("error", turns.RECOMPILED)
    assert "compilations while calls were timed: 1" in ended.detail
    assert len(found.timed["a"].generations) == 4


def test_a_stop_ends_all_processes(time):
    machine = Machine(a=always(0.001), b=always(0.001))

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time(machine, enough=stop)
    machine = Machine(a=always(0.001), b=stop)
    with pytest.raises(KeyboardInterrupt):
        time(machine)  # the fixture looks whether a process is open


def test_a_slice_has_a_limit_of_twenty_times_its_plan(time):
    machine = Machine(a=always(0.001), b=always(8.0))
    time(machine, Rule(budget_s=8, generations=4))
    limits = {name: {v["limit_s"] for n, kind, v in machine.asked if kind == SLICE and n == name} for name in "ab"}  # fmt: skip
    assert limits["a"] == {turns.HANG_S}
    assert limits["b"] == {turns.HANG_S, 160.0}


def test_the_load_is_that_of_the_turns(time):
    machine = Machine(a=always(0.001))
    found = time(machine, Rule(budget_s=4, generations=2))
    assert found.load.busy_s == pytest.approx(2 * found.load.wall_s)
    assert found.load.steal_s == pytest.approx(found.load.wall_s / 10)
    assert found.load.own_s < found.load.wall_s, "warm-up and pauses are not the members'"


@pytest.mark.parametrize(("speed", "generations"), [(always(0.002), ratios.LEAST), (None, 20)])
def test_two_programs_of_a_person_take_turns_until_they_are_decided(
    monkeypatch, tmp_path, speed, generations
):
    """A program whose processes differ, as `b` without a speed, is never decided within the budget."""
    processes = [always(0.001 * (1 + number % 2 * 0.3)) for number in range(20)]
    again = f"a{TWIN}"
    machine = Machine(a=always(0.001), b=speed or processes, **{again: always(0.001)})
    clock = SimpleNamespace(monotonic=machine.monotonic, sleep=machine.sleep)
    monkeypatch.setattr(turns, "time", clock)
    monkeypatch.setattr(turns, "machine_times", lambda: (2 * machine.now, machine.now / 10))
    monkeypatch.setattr(
        "scripts.supervise.members.Process", lambda member, *_: machine.start(member.name)
    )
    members = [Member(name, (), tmp_path / name) for name in ("a", "b")]
    timing = time_in_turns(members, Rule(budget_s=20, generations=20))
    assert len(timing.members["b"].values_ms) == generations
    assert timing.parts[0].control == "a"
