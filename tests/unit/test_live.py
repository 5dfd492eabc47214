"""live: the progress of a run on a terminal and in a log."""

import io
import re
import threading

import pytest
from rich.console import Console

from scripts.run import progress
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage

COMPILED = "results/compile/conv/mlir/vulkan/status.json"
MEASURED = "results/verify/conv/mlir/vulkan/status.json"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_width", lambda: 200)


@pytest.fixture
def clock():
    return Clock()


def started(clock, terminal: bool, width: int = 120) -> progress.Live:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)
    made = progress.Live(console, clock)
    made.planned({"compile_iree": 3, "verify_iree": 2, "aggregate_results": 1, "total": 6})
    return made


def text(of: progress.Live) -> str:
    return of._console.file.getvalue()


def lines(of: progress.Live) -> list[str]:
    """Return the final content of a terminal of unlimited length, without overwritten text."""
    kept = [re.split(r"\r|\x1b\[2K", line)[-1] or "" for line in text(of).split("\n")]
    return [line for line in kept if line]


def finish(of: progress.Live, job: int, status: str, path: str, done: int) -> None:
    stage, cell = path.split("/")[1], "/".join(path.split("/")[2:-1])
    reason = "" if status == "ok" else "why"
    outcome.write(path, Outcome(status, stage, cell, reason, reason and "what"), Usage(1.5, 1.0))
    of.finished(job, done, 6)


def test_a_terminal_has_one_line_of_what_runs_how_many_are_done_and_how_long_it_takes(clock):
    shown = started(clock, terminal=True)
    shown.begun(1, "compile_iree", ["module.vmfb", COMPILED])
    clock.now = 12
    finish(shown, 2, "ok", MEASURED, 1)
    line = [part for part in re.split(r"\r|\x1b\[2K", text(shown)) if part][-1]
    assert re.fullmatch(r"1/6 · about \d+ s left · compile conv/mlir/vulkan 12 s", line)
    assert "\n" not in text(shown)


def test_a_failure_is_one_line_that_stays_and_others_leave_none(clock):
    shown = started(clock, terminal=True, width=80)
    shown.begun(1, "compile_iree", [COMPILED])
    shown.begun(2, "verify_iree", [MEASURED])
    shown.begun(3, "compile_iree", ["results/compile/conv/mlir/cpu/status.json"])
    finish(shown, 1, "error", COMPILED, 1)
    finish(shown, 2, "unavailable", MEASURED, 2)
    shown.end()
    assert lines(shown) == ["✗ compile conv/mlir/vulkan: error (why): what"]
    assert "1 failed" in text(shown)


def test_a_long_failure_is_cut_at_the_width_of_the_terminal(clock):
    shown = started(clock, terminal=True, width=60)
    shown.begun(1, "compile_iree", [COMPILED])
    failed = Outcome("error", "compile", "c", "why", "what " * 50 + "\nand more")
    outcome.write(COMPILED, failed, Usage(1, 1))
    shown.finished(1, 1, 6)
    shown.end()
    [line] = lines(shown)
    assert len(line) == 60
    assert line.endswith("…")


def test_the_line_fits_the_terminal_however_much_runs(clock):
    shown = started(clock, terminal=True, width=60)
    for job in range(20):
        shown.begun(job, "compile_iree", [COMPILED])
    drawn = [part for part in re.split(r"\r|\x1b\[2K", text(shown)) if part]
    assert max(map(len, drawn)) < 60


def test_the_line_is_taken_away_before_anything_else_is_written(clock):
    shown = started(clock, terminal=True)
    shown.begun(1, "compile_iree", [COMPILED])
    shown.aside()
    assert text(shown).endswith("\x1b[2K")
    before = text(shown)
    shown.aside()
    assert text(shown) == before


def test_a_log_has_a_line_per_finished_job_and_says_once_a_minute_how_far_it_is(clock):
    shown = started(clock, terminal=False)
    shown.begun(1, "compile_iree", [COMPILED])
    shown.begun(2, "verify_iree", [MEASURED])
    finish(shown, 1, "ok", COMPILED, 1)
    clock.now = 61
    shown.begun(3, "compile_iree", [COMPILED])
    finish(shown, 2, "error", MEASURED, 2)
    said = [" ".join(line.split()) for line in text(shown).splitlines()]
    assert said[0] == "[1/6] compile conv/mlir/vulkan ok 1.5 s"
    assert said[1] == "[2/6] verify conv/mlir/vulkan error 1.5 s why: what"
    assert re.fullmatch(r"2/6 · about .* left · 1 failed · compile conv/mlir/vulkan", said[2])
    assert "\r" not in text(shown)


def test_ci_is_a_log_even_where_it_has_a_terminal(clock, monkeypatch):
    monkeypatch.setenv("CI", "true")
    shown = started(clock, terminal=True)
    shown.begun(1, "compile_iree", [COMPILED])
    finish(shown, 1, "ok", COMPILED, 1)
    assert lines(shown)[0].startswith("[1/6] compile")


def test_making_an_environment_is_announced_in_a_log(clock):
    shown = started(clock, terminal=False)
    shown.begun(1, "make_env", [".venvs/iree/versions.json", "results/env/iree/status.json"])
    assert text(shown) == "making environment iree …\n"


@pytest.mark.parametrize(("rule", "drawn"), [("compile_iree", True), ("time_group", False)])
def test_between_events_the_line_is_drawn_for_builds_and_never_while_latencies_are_timed(
    clock, monkeypatch, rule, drawn
):
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    shown = started(clock, terminal=True)
    made = COMPILED if rule == "compile_iree" else "results/time/conv/cpu/eval/status.json"
    shown.begun(1, rule, [made])
    drawings = []
    ticked = threading.Event()
    real = shown._over.wait

    def wait(seconds: float) -> bool:
        if len(drawings) >= 1 or shown._ticks >= 5:
            ticked.set()
        shown._ticks += 1
        return real(seconds)

    shown._ticks = 0
    monkeypatch.setattr(shown, "_draw", lambda: drawings.append(1))
    monkeypatch.setattr(shown._over, "wait", wait)
    shown.start()
    assert ticked.wait(10)
    shown.end()
    assert bool(drawings) == drawn


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 s"), (59, "59 s"), (61, "1 min"), (3540, "59 min"), (3600, "1 h 0 min"), (12000, "3 h 20 min")],
)  # fmt: skip
def test_seconds_are_said_as_people_say_them(seconds, words):
    assert progress.words(seconds) == words


REMEDY = "results/remedy/conv/mlir/vulkan/status.json"
MISSING = "results/verify/conv/linalg/vulkan/status.json"


def logged(clock, may_make_good=lambda *_: True) -> progress.Live:
    console = Console(file=io.StringIO(), width=160, color_system=None)
    return progress.Live(console, clock, may_make_good)


@pytest.mark.parametrize(
    ("may_make_good", "remedy", "failed"),
    [(True, "ok", 0), (True, "skipped", 1), (False, "skipped", 1)],
)
def test_a_failure_counts_once_and_only_if_no_remedy_repairs_it(
    clock, may_make_good, remedy, failed
):
    shown = logged(clock, lambda *_: may_make_good)
    shown.begun(1, "compile_iree", [COMPILED])
    finish(shown, 1, "error", COMPILED, 1)
    shown.begun(2, "compile_iree_by_remedy", [REMEDY])
    finish(shown, 2, remedy, REMEDY, 2)
    assert shown._failed == failed


@pytest.mark.parametrize(
    ("status", "seconds", "lines"),
    [("ok", 0.01, 0), ("skipped", 0.01, 0), ("error", 0.01, 1), ("ok", 1.5, 1)],
)
def test_a_job_that_had_nothing_to_do_has_no_line(clock, status, seconds, lines):
    shown = logged(clock)
    shown.begun(1, "verify_iree", [MEASURED])
    outcome.write(MEASURED, Outcome(status, "verify", "conv/mlir/vulkan"), Usage(seconds, 1))
    shown.finished(1, 1, 6)
    assert len(text(shown).splitlines()) == lines


def test_a_missing_device_is_said_once(clock):
    shown = logged(clock)
    for job, path in enumerate((MEASURED, MISSING)):
        shown.begun(job, "verify_iree", [path])
        finish(shown, job, "unavailable", path, job + 1)
    assert text(shown).count("unavailable") == 1
