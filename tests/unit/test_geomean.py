"""geomean: the figure of a results.jsonl has no bias from choosing the fastest; its intervals."""

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import geomean
from benchmarks.geomean import BEST, FAILED, Entry
from scripts.lib.report import ratio
from scripts.lib.report.ratio import NOISE, Round

milliseconds = st.floats(1e-2, 1e4)
rows = st.lists(st.builds(Round, st.lists(milliseconds, min_size=3, max_size=5)), min_size=2, max_size=2)  # fmt: skip
entries = st.builds(
    Entry,
    st.just("m"),
    st.dictionaries(st.sampled_from(["eager", "inductor"]), rows, min_size=1),
    st.dictionaries(st.sampled_from(["f", "g", "h"]), rows),
)
lists = st.lists(entries, min_size=2, max_size=6)


def row(*ms: float) -> list[Round]:
    """Return rounds of three repetitions that all took the same time."""
    return [Round([one] * 3) for one in ms]


def times(found: list[Entry], factor: float) -> list[Entry]:
    """Return the entries with all latencies of IREE multiplied by a factor."""
    return [
        Entry(one.name, one.bases, {
            name: [Round([value * factor for value in r.values_ms]) for r in of]
            for name, of in one.paths.items()
        })
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


def test_what_is_chosen_by_a_round_counts_with_the_latency_of_the_other():
    found = Entry("a", {"eager": row(6, 6)}, {"f": row(1, 4), "g": row(2, 3)})
    chosen = geomean.compared(found, BEST)
    assert chosen.path == ("f", "g")  # the first round chooses f, the second round g
    assert math.exp(chosen.log_ratio) == pytest.approx(6 / math.sqrt(4 * 2))
    found = Entry("a", {"eager": row(1, 4), "inductor": row(2, 3)}, {"f": row(6, 6)})
    assert math.exp(geomean.compared(found, "f").log_ratio) == pytest.approx(math.sqrt(4 * 2) / 6)


def test_an_entry_without_a_latency_counts_as_a_tenth_and_is_no_noise():
    found = [
        Entry("a", {"eager": row(8, 8)}, {"f": row(4, 4)}),
        Entry("b", {"eager": row(8, 8)}, {}),
    ]
    of_f, of_g, best = (geomean.figure(found, path) for path in ("f", "g", BEST))
    assert (of_f.failed, of_g.failed, best.failed) == (1, 2, 1)
    assert of_f.ratio == best.ratio == pytest.approx(math.sqrt(2 * FAILED))
    assert of_g.ratio == pytest.approx(FAILED)
    assert of_g.these is None
    alone = geomean.figure(found[:1], "f").these
    assert math.log(of_f.these.high / of_f.ratio) == pytest.approx(math.log(alone.high / alone.ratio) / 2)  # fmt: skip


@given(lists, st.floats(0.1, 10))
def test_an_iree_that_is_so_many_times_slower_has_a_figure_of_so_much_less(found, factor):
    for path in ("f", BEST):
        one, slower = geomean.figure(found, path), geomean.figure(times(found, factor), path)
        share = (one.entries - one.failed) / one.entries
        assert slower.ratio == pytest.approx(one.ratio / factor**share, rel=1e-6)


@given(lists)
def test_a_figure_lies_within_its_intervals_and_does_not_depend_on_the_order_of_rounds(found):
    turned = [
        Entry(one.name, *({name: of[::-1] for name, of in side.items()} for side in (one.bases, one.paths)))
        for one in found
    ]  # fmt: skip
    for path in ("f", BEST):
        one, other = geomean.figure(found, path), geomean.figure(turned[::-1], path)
        assert other.ratio == pytest.approx(one.ratio)
        for interval in filter(None, (one.these, one.like_these)):
            assert interval.low * (1 - 1e-9) <= one.ratio <= interval.high * (1 + 1e-9)


@given(rows, rows)
def test_one_entry_by_one_path_is_the_speed_up_of_its_row(base, iree):
    found = geomean.figure([Entry("m", {"eager": base}, {"f": iree})], "f")
    expected = ratio.ratio(ratio.log_latency(base), ratio.log_latency(iree))
    assert (found.ratio, found.these.low) == pytest.approx((expected.ratio, expected.low))
    assert found.like_these is None


def drawn(draw: np.random.Generator, count: int, floor: float) -> list[Entry]:
    """Return entries whose rows all have the same true latency.

    They have the noise that ratio.py assumes: each row has its own variance.
    """

    def noisy() -> list[Round]:
        sigma = math.sqrt(NOISE.df * floor / draw.chisquare(NOISE.df))
        return row(*np.exp(draw.standard_normal(2) * sigma))

    return [
        Entry(str(n), {b: noisy() for b in ("eager", "inductor")}, {p: noisy() for p in "fgh"})
        for n in range(count)
    ]


def test_choosing_the_fastest_of_equals_makes_nothing_look_faster():
    """For 2,000 entries whose rows all have the same true latency, the figure is 1.

    If the round that chooses is also counted, the figure is far off.
    """
    found = drawn(np.random.default_rng(3), 2_000, 0.1**2)
    best = geomean.figure(found, BEST)
    half = math.log(best.like_these.high / best.ratio)
    assert abs(math.log(best.ratio)) < 1.5 * half
    lucky = [
        min(map(ratio.centre, one.bases.values())) - min(map(ratio.centre, one.paths.values()))
        for one in found
    ]
    assert np.mean(lucky) > 2 * half


def test_the_interval_of_these_entries_holds_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(11)
    found = [geomean.figure(drawn(draw, 8, NOISE.floor), BEST).these for _ in range(300)]
    held = sum(one.low <= 1 <= one.high for one in found) / len(found)
    assert 0.91 <= held <= 0.99


def test_a_row_of_one_round_counts_without_an_interval_and_is_named():
    found = [Entry("a", {"eager": row(8, 8)}, {"f": row(4)})]
    one = geomean.figure(found, "f")
    assert (one.ratio, one.these) == (pytest.approx(2), None)
    assert geomean.notes(found)[1] == "a, f: 3 repetitions in 1 round; an interval needs 6 in 2"


def record(
    model, runtime, ms, frontend=None, target=None, device="cpu", rewrites=(), **experiment
) -> dict:
    """Return a record of two rounds; without a latency if `ms` is None."""
    described = {"repetitions": 3, "foreign": 0.0, "steal": 0.0, "compute_s": [], "memory_s": []}
    latency = {"values_ms": [ms] * 6, "rounds": [described, described]} if ms else None
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
