"""What differs in the code of two builds, and what each dispatch adds to the latency."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from scripts.results.results_file import cell_of
from scripts.tools.compare import code_changes, formats, pairs
from scripts.tools.compare.code_changes import CHANGED, GONE, NEW, REARRANGED
from scripts.tools.compare.comparing import Settings, compare
from tests.report_records import records, write_profiles

BERT = "bert/torchmlir-torch/llvm-cpu"
FOLDER = "results/{}/bert/iree/torchmlir-torch/llvm-cpu"
DISPATCHES = {
    "main_dispatch_0_matmul_8x8": "aa",
    "main_dispatch_1_softmax_8": "bb",
    "main_dispatch_2_matmul_8x8": "aa",
}


class Side:
    """The results folder of one side, with the code and the profile of BERT."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, stage: str, file: str, value: object) -> None:
        path = self.folder / FOLDER.format(stage) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value) if value else "")

    def code(self, digests: dict[str, str], host: str = "host", tiling: str = "[4, 8]") -> None:
        functions = [
            {"name": name, "digest": d, "unordered": d[:1], "instructions": 9, "tiling": [tiling]}
            for name, d in digests.items()
        ]
        self.write("code", "code.json", {"host": host, "functions": functions})

    def profile(self, ms: dict[str, float]) -> None:
        nodes = [["node", "aten.mm", "layer.0"]]
        dispatches = [{"function": name, "ms": of, "nodes": nodes} for name, of in ms.items()]
        write_profiles(self.folder / "results", "bert/cpu/eval", {BERT: {"dispatches": dispatches}})


@pytest.fixture
def sides(tmp_path):
    return Side(tmp_path / "before"), Side(tmp_path / "after")


@pytest.fixture
def pair():
    row = next(row for row in records() if str(cell_of(row)) == BERT)
    return pairs.Pair(BERT, row, copy.deepcopy(row))


def change_of(pair, sides):
    return code_changes.code_change(pair, (sides[0].folder, sides[1].folder))


def renumbered(digests: dict[str, str], by: int = 3) -> dict[str, str]:
    return {
        name.replace(f"dispatch_{place}", f"dispatch_{place + by}"): digest
        for place, (name, digest) in enumerate(digests.items())
    }


def test_the_same_code_under_other_numbers_is_the_same(pair, sides):
    sides[0].code(DISPATCHES)
    sides[1].code(renumbered(DISPATCHES))
    assert change_of(pair, sides).is_same


def test_a_changed_host_program_is_no_same_code(pair, sides):
    sides[0].code(DISPATCHES)
    sides[1].code(DISPATCHES, host="other")
    change = change_of(pair, sides)
    assert change.host
    assert not change.changed
    assert not change.is_same


def test_exactly_the_dispatches_that_differ_are_listed(pair, sides):
    sides[0].code(DISPATCHES)
    after = DISPATCHES | {"main_dispatch_1_softmax_8": "cc", "main_dispatch_3_transpose_8": "dd"}
    del after["main_dispatch_2_matmul_8x8"]
    sides[1].code(after, tiling="[8, 8]")
    change = change_of(pair, sides)
    assert {(each.kind, each.name) for each in change.changed} == {
        (CHANGED, "main_dispatch_1_softmax_8"),
        (GONE, "main_dispatch_2_matmul_8x8"),
        (NEW, "main_dispatch_3_transpose_8"),
    }
    tilings = {each.name: each.tiling for each in change.changed}
    assert tilings["main_dispatch_1_softmax_8"] == ("[4, 8]", "[8, 8]")


def test_the_same_instructions_in_another_order_are_told_apart_from_others(pair, sides):
    first, second, *_ = DISPATCHES
    sides[0].code({first: "a1", second: "b1"})
    sides[1].code({first: "a2", second: "b1"})
    change = change_of(pair, sides)
    assert (change.is_same, change.is_rearranged) == (False, True)
    assert [(each.kind, each.name) for each in change.changed] == [(REARRANGED, first)]
    found = compare([pair], "a", "b", Settings(), codes=[change])
    assert "0 the same code, 1 with other registers or order alone, 0 changed" in formats.as_text(
        found
    )
    assert first not in formats.as_markdown(found)
    assert first in formats.as_markdown(found, with_all=True)
    sides[1].code({first: "a2", second: "c1"})
    assert not change_of(pair, sides).is_rearranged


@pytest.fixture
def changed_softmax(sides):
    """One dispatch differs; its name."""
    name = "main_dispatch_1_softmax_8"
    sides[0].code(DISPATCHES)
    sides[1].code(DISPATCHES | {name: "cc"})
    return name


def test_the_difference_is_divided_by_the_shares_of_both_profiles(pair, sides, changed_softmax):
    first, _, last = DISPATCHES
    # The second profile was taken while the machine was half as fast: only its shares count.
    sides[0].profile({first: 1.0, changed_softmax: 2.0, last: 1.0})
    sides[1].profile({first: 2.0, changed_softmax: 6.0, last: 2.0})
    pair.after["latency"]["values_ms"] = [1.25 * ms for ms in pair.before["latency"]["values_ms"]]
    change = change_of(pair, sides)
    (slower,) = change.changed
    assert slower.modules == ("layer.0",)
    assert change.share(slower.difference_ms) == pytest.approx(0.25)
    assert change.share(change.rest_ms) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("after_ms", "ms"),
    [
        ((9.0, 14.0, 10.0, 9.0, 14.0), (None, None)),  # hardly known
        ((10.1, 10.2, 10.15, 10.1, 10.2), (7.5, 7.6125)),
        ((12.0,) * 5, (7.5, 9.0)),
    ],
)
def test_the_latency_that_is_divided_is_that_of_turns(pair, sides, changed_softmax, after_ms, ms):
    for side in sides:
        side.profile({next(iter(DISPATCHES)): 1.0, changed_softmax: 3.0})
    # The machine was twice as fast in the second run, which proves nothing.
    pair.after["latency"]["values_ms"] = [0.5 * ms for ms in pair.before["latency"]["values_ms"]]
    pair.after["latency"] |= {"group": "later", "anchor": "another"}
    folders = (sides[0].folder, sides[1].folder)
    again = pairs.in_turns(pair, "again", (10.0,) * 5, after_ms)
    (change,) = code_changes.code_change(pair, folders, again).changed
    assert change.ms == (ms if None in ms else pytest.approx(ms, rel=1e-3))
    assert code_changes.code_change(pair, folders).changed[0].ms == (None, None)


def test_code_that_was_not_read_is_named_with_the_command(pair, sides):
    sides[0].code(DISPATCHES)
    assert "vmfbench run --make code" in change_of(pair, sides).unknown


def compiled(total_s: float, status: str = "ok", **seconds: float) -> dict:
    passes = [{"name": name, "s": s} for name, s in seconds.items()]
    return {"program": {"status": status}, "total_s": total_s, "passes": passes}


def test_the_passes_that_make_a_compilation_slower_are_listed(pair, sides):
    folders = (sides[0].folder, sides[1].folder)
    sides[0].write("compile_time", "compile.json", compiled(10.0, Canonicalizer=4.0, CSE=3.0))
    assert code_changes.pass_changes_of_pair(pair, folders) == []  # only one run has the times
    after = compiled(13.0, Canonicalizer=5.0, CSE=3.4, Tile=1.5)
    sides[1].write("compile_time", "compile.json", after)
    changes = code_changes.pass_changes_of_pair(pair, folders)
    assert [(each.name, each.before_s, each.after_s, round(each.share, 3)) for each in changes] == [
        (code_changes.ALL_PASSES, 10.0, 13.0, 0.3),
        ("Tile", 0.0, 1.5, 0.15),
        ("Canonicalizer", 4.0, 5.0, 0.1),
    ]
    comparison = compare([pair], "before", "after", Settings(), passes=changes)
    assert "| Tile | 0.00 | 1.50 | +15.0% |" in formats.as_markdown(comparison)
    sides[1].write("compile_time", "compile.json", compiled(13.0, status="timeout"))
    assert code_changes.pass_changes_of_pair(pair, folders) == []
