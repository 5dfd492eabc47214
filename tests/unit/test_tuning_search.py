"""tools/variants/tune_iree.py: the search for the fastest candidate, with a compiler and a module that are stubs."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from pathlib import Path

import msgspec
import pytest

from scripts.config import compile_tables
from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.measure.timing import turns
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.variants import candidates, tune_iree
from scripts.tools.variants.candidates import Candidate, Report, Search

CELL = "m/t"
PYTHON = f"""#!{sys.executable}
import json, os, random, signal, socket, sys, time
stage = sys.argv[2]
if sys.argv[3] == "--request":
    of, out = json.load(open(sys.argv[4]))["fields"], sys.argv[6] + "/"
with open("calls", "a") as calls:
    calls.write(stage + " ")
if stage == "scripts.stages.compile_iree":
    [how] = of["flags"]
    if how == "fail":
        sys.exit("program.mlir:1:1: error: failed to bufferize op")
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(60)
    open(out + "module.vmfb", "w").write(how.removeprefix("same "))
    json.dump({{"compile_s": 1.5}}, open(out + "report.json", "w"))
elif stage == "scripts.stages.time_module":
    [module] = (word.partition("=")[2] for word in sys.argv if word.startswith("--module="))
    how, _, ms = open(module).read().partition(" ")
    channel = socket.socket(fileno=int(os.environ["VMFBENCH_CHANNEL"]))
    channel.sendall(b'{{"ready": true}}\\n')
    for line in channel.makefile():
        request = json.loads(line)
        asked = {{"calls": 1}} if request.get("first") else request.get("slice")
        if asked and how == "late":
            os.kill(os.getpid(), signal.SIGABRT)
        answer = {{"peak_rss_mb": 1.0}}
        if asked:
            answer = {{"each_s": [float(ms) / 1e3 * random.uniform(1, 1.002)] * asked["calls"], "cpu_s": 0.0, "compiled": 0}}
        channel.sendall(json.dumps(answer).encode() + b"\\n")
else:
    how, _, ms = open(of["vmfb"][0]).read().partition(" ")
    if how == "gone":
        print("error: no device", file=sys.stderr)
        sys.exit(69)
    if how == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    if how == "wrong":
        json.dump({{}}, open(out + "verification.json", "w"))
        print("error: FAIL: an output differs", file=sys.stderr)
        sys.exit(4)
    json.dump({{"flags": ["--module=" + of["vmfb"][0]], "python": sys.argv[0]}}, open(out + "verification.json", "w"))
"""
"""Compiles the first of `flags` to a module with this text; the calls of the module `ok <ms>` take that many
milliseconds."""


def candidate(how: str, **changes) -> Candidate:
    """A candidate that is compiled, verified and timed as `how` says."""
    given = {
        "name": how.replace(" ", "-"),
        "frontend": "f",
        "opt_level": "O3",
        "flags": (how,),
        "target": {"flags": [how]},
        "program": "export/program.mlir",
        "export": "export/status.json",
    }
    return Candidate(**given | changes)


@pytest.fixture
def tune(tmp_path, monkeypatch, nothing_is_left):
    """Search among candidates; returns the outcome, the report, and the texts of the two modules."""
    monkeypatch.chdir(tmp_path)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    Path("export").mkdir()
    Path("export/program.mlir").write_text("torch.aten.mm")
    outcome.write("export/status.json", Outcome("ok", "export", "m/f"), Usage(0, 0))
    folder = Path("results/tune") / CELL
    monkeypatch.setattr(tune_iree, "RULE", dataclasses.replace(tune_iree.RULE, budget_s=0.001))
    monkeypatch.setattr(turns, "PAUSE_S", 0.0)

    def run(*tried, budget_s=100.0, at_once=2, **changes):
        made = [folder / name for name in ("tuned.vmfb", "default.vmfb", "report.json")]
        job = Job(
            stage="tune",
            cell=CELL,
            status_path=folder / "status.json",
            log_path=folder / "log.txt",
            command=(),
            request=StageRequest("scripts.stages.verify_iree", str(python), {"vmfb": [str(made[0])]}),
            timeout_s=60,
            memory_mb=4000,
            artifacts=made,
            fingerprint="c0de",
            due="c0de",
        )  # fmt: skip
        properties = {"products": ("torch.aten.mm",), "convolutions": ("torch.aten.convolution",)}
        search = Search(tuple(tried), properties, budget_s, 1 / 3)
        text = compile_tables.to_text(search)
        assert msgspec.json.decode(text, type=Search) == search
        result = supervise.run(dataclasses.replace(job, **changes), tune_iree.work(search, at_once))
        return (
            result,
            candidates.read(atomic.read_json(made[2])),
            [path.read_text() for path in made[:2]],
        )

    return run


def endings(report: Report) -> dict[str, tuple[str, str]]:
    return {one.name: (one.status, one.reason) for one in report.candidates}


def test_the_fastest_candidate_and_the_fastest_configured_one_are_found(tune):
    result, report, modules = tune(
        candidate("ok 5", configured=True),
        candidate("ok 4", configured=True),
        candidate("ok 3"),
        candidate("ok 9"),
    )
    assert (result.status, modules) == ("ok", ["ok 3", "ok 4"])
    assert (report.tuned, report.default) == ("ok-3", "ok-4")
    generations = {one.name: one.timing.generations for one in report.candidates}
    assert generations == {"ok-5": 5, "ok-4": 5, "ok-3": 5, "ok-9": 1}, "slow ones leave"
    won = report.line_of("ok-3").timing
    assert 1.3 < won.speedup_low < won.speedup < won.speedup_high < 1.4
    assert report.line_of("ok-4").timing.speedup_low == 1.0
    left = [path.name for path in Path("results/tune").rglob("*.vmfb")]
    assert sorted(left) == ["default.vmfb", "tuned.vmfb"], "modules of the others are removed"
    assert set(outcome.read_usage("results/tune/m/t/status.json").artifacts) == {"tuned.vmfb", "default.vmfb", "report.json"}  # fmt: skip


def test_whatever_happens_to_a_candidate_is_a_line_of_the_report_and_the_search_goes_on(
    tune, monkeypatch
):
    monkeypatch.setattr(tune_iree, "AT_MOST", 0.06)  # of 100 s
    result, report, modules = tune(
        candidate("ok 5", configured=True),
        *map(candidate, ("fail", "crash", "hang", "wrong", "abort", "late", "ok 4")),
    )
    assert (result.status, modules) == ("ok", ["ok 4", "ok 5"])
    assert endings(report) == {
        "ok-5": ("ok", ""),
        "fail": ("error", "bufferization"),
        "crash": ("crashed", "SIGSEGV"),
        "hang": ("timeout", "time-limit"),
        "wrong": ("error", "wrong-result"),
        "abort": ("crashed", "SIGABRT"),
        "late": ("crashed", "SIGABRT"),
        "ok-4": ("ok", ""),
    }
    assert report.line_of("wrong").timing is None, "only what is verified is timed"
    steps = [report.line_of(name).step for name in ("hang", "abort", "late", "ok-4")]
    assert steps == ["compile", "verify", "time", "time"]


def test_candidates_with_the_same_module_are_verified_once(tune):
    _, report, _ = tune(candidate("ok 5", configured=True), candidate("same ok 5"))
    first, second = report.candidates
    assert (second.same_as, second.timing) == ("ok-5", first.timing)
    assert Path("calls").read_text().split().count("scripts.stages.verify_iree") == 1


def test_conditions_are_those_of_the_program(tune):
    _, report, _ = tune(
        candidate("ok 5", needs=("products",)),
        candidate("ok 4", needs=("products", "convolutions")),
        candidate("ok 3", avoid=("products",)),
        candidate("ok 2", hang="it takes an hour"),
    )
    assert endings(report) == {
        "ok-5": ("ok", ""),
        "ok-4": ("skipped", "not-applicable"),
        "ok-3": ("skipped", "not-applicable"),
        "ok-2": ("skipped", "known-hang"),
    }
    assert report.candidates[1].detail == "the program has no convolutions"


def test_when_the_budget_is_used_up_only_what_is_configured_is_tried(tune):
    result, report, modules = tune(
        candidate("ok 5", configured=True), candidate("ok 1"), budget_s=1e-6, at_once=1
    )
    assert (result.status, modules) == ("ok", ["ok 5", "ok 5"])
    assert endings(report)["ok-1"] == ("skipped", "budget")


def test_where_nothing_passes_the_failure_is_that_of_what_is_configured(tune):
    result, report, modules = tune(candidate("crash"), candidate("fail", configured=True))
    assert (result.status, result.reason) == ("error", "bufferization")
    assert result.detail.startswith("no candidate has passed; fail: ")
    assert (report.tuned, report.default, modules) == (None, None, ["", ""])


def test_a_faster_candidate_is_found_where_nothing_configured_works(tune):
    result, report, modules = tune(candidate("fail", configured=True), candidate("ok 5"))
    assert (result.status, report.default, modules) == ("ok", None, ["ok 5", ""])


def test_without_a_device_nothing_is_verified_after_the_first_one(tune):
    result, _, _ = tune(candidate("gone 1", configured=True), candidate("gone 2"))
    assert (result.status, result.detail) == ("unavailable", "no device")
    assert Path("calls").read_text().split().count("scripts.stages.verify_iree") == 1


def test_a_program_that_was_not_exported_is_a_line(tune):
    ended = Outcome("unsupported", "export", "m/g", "operator", "no such operator")
    outcome.write("export/other.json", ended, Usage(0, 0))
    _, report, _ = tune(candidate("ok 5"), candidate("ok 4", export="export/other.json"))
    assert endings(report)["ok-4"] == ("skipped", "operator")


def test_a_search_ends_when_the_run_is_gone(tune):
    with pytest.raises(supervise.Interrupted):
        tune(candidate("ok 5"), owner=os.getpid())


def test_a_module_that_has_failed_is_not_right_under_another_name(tune):
    tried = (candidate("ok 4", configured=True), candidate("wrong"), candidate("same wrong"))
    _, report, _ = tune(*tried)
    assert endings(report)["same-wrong"] == endings(report)["wrong"] == ("error", "wrong-result")
