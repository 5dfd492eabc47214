"""The times of dispatches, from rows that iree-profile printed for three calls of ViT."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.frontends.lowering.locations import lines_of
from scripts.tools.profile import iree_profile as profile
from scripts.tools.profile.iree_profile import Event

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
    assert [one.function for one in events] == [ADD, PRODUCT, PRODUCT] * 3
    assert [one.tiles for one in events[:2]] == [37, 624]


def test_each_dispatch_of_a_call_has_its_median_without_the_first_call(events):
    found, calls = profile.per_call(events, [ADD, PRODUCT, PRODUCT])
    assert calls == 2
    for place, one in enumerate(found):
        second, third = events[3 + place], events[6 + place]
        assert one.function == second.function
        assert one.ms == pytest.approx((second.ns + third.ns) / 2e6)
    first, second = found[1:]
    assert first.ms != second.ms
    assert 1 <= first.busy <= 2


def test_the_only_call_counts():
    events = [Event("f", 2_000_000, 4, 3_000_000)]
    [found], calls = profile.per_call(events, ["f"])
    assert (found.ms, found.tiles, found.busy, calls) == (2.0, 4, 1.5, 1)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([ADD, PRODUCT, PRODUCT, PRODUCT], "not calls of 4 dispatches"),
        ([PRODUCT, PRODUCT], f"{ADD} is not in the program"),
    ],
)
def test_events_of_another_program_are_an_error(events, functions, message):
    with pytest.raises(ValueError, match="dispatches") as error:
        profile.per_call(events, functions)
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
