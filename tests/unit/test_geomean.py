"""geomean: the figure of a results.jsonl has no bias from choosing the fastest; its intervals."""

import json
import math
import statistics
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import geomean
from benchmarks.geomean import BEST, FAILED, Entry
from scripts.timing import ratios


def row(*ms: float, group: str = "g", anchor: tuple[float, ...] = ()) -> dict:
    """Return a latency of a group with a value per generation."""
    return {"values_ms": list(ms), "ms": math.exp(ratios.log_mean(ms)), "generations": len(ms), "group": group} | {
        "anchor_ms": list(anchor), "anchor": "eager" if anchor else None
    }  # fmt: skip


milliseconds = st.floats(1e-2, 1e4)
rows = st.lists(milliseconds, min_size=5, max_size=5).map(lambda ms: row(*ms))
entries = st.builds(
    Entry,
    st.just("m"),
    st.dictionaries(st.sampled_from(["eager", "inductor"]), rows, min_size=1),
    st.dictionaries(st.sampled_from(["f", "g", "h"]), rows),
)
lists = st.lists(entries, min_size=2, max_size=6)


def mapped(found: list[Entry], change) -> list[Entry]:
    """Return the entries with a change of the values of each latency, which gets the side too."""
    return [
        Entry(one.name, *({name: row(*change(side, of["values_ms"])) for name, of in getattr(one, side).items()} for side in ("bases", "paths")))
        for one in found
    ]  # fmt: skip


def test_the_figure_is_the_geometric_mean_of_what_the_fastest_take():
    found = [
        Entry("a", {"eager": row(8, 8), "inductor": row(4, 4)}, {"f": row(2, 2), "g": row(16, 16)}),
        Entry("b", {"eager": row(9, 9)}, {"f": row(18, 18), "g": row(4.5, 4.5)}),
    ]
    assert geomean.figure(found, "f").ratio == pytest.approx(math.sqrt(2 * 0.5))
    assert geomean.figure(found, "g").ratio == pytest.approx(math.sqrt(0.25 * 2))
    assert geomean.figure(found, BEST).ratio == pytest.approx(2)
    (chosen, _) = (geomean.compared(one, BEST) for one in found)
    assert (chosen.base, chosen.path) == (("inductor", "inductor"), ("f", "f"))


def test_what_is_chosen_by_some_generations_is_compared_in_the_others():
    found = Entry("a", {"eager": row(6, 6)}, {"f": row(1, 4), "g": row(2, 3)})
    chosen = geomean.compared(found, BEST)
    assert chosen.path == ("g", "f")  # the second generation chooses g, the first f
    assert math.exp(chosen.log_ratio) == pytest.approx(6 / math.sqrt(2 * 4))
    found = Entry("a", {"eager": row(1, 4), "inductor": row(2, 3)}, {"f": row(6, 6)})
    assert math.exp(geomean.compared(found, "f").log_ratio) == pytest.approx(math.sqrt(4 * 2) / 6)


def test_an_entry_without_a_latency_counts_as_a_tenth_and_is_no_noise():
    found = [
        Entry("a", {"eager": row(8, 9, 8, 9, 8)}, {"f": row(4, 4, 4, 4.2, 4)}),
        Entry("b", {"eager": row(8, 8, 8, 8)}, {}),
    ]
    of_f, of_g, best = (geomean.figure(found, path) for path in ("f", "g", BEST))
    assert (of_f.failed, of_g.failed, best.failed) == (1, 2, 1)
    assert of_f.ratio == best.ratio
    assert of_g.ratio == pytest.approx(FAILED)
    assert of_g.these is None
    alone = geomean.figure(found[:1], "f")
    assert of_f.ratio == pytest.approx(math.sqrt(alone.ratio * FAILED))
    assert of_f.these.half_width == pytest.approx(alone.these.half_width / 2)


@given(lists, st.floats(0.1, 10))
def test_an_iree_that_is_so_many_times_slower_has_a_figure_of_so_much_less(found, factor):
    slower_ones = mapped(found, lambda side, of: [ms * (factor if side == "paths" else 1) for ms in of])  # fmt: skip
    for path in ("f", BEST):
        one, slower = geomean.figure(found, path), geomean.figure(slower_ones, path)
        share = (one.entries - one.failed) / one.entries
        assert slower.ratio == pytest.approx(one.ratio / factor**share, rel=1e-6)


@given(lists)
def test_a_figure_lies_within_its_intervals_and_does_not_depend_on_the_order_of_generations(found):
    turned = mapped(found, lambda _, of: of[::-1])
    for path in ("f", BEST):
        one, other = geomean.figure(found, path), geomean.figure(turned[::-1], path)
        assert other.ratio == pytest.approx(one.ratio)
        for interval in filter(None, (one.these, one.like_these)):
            assert interval.low * (1 - 1e-9) <= one.ratio <= interval.high * (1 + 1e-9)


@given(rows, rows)
def test_one_entry_by_one_path_is_the_speed_up_of_its_row(base, iree):
    found = geomean.figure([Entry("m", {"eager": base}, {"f": iree})], "f")
    expected = ratios.paired(base["values_ms"], iree["values_ms"]).interval()
    assert (found.ratio, found.these.low) == pytest.approx((expected.ratio, expected.low))
    assert found.like_these is None


def drawn(draw: np.random.Generator, count: int) -> list[Entry]:
    """Return entries whose rows all have the same true latency."""

    def noisy() -> dict:
        return row(*np.exp(draw.standard_normal(8) * 0.1))

    return [
        Entry(str(n), {b: noisy() for b in ("eager", "inductor")}, {p: noisy() for p in "fgh"})
        for n in range(count)
    ]


def test_choosing_the_fastest_of_equals_makes_nothing_look_faster():
    """For 2,000 entries whose rows all have the same true latency, the figure is 1.

    If the generations that choose are also counted, the figure is far off.
    """
    found = drawn(np.random.default_rng(3), 2_000)
    best = geomean.figure(found, BEST)
    assert abs(math.log(best.ratio)) < best.like_these.half_width
    lucky = [
        math.log(min(row["ms"] for row in one.bases.values()) / min(row["ms"] for row in one.paths.values()))
        for one in found
    ]  # fmt: skip
    assert statistics.fmean(lucky) > 2 * best.like_these.half_width


@pytest.mark.parametrize(("path", "least"), [("f", 0.97), (BEST, 0.94)])
def test_the_interval_of_these_entries_holds_the_truth(path, least):
    """In 99 % of cases by one path and 97 % by the best of equal ones; of 300 draws, at least `least`."""
    draw = np.random.default_rng(11)
    found = [drawn(draw, 8) for _ in range(300)]
    if path != BEST:
        found = [[Entry(one.name, {"eager": one.bases["eager"]}, one.paths) for one in of] for of in found]  # fmt: skip
    these = [geomean.figure(of, path).these for of in found]
    assert sum(one.low <= 1 <= one.high for one in these) / len(these) >= least


def test_a_row_of_two_generations_counts_without_an_interval_and_is_named():
    found = [Entry("a", {"eager": row(8, 8)}, {"f": row(4, 4)})]
    one = geomean.figure(found, "f")
    assert (one.ratio, one.these) == (pytest.approx(2), None)
    assert "a, f: 2 generations; an interval needs 5" in geomean.notes(found)


def test_rows_of_different_groups_are_compared_through_their_anchors():
    base = row(*[8] * 5, group="one", anchor=(8,) * 5)
    iree = row(*[8] * 5, group="other", anchor=(16,) * 5)
    found = [Entry("a", {"eager": base}, {"f": iree})]
    one = geomean.figure(found, "f")
    assert (one.ratio, one.these.half_width) == (pytest.approx(2), pytest.approx(0))
    assert "not all timed in turns" in geomean.notes(found)[1]
    apart = [Entry("a", {"eager": row(8, 8)}, {"f": row(8, 8, group="other")})]
    with pytest.raises(geomean.BadRecords, match="no common anchor"):
        geomean.figure(apart, "f")


def record(
    model, runtime, ms, frontend=None, target=None, device="cpu", rewrites=(), **experiment
) -> dict:
    """Return a record of five generations; without a latency if `ms` is None."""
    latency = row(*[ms] * 5) if ms else None
    of = {"test": "eval", "dtype": "f32", "batch_size": 1, "precision": "none"} | experiment
    return {
        "model": {"name": model, "suite": "vmfbench"},
        "experiment": of
        | {"runtime": runtime, "frontend": frontend, "target": target, "device": device}
        | {"backend": experiment.get("backend") or (target if runtime == "iree" else None)},
        "outcome": {"status": "ok" if ms else "error", "detail": "", "reason": ""},
        "verification": {"code": "PASS"},
        "latency": latency,
        "run": {},
        "runs": [{"total_s": 1.0, "iterations": 1}],
        "export": {"rewrites": list(rewrites)},
    }


RECORDS = [
    record("conv", "iree", 1.0, "f", "llvm-cpu"),
    record("conv", "iree", 2.0, "g", "llvm-cpu"),
    record("vit", "iree", None, "f", "llvm-cpu"),
    record("vit", "iree", 5.0, "g", "llvm-cpu"),
    record("vit", "iree", 0.1, "f", "cuda", "cuda"),
    record("conv", "eager", 4.0),
    record("vit", "eager", 10.0),
    record("vit", "inductor", 5.0),
    record("vit", "inductor", 0.1, target="half", precision="fp16"),
    record("vit", "eager", 0.1, test="train"),
    record("vit", "eager", 0.1, target="eager-cuda", device="cuda"),
    record("left", "eager", 7.0),
    record("odd", "iree", 3.0, "f", "llvm-cpu"),
]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command on records and return its output."""

    def of(records: list[dict], *arguments: str) -> str:
        path = tmp_path / "results.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        monkeypatch.setattr(sys, "argv", ["geomean", str(path), *arguments])
        geomean.main()
        return capsys.readouterr().out

    return of


def test_the_command_reads_what_is_comparable_and_says_what_it_leaves_out(run):
    found = json.loads(run(RECORDS, "--json"))
    assert {one["path"]: (one["entries"], one["failed"]) for one in found["all"]} == {
        "f": (3, 2), "g": (3, 1), "best": (3, 1)
    }  # fmt: skip
    best = {one["entry"]: one["ratio"] for one in found["entries"] if one["path"] == "best"}
    assert best == {"conv": pytest.approx(4), "vit": pytest.approx(1), "left": pytest.approx(0.1)}
    assert found["all"][2]["ratio"] == pytest.approx((4 * 1 * 0.1) ** (1 / 3))
    assert found["without conv"][2]["ratio"] == pytest.approx((1 * 0.1) ** 0.5)
    assert "odd: left out, as eager and inductor have no latency" in found["notes"]


def test_the_tables_have_a_line_per_path_with_and_without_conv(run):
    shown = run(RECORDS)
    assert "llvm-cpu, all entries" in shown
    assert "llvm-cpu, without conv" in shown
    assert shown.count("2 of 3") == 2
    assert run(RECORDS, "--without", "none").count("lowering path") == 1


def test_the_entries_of_a_path_are_listed_the_slowest_first(run, capsys):
    shown = run(RECORDS, "--entries", "g").partition("by entry")[2]
    places = [shown.index(name) for name in ("left", "vit", "conv")]
    assert places == sorted(places)
    with pytest.raises(SystemExit):
        run(RECORDS, "--entries", "h")
    assert "--entries h: the paths are f, g, best" in capsys.readouterr().err


def test_a_figure_is_of_forward_passes_and_of_one_number_of_threads(run):
    training = record("conv", "iree", 0.01, "f+train", "llvm-cpu", test="train")
    numbers = [
        record("conv", "eager", 8.0, target="eager+1-threads"),
        record("conv", "eager", 0.5, target="eager+2-threads"),
        record("conv", "iree", 2.0, "f", "llvm-cpu+1-threads", backend="llvm-cpu"),
    ]
    found = json.loads(run([*RECORDS, training], "--json"))
    assert found["all"] == json.loads(run(RECORDS, "--json"))["all"]
    found = json.loads(run(numbers, "--json", "--target", "llvm-cpu+1-threads"))
    assert found["all"][0]["ratio"] == pytest.approx(4)


SPEED = ("scatter-add-by-rows", "project-before-aggregation")
REWRITTEN = [
    record("sage", "iree", 2.0, "f", "llvm-cpu", rewrites=SPEED),
    record("sage", "iree", 8.0, "needed", "llvm-cpu", rewrites=SPEED[:1]),
    record("conv", "iree", 1.0, "f", "llvm-cpu"),
    record("only", "iree", 1.0, "f", "llvm-cpu", rewrites=SPEED),
    record("sage", "eager", 6.0),
    record("sage", "eager", 4.0, target="eager+rewrite", rewrites=SPEED[1:]),
    record("conv", "eager", 2.0),
    record("only", "eager", 3.0),
]


def test_both_sides_may_be_rewritten_and_the_figures_without_rewrites_stand_beside_them(run):
    found = json.loads(run(REWRITTEN, "--json"))
    best, plain = (found[name][-1] for name in ("all", geomean.PLAIN))
    assert best["ratio"] == pytest.approx((4 / 2 * 2 / 1 * 3 / 1) ** (1 / 3))
    assert (plain["entries"], plain["ratio"]) == (2, pytest.approx((6 / 8 * 2 / 1) ** 0.5))
    chosen = {one["entry"]: one for one in found["entries"] if one["path"] == BEST}["sage"]
    assert (chosen["base_chosen"], chosen["path_chosen"]) == (["eager+rewrite"] * 2, ["f"] * 2)
    assert any(note.startswith(f"only: left out of the figures {geomean.PLAIN}") for note in found["notes"])  # fmt: skip
    assert f"llvm-cpu, {geomean.PLAIN}" in run(REWRITTEN)
    assert geomean.PLAIN not in run(RECORDS)


@pytest.mark.parametrize(
    ("records", "arguments", "message"),
    [
        (RECORDS, ("--target", "llvm"), "no row of the target 'llvm'; there are: llvm-cpu, cuda"),
        (RECORDS[:2], (), "no latency of eager or inductor to compare with"),
    ],
)
def test_what_cannot_be_compared_is_an_error_that_says_what_there_is(
    run, capsys, records, arguments, message
):
    with pytest.raises(SystemExit) as ended:
        run(records, *arguments)
    assert ended.value.code == 1
    assert message in capsys.readouterr().err
