"""The timing of a group: its parts, its file, what is kept of an earlier run, and the outcomes of its members."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.measure.timing.group_timing import GroupTiming, latencies, part_of
from scripts.measure.timing.turns import Generation, MemberEnded, Rule, Timed
from scripts.supervise import group, members, outcome, supervise
from scripts.supervise.members import Member, parts, timing_command
from scripts.supervise.outcome import Outcome, Usage
from tests.unit.conftest import ended as ending
from tests.unit.conftest import job_in

ENDED = MemberEnded("crashed", "SIGSEGV", "Segmentation fault")


def timed(*each_ms: float, calls: int = 30, ended: MemberEnded | None = None) -> Timed:
    """A member with one generation for each latency, of calls that all take as long."""
    made = [Generation([ms / 1e3] * calls, turns=3, warmup=9) for ms in each_ms]
    return Timed(made, ended, 120.0)


def test_a_part_has_the_latencies_of_the_generations_that_count():
    of = {
        "a": timed(10, 10, 20, 10, 10, 10),
        "b": timed(5, 5, 9, 5, 5, 5),
        "a again": timed(10, 11, 20, 10, 10, 10),
    }
    part, found = part_of(of, "a", "a again", "b", 2)
    assert part.generations == 6
    assert part.counted == (0, 1, 3, 4, 5)
    assert part.control == "a"
    control_ms = pytest.approx((10, 10, 10, 10, 10)), pytest.approx((10, 11, 10, 10, 10))
    assert part.control_ms == control_ms
    assert found.keys() == {"a", "b"}
    assert found["a"].values_ms == pytest.approx((10, 10, 10, 10, 10))
    assert found["a"].uncounted_ms == pytest.approx((20,))
    assert found["b"].uncounted_ms == pytest.approx((9,))
    assert found["a"].anchor_ms == found["b"].values_ms == pytest.approx((5, 5, 5, 5, 5))
    assert (found["a"].turns, found["a"].calls, found["a"].part) == (15, 150, 2)
    assert (found["a"].status, found["a"].peak_rss_mb) == ("ok", 120.0)


def test_a_part_without_its_anchor_or_its_control_has_none():
    of = {"a": timed(10, 10, 10), "b": timed(5, 5, 5)}
    part, found = part_of(of | {"a again": timed(10, ended=ENDED)}, "a", "a again", "", 0)
    assert part.control == ""
    assert found["b"].anchor_ms == ()
    of["a"] = timed(10, ended=ENDED)
    _, found = part_of(of, "b", "b again", "a", 0)
    assert found["b"].anchor_ms == ()


def test_a_member_that_ended_has_its_reason_and_no_latency():
    of = {"bad": timed(10, 10, ended=ENDED), "b": timed(5, 7, 5), "b again": timed(5, 7, 5)}
    part, found = part_of(of, "b", "b again", "", 0)
    bad = found["bad"]
    assert (bad.status, bad.reason, bad.detail) == ("crashed", "SIGSEGV", "Segmentation fault")
    assert (bad.values_ms, bad.p50_ms) == ((), None)
    assert found["b"].values_ms == pytest.approx((5, 7, 5)), "five generations count in any case"
    assert part.generations == 3


def test_latencies_are_of_members_that_have_all_generations():
    of = {"a": timed(10, 10), "left": timed(9), "bad": timed(9, 9, ended=ENDED)}
    assert latencies(of) == {"a": pytest.approx([10, 10])}
    assert latencies({}) == {}


@pytest.mark.parametrize(
    ("calls", "p90", "p99"),
    [(63, False, False), (64, True, False), (661, True, False), (662, True, True)],
)
def test_a_percentile_needs_enough_calls(calls, p90, p99):
    each = [ms / 1e3 for ms in range(1, calls + 1)]
    of = Timed([Generation(each, turns=1)], None, None)
    found = part_of({"a": of}, "a", "a again", "", 0)[1]["a"]
    assert found.calls == calls
    assert found.p50_ms == pytest.approx((calls + 1) / 2)
    assert (found.p90_ms is not None, found.p99_ms is not None) == (p90, p99)
    if p99:
        assert (found.p90_ms, found.p99_ms) == pytest.approx((596, 656))  # 595.8 and 655.38


def test_a_timing_is_read_as_it_was_written(tmp_path):
    of = {"a": timed(10, 10, 12), "b": timed(5, 5, 5, ended=ENDED)}
    part, found = part_of(of, "a", "a again", "a", 0)
    made = GroupTiming(1.5, "{}", "a", found, (part,), {"a": "0"}, "c0de", 0.1, 0.2)
    made.write(tmp_path / "timing.json")
    assert msgspec.convert(atomic.read_json(tmp_path / "timing.json"), GroupTiming) == made


needs = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(1, 1000), min_size=1, max_size=8)  # fmt: skip


@given(needs, st.floats(1, 4000), st.one_of(st.none(), st.integers(1, 8)), st.booleans())
def test_every_member_is_in_one_part_which_fits_and_has_the_anchor(of, limit_mb, most, anchored):
    anchor = min(of) if anchored else ""
    found = parts(of, anchor, limit_mb, most)
    assert sorted(set(of) - {anchor}) == sorted(n for part in found for n in part if n != anchor)
    for part in found:
        assert not anchored or part[0] == anchor
        own = [name for name in part if name != anchor]
        used = [of[name] for name in part]
        # A member that does not fit is timed all the same: alone, or with the anchor.
        assert len(own) <= 1 or sum(used) + max(used) <= limit_mb  # with the control
        assert len(own) <= 1 or len(part) <= (most or len(of))


def test_all_that_fits_is_one_part():
    of = {"a": 100.0, "b": 200.0, "c": 300.0}
    assert parts(of, "a", 900.0) == [["a", "b", "c"]]
    assert parts(of, "a", 899.0) == [["a", "b"], ["a", "c"]]
    assert parts(of, "", 899.0) == [["a", "b"], ["c"]]
    assert parts({"a": 100.0}, "a", 1.0) == [["a"]]
    assert parts({}, "", 1.0) == []


IREE = ["--module=m.vmfb", "--device=local-task", "--input=2xf32=@a b.bin"]


def test_the_worker_of_a_row_loads_what_was_verified():
    verified = StageRequest("scripts.stages.verify_iree", "/venvs/iree/bin/python", {"vmfb": ["m"]})
    folder = Path("results/verify/m/f/t")
    assert timing_command(verified, folder, {"flags": IREE, "python": "/x"}) == [
        *("/venvs/iree/bin/python", "-m", "scripts.stages.time_module"),
        *("--module=m.vmfb", "--device=local-task", "--input=2xf32=@a b.bin"),
    ]
    # conda's is the one that verified.
    for python, verified_by in (("/venvs/torch/bin/python", "/x"), ("python", "/c/py")):
        verified = StageRequest("scripts.stages.verify_baseline", python, {})
        assert timing_command(verified, folder, {"flags": [], "python": verified_by}) == [
            *(python if python != "python" else verified_by, "-m", "scripts.stages.time_baseline"),
            *("--request", "results/verify/m/f/t/request.json"),
        ]


WORKER = """
import json, sys, time
from scripts.measure.timing import worker
request = json.load(open(sys.argv[2]))
seconds = float(open(request["fields"]["ms"]).read())
if seconds < 0:
    raise ValueError("no such operator")
worker.serve(worker.Program(lambda: time.sleep(seconds)))
"""


@pytest.fixture
def run(tmp_path, package, monkeypatch):
    """Times members in a job as the workflow does: `ms` gives the latency of each, -1 for one that fails to load."""
    (package / "tiny.py").write_text(WORKER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(members, "BASELINE", "package.tiny")
    started: list[str] = []
    start = members.Workers.start

    def noted(self, member: Member):
        started.append(member.name)
        return start(self, member)

    monkeypatch.setattr(members.Workers, "start", noted)

    def verify(cell: str, ms: float, status: str = "ok") -> None:
        folder = tmp_path / "results/baseline" / cell
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ms.txt").write_text(str(ms / 1e3))
        atomic.write_json(folder / "verification.json", {"flags": [], "python": sys.executable, "ms": ms})  # fmt: skip
        StageRequest("package.tiny", sys.executable, {"ms": str(folder / "ms.txt")}).write(folder)
        of = Outcome(status, "baseline", cell)
        outcome.write(folder / "status.json", of, Usage(1.0, 20.0))

    def of(cells, due: str = "c0de", anchor: str = "", bases=(), **more) -> GroupTiming | Outcome:
        started.clear()
        path = tmp_path / "results/time/m/cpu/eval"
        rule = dataclasses.asdict(Rule(budget_s=0.9, generations=3)) | more.pop("rule", {})
        given = group.GroupRequest({c: f"results/baseline/{c}" for c in cells}, rule, anchor, bases)
        limits = {"timeout_s": 60.0, "memory_mb": 2000.0} | more
        of_time = {"stage": "time", "cell": "m/cpu/eval", "due": due, "owner": os.getppid()}
        job = job_in(path, ["python"], artifacts=[path / "timing.json"], **of_time, **limits)
        for file in ("timing.json", "status.json"):
            (path / file).unlink(missing_ok=True)  # as Snakemake does
        found = supervise.run(job, group.work(given))
        if found.status != "ok":
            return found
        return msgspec.convert(atomic.read_json(path / "timing.json"), GroupTiming)

    of.verify, of.started = verify, started
    return of


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def two(run):
    run.verify("m/a/eval", 1)
    run.verify("m/b/eval", 3)
    run.first = run(["m/a/eval", "m/b/eval"], anchor="m/a/eval")
    return run


def test_the_members_of_a_group_are_timed_and_one_of_them_twice(two):
    found = two.first
    assert found.members.keys() == {"m/a/eval", "m/b/eval"}
    assert found.anchor == "m/a/eval"
    a, b = found.members.values()
    assert all(1 <= ms < 3 <= other for ms, other in zip(a.values_ms, b.values_ms, strict=True))
    assert b.anchor_ms == a.values_ms
    [part] = found.parts
    assert part.generations == 3
    assert part.control == "m/a/eval"
    assert len(two.started) == 9
    assert json.loads(found.rule)["budget_s"] == 0.9


def test_a_member_alone_is_compared_with_nothing_and_has_no_second_process(run):
    run.verify("m/a/eval", 1)
    timing = run(["m/a/eval"])
    assert len(timing.members["m/a/eval"].values_ms) == 3
    assert (timing.parts[0].control, timing.parts[0].control_ms) == ("", ((), ()))
    assert run.started == ["m/a/eval"] * 3


@pytest.mark.parametrize("what", ["nothing", "narrower selection", "failed since"])
def test_nothing_is_timed_again_if_nothing_changed(two, what):
    if what == "failed since":
        two.verify("m/b/eval", 3, status="error")
    cells = ["m/b/eval"] if what == "narrower selection" else ["m/a/eval", "m/b/eval"]
    assert two(cells, anchor="m/a/eval") == two.first
    assert two.started == []


@pytest.mark.parametrize("what", ["member", "verification", "rule", "due", "file"])
def test_everything_is_timed_again_if_something_changed(two, tmp_path, what):
    cells = ["m/a/eval", "m/b/eval"]
    more = {}
    match what:
        case "member":
            two.verify("m/c/eval", 2)
            cells.append("m/c/eval")
        case "verification":
            two.verify("m/b/eval", 2)
        case "rule":
            more = {"rule": {"generations": 4}}
        case "due":
            more = {"due": "c0de+1"}
        case "file":
            (tmp_path / "results/time/m/cpu/eval/timed.json").write_text('{"started": 1')
    found = two(cells, **more)
    assert set(two.started) >= set(cells)
    assert found.started > two.first.started
    assert found.members.keys() == set(cells)


@pytest.mark.parametrize("file", ["ms.txt", "verification.json"])
def test_a_file_that_was_cut_since_it_was_verified_is_not_timed(run, tmp_path, file):
    run.verify("m/a/eval", 1)
    run.verify("m/b/eval", 3)
    folder = tmp_path / "results/baseline/m/b/eval"
    made = {name: atomic.digest_of(folder / name) for name in ("ms.txt", "verification.json")}
    outcome.write(folder / "status.json", outcome.read(folder / "status.json"), Usage(1, 20, made))
    (folder / file).write_text((folder / file).read_text()[:-1])
    found = run(["m/a/eval", "m/b/eval"])
    assert (found.status, found.blocked_by) == ("skipped", "baseline m/b/eval")
    assert file in found.detail
    assert outcome.read(folder / "status.json").status == "damaged"
    assert run.started == []


def test_members_that_are_not_verified_are_left_out(run):
    nothing = run(["m/never/eval"])
    assert (nothing.members, nothing.parts) == ({}, ())
    run.verify("m/a/eval", 1)
    run.verify("m/b/eval", 3, status="error")
    found = run(["m/a/eval", "m/b/eval", "m/never/eval"], anchor="m/b/eval")
    assert found.members.keys() == {"m/a/eval"}
    assert found.anchor == ""


def test_a_member_that_fails_has_an_outcome_of_its_own(run, tmp_path):
    run.verify("m/a/eval", 1)
    run.verify("m/bad/eval", -1000)
    found = run(["m/a/eval", "m/bad/eval"])
    assert found.members["m/a/eval"].status == "ok"
    [of] = group.outcomes(tmp_path / "results/time/m/cpu/eval")
    assert (of.stage, of.cell, of.status) == ("time", "m/bad/eval", "error")
    assert "ValueError: no such operator" in of.detail
    assert "no such operator" in Path(of.log).read_text()
    assert of.due == "c0de"


def test_a_time_limit_is_the_outcome_of_the_group(run, tmp_path):
    run.verify("m/a/eval", 1)
    found = run(["m/a/eval"], timeout_s=0.5, rule={"budget_s": 20})
    assert (found.status, found.reason) == ("timeout", "time-limit")
    assert (tmp_path / "results/time/m/cpu/eval/timing.json").read_bytes() == b""
    assert not (tmp_path / "results/time/m/cpu/eval/timed.json").exists()


def test_what_does_not_fit_is_timed_in_parts_with_the_anchor(run):
    cells = [f"m/{name}/eval" for name in "abc"]
    for number, cell in enumerate(cells, 1):
        run.verify(cell, number)
    found = run(cells, anchor="m/a/eval", memory_mb=60.5, rule={"budget_s": 0.2, "generations": 1})
    assert [found.members[cell].part for cell in cells] == [0, 0, 1]
    assert len(found.parts) == 2
    assert all(found.members[cell].anchor_ms for cell in cells)


def test_outcomes_of_what_was_not_timed_are_none(results, tmp_path):
    assert group.outcomes(tmp_path / "nowhere") == []
    results.write(ending("error", "time", "conv/cpu/eval"))
    assert group.outcomes(Path("results/time/conv/cpu/eval")) == []
    results.write(ending("crashed", "time", "conv/eager/eval", "SIGSEGV", "fault"))
    [of] = group.outcomes(Path("results/time/conv/cpu/eval"))
    assert (of.status, of.reason, of.cell) == ("crashed", "SIGSEGV", "conv/eager/eval")
