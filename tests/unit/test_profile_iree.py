"""The times of dispatches, from rows that iree-profile printed for three calls of ViT."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.frontends.lowering.locations import lines_of
from scripts.tools.profile import profile_iree as profile
from scripts.tools.profile.profile_iree import Event

DATA = Path(__file__).parent / "data"
ADD = "main$async_dispatch_1_elementwise_151296_f32"
PRODUCT = "main$async_dispatch_13_matmul_like_197x3072x768_f32"


def rows(kind: str) -> list[dict]:
    lines = (DATA / f"iree-profile-{kind}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return profile.events(rows("executable"), rows("queue"))


def test_dispatches_have_their_names_and_the_order_in_which_they_were_queued(events):
    assert [event.function for event in events] == [ADD, PRODUCT, PRODUCT] * 3
    assert [event.tiles for event in events[:2]] == [37, 624]


def test_a_call_between_two_others_is_split_among_its_dispatches_and_what_is_beside_them(events):
    dispatches, [call] = profile.per_call(events, [], [ADD, PRODUCT, PRODUCT])
    assert [dispatch["function"] for dispatch in dispatches] == [ADD, PRODUCT, PRODUCT]
    assert all(1 <= dispatch["busy"] <= 2 for dispatch in dispatches)
    assert [call.kernels_ms[place] for place in range(3)] == pytest.approx([event.ns / 1e6 for event in events[3:6]])  # fmt: skip
    assert call.ms == pytest.approx(sum(call.kernels_ms.values()) + call.between_ms + call.outside_ms)  # fmt: skip
    ends = [max(event.start_ns + event.ns for event in events[at : at + 3]) for at in (0, 3)]
    assert call.ms == pytest.approx((ends[1] - ends[0]) / 1e6)


def test_a_call_begins_when_its_work_is_queued():
    timeline = [(at, 2_000_000) for at in (1_000_000, 11_000_000, 21_000_000)]
    recorded = [Event("f", start, ns, 4, 3_000_000) for start, ns in timeline]
    queued = [0, 500_000, 9_000_000, 10_500_000, 20_000_000, 20_000_500]
    _, [call] = profile.per_call(recorded, queued, ["f"])
    assert (call.ms, call.kernels_ms, call.between_ms) == (11.0, {0: 2.0}, 0.0)
    assert call.outside_ms == pytest.approx(9.0)


def test_dispatches_that_run_at_once_share_that_time():
    """a: 0 to 4, b: 2 to 6, c: 7 to 8; so b begins beside a, and nothing runs from 6 to 7."""
    call = [Event("a", 0, 4, 1, 4), Event("b", 2, 4, 1, 4), Event("c", 7, 1, 1, 1)]
    later = [replace(event, start_ns=event.start_ns + 100) for event in call]
    last = [replace(event, start_ns=event.start_ns + 200) for event in call]
    dispatches, [times] = profile.per_call([*call, *later, *last], [], ["a", "b", "c"])
    assert [times.kernels_ms[place] * 1e6 for place in range(3)] == pytest.approx([3, 3, 1])
    assert [dispatch["busy"] for dispatch in dispatches] == pytest.approx([4 / 3, 4 / 3, 1])
    assert times.between_ms * 1e6 == pytest.approx(1)
    assert times.outside_ms * 1e6 == pytest.approx(92)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 300)), min_size=1, max_size=12))
def test_the_times_of_dispatches_add_up_to_the_time_in_which_any_ran(spans):
    call = [Event(str(at), start, ns, 1, 1) for at, (start, ns) in enumerate(spans)]
    covered = len({tick for start, ns in spans for tick in range(start, start + ns)})
    later = [[Event(e.function, e.start_ns + far, e.ns, 1, 1) for e in call] for far in (5000, 10_000)]  # fmt: skip
    recorded = [*call, *later[0], *later[1]]
    _, [times] = profile.per_call(recorded, [], [str(at) for at in range(len(spans))])
    assert sum(times.kernels_ms.values()) * 1e6 == pytest.approx(covered)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([ADD, PRODUCT, PRODUCT, PRODUCT], "not calls of 4 dispatches"),
        ([PRODUCT, PRODUCT], f"{ADD} is not in the program"),
    ],
)
def test_events_of_another_program_are_an_error(events, functions, message):
    with pytest.raises(ValueError, match="dispatches") as error:
        profile.per_call(events, [], functions)
    assert message in str(error.value).replace("\\", "")


def test_the_lines_of_a_dispatch_are_those_of_the_program_and_not_of_callers():
    texts = [
        'loc(fused["p.mlir":14:5, "p.mlir":12:7])',
        'loc(callsite("p.mlir":39:11 at "p.mlir":8:3))',
        'loc("models/vit.py":3:1)',
        "loc(unknown)",
    ]
    operations = [SimpleNamespace(location=text) for text in texts]
    assert lines_of(operations, {"p.mlir", "-"}) == (12, 14, 39)
