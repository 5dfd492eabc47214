"""bisect: releases of an index and of wheels, trials, what is good and bad, and what is written about the bisection."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from scripts.core.requests import StageRequest
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.supervise.outcome import Outcome
from scripts.tools.compare import bisect, bisection
from scripts.tools.compare.bisection import Candidate, NoCandidates, Side, Trial
from tests.unit import test_bundle

CELL = "conv/mlir/llvm-cpu"
FOLDER = Path("results/bisect/conv__mlir__llvm-cpu")
tree = test_bundle.tree
STANDIN = """\
import json, pathlib, sys
fields, out = json.load(open(sys.argv[4]))["fields"], pathlib.Path(sys.argv[6])
assert fields.get("vmfb") not in (["a", "b"], "b")  # modules of the run
does = json.loads({does!r})
print("iree-compile says this")
if does.get("error"):
    print(f"{{fields['program']}}:2:1: error: {{does['error']}}")
    sys.exit(1)
if sys.argv[2] == "scripts.stages.verify_iree":
    if does.get("wrong"):
        print("error: FAIL: differs")
        sys.exit(4)
    found = {{"flags": [f"--ms={{does.get('ms', 1.0)}}"], "threads": 1}}
    (out / "verification.json").write_text(json.dumps(found))
elif sys.argv[2] == "scripts.tools.profile.profile_iree":
    dispatches = [{{"function": "d0", "ms": does.get("ms", 1.0), "nodes": [["n", "aten.mm", "fc"]]}}]
    (out / "profile.json").write_text(json.dumps({{"dispatches": dispatches}}))
elif sys.argv[2] == "scripts.tools.profile.profile_compile":
    own = does["cpu_s"]
    passes = [{{"name": "Unroll", "s": own - 2}}, {{"name": "CSE", "s": 1.5}}]
    program = {{"status": does.get("profile", "ok"), "detail": "it hangs"}}
    (out / "compile.json").write_text(json.dumps({{"program": program, "total_s": own, "passes": passes}}))
else:
    # Other work on the machine adds to each compilation but the last one.
    times = pathlib.Path(sys.argv[0]).with_name("times")
    before = len(times.read_text()) if times.exists() else 0
    times.write_text("x" * (before + 1))
    cpu_s = does["cpu_s"] * (1 if before == 2 else 3 - before) if "cpu_s" in does else None
    (out / "module.vmfb").write_bytes(b"x" * does.get("bytes", 100))
    (out / "report.json").write_text(json.dumps({{"compile_s": 1.0, "cpu_s": cpu_s, "dispatch_count": 3, "vmfb_bytes": does.get("bytes", 100)}}))
"""


def wheel(folder: Path, name: str, version: str) -> Path:
    """Write a wheel without contents."""
    folder.mkdir(exist_ok=True)
    base = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{base}-py3-none-any.whl"
    about = f"{base}.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")  # fmt: skip
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")  # fmt: skip
        made.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """The only place where uv looks for packages."""
    for version in ("3.8.0", "3.9.0", "3.10.0", "3.11.0rc1", "3.11.0", "3.12.0"):
        wheel(tmp_path / "wheels", bisection.COMPILER, version)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "wheels"


def versions(releases: list[Candidate]) -> list[str]:
    return [release.version for release in releases]


def test_releases_are_those_of_the_index_in_the_order_from_good_to_bad(index):
    found = bisection.releases_of_index("3.9", "3.12.0")
    assert versions(found) == ["3.9.0", "3.10.0", "3.11.0", "3.12.0"]
    assert found[0].packages == ("iree-base-compiler==3.9.0", "iree-base-runtime==3.9.0")
    improved = bisection.releases_of_index("3.12.0", "3.11.0", prereleases=True)
    assert versions(improved) == ["3.12.0", "3.11.0"]
    assert "3.11.0rc1" in versions(bisection.releases_of_index("3.10.0", "3.11.0", True))
    for ends, problem in (
        (("3.8.0", "3.13.0"), "iree-base-compiler 3.13.0 is not in the package index"),
        (("3.8.0", "3.8"), "are both 3.8.0"),
        (("main", "3.8.0"), "'main' is not a version"),
    ):
        with pytest.raises(NoCandidates, match=problem):
            bisection.releases_of_index(*ends)


def test_own_wheels_are_releases_by_their_versions(tmp_path):
    folder, ends = tmp_path / "w", ("3.14.0.dev2", "3.14.0.dev10", "3.14.0.dev1")
    wheels = [wheel(folder, bisection.COMPILER, version) for version in ends]
    wheels.append(wheel(folder, bisection.RUNTIME, "3.14.0.dev2"))
    found = bisection.releases_of_wheels(wheels, None, None)
    assert versions(found) == ["3.14.0.dev1", "3.14.0.dev2", "3.14.0.dev10"]
    assert [len(release.packages) for release in found] == [1, 2, 1]
    assert found[1].packages[0].startswith("iree-base-compiler @ file://")
    older = bisection.releases_of_wheels(wheels, "3.14.0.dev10", "3.14.0.dev2")
    assert versions(older) == ["3.14.0.dev10", "3.14.0.dev2"]
    runtime = wheel(folder, bisection.RUNTIME, "9.0")
    for chosen, runs, problem in (
        (wheels, True, "no wheel of iree-base-runtime"),
        (wheels[:1], False, "at least two"),
        ([wheel(folder, "numpy", "2.0")], False, "a wheel of numpy"),
        ([wheels[0], runtime], False, "and none of iree-base-compiler"),
    ):
        with pytest.raises(NoCandidates, match=problem):
            bisection.releases_of_wheels(chosen, None, None, runs)


def ended(status: str = "ok", reason: str = "", detail: str = "", **report: float) -> Trial:
    report = {"vmfb_bytes": 100} | report if status == "ok" else {}
    return Trial(Candidate("1", ()), Outcome(status, "compile", CELL, reason, detail), Path("log"), report=report)  # fmt: skip


FAILS = ended("error", "legalization", "failed to legalize operation 'a.b' [program.mlir:3: x]")
ELSEWHERE = ended("error", "legalization", "failed to legalize operation 'a.b' [program.mlir:9: y]")
OTHER = ended("crashed", "SIGSEGV", "killed by SIGSEGV")
FLAG = ended("error", "bad-flag", "unknown command line argument")
UNPARSED = ended("error", "program-version", "cannot parse the program")
WRONG = ended("error", "wrong-result", "FAIL")
OK = ended()


@pytest.mark.parametrize(
    ("name", "ends", "of", "side"),
    [
        ("broken", (OK, FAILS), OK, Side.GOOD),
        ("broken", (OK, FAILS), ELSEWHERE, Side.BAD),
        ("broken", (OK, FAILS), OTHER, Side.BAD),
        ("broken", (OK, FAILS), FLAG, Side.NEITHER),
        ("broken", (OK, FAILS), UNPARSED, Side.NEITHER),
        ("wrong", (OK, WRONG), WRONG, Side.BAD),
        ("wrong", (OK, WRONG), FAILS, Side.NEITHER),
        ("other-reason", (FAILS, OTHER), ELSEWHERE, Side.GOOD),
        ("other-reason", (FAILS, OTHER), OTHER, Side.BAD),
        ("other-reason", (FAILS, OTHER), OK, Side.NEITHER),
    ],
)
def test_a_release_is_like_one_of_the_ends_or_neither(name, ends, of, side):
    asked = bisect.QUESTIONS[name]
    assert bisect.unlike(asked, *ends) == ""
    assert asked.side(*ends, of) is side


@pytest.mark.parametrize(
    ("name", "ends", "problem"),
    [
        ("broken", (FAILS, FAILS), "the good end: error (legalization): failed to legalize"),
        ("broken", (OK, OK), "the bad end: ok, 100 bytes; the good one must work"),
        ("broken", (OK, FLAG), "the bad end: error (bad-flag): unknown command line argument"),
        ("wrong", (OK, FAILS), "the good one must be right, and the bad one wrong"),
        ("other-reason", (FAILS, ELSEWHERE), "both must fail, and not in the same way"),
        ("other-reason", (OK, OTHER), "the good end: ok, 100 bytes"),
    ],
)
def test_ends_that_do_not_differ_as_asked_are_named(name, ends, problem):
    assert problem in bisect.unlike(bisect.QUESTIONS[name], *ends)


@pytest.mark.parametrize(
    ("name", "key", "ends", "values", "almost", "too_little"),
    [
        ("larger", "vmfb_bytes", (1000, 4000), (900, 1900, 2100, 9000), 1005, "ok, 1,005 bytes; the bad one must be at least 1.01 times as large"),
        ("compiles-slower", "cpu_s", (10.0, 20.0), (9.0, 14.0, 14.3, 30.0), 11.0, "compiled in 11 CPU s; the bad one must take at least 1.2"),
    ],
)  # fmt: skip
def test_a_value_belongs_to_the_end_that_it_is_nearer_to(
    name, key, ends, values, almost, too_little
):
    asked = bisect.QUESTIONS[name]
    good, bad, *trials = (ended(**{key: value}) for value in (*ends, *values))
    assert bisect.unlike(asked, good, bad) == ""
    sides = [asked.side(good, bad, trial) for trial in trials]
    assert sides == [Side.GOOD, Side.GOOD, Side.BAD, Side.BAD]
    assert asked.side(good, bad, FAILS) is Side.NEITHER
    assert too_little in bisect.unlike(asked, good, ended(**{key: almost}))


def test_the_environment_of_a_release_has_the_other_pins_of_iree(tmp_path, monkeypatch):
    asked: list[tuple[str, ...]] = []

    def uv(*words: str) -> subprocess.CompletedProcess:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(bisection, "_uv", uv)
    release = Candidate("3.9.0", ("iree-base-compiler==3.9.0",))
    python, said = bisection.make_environment(release, tmp_path / "e")
    assert said == ""
    packages = asked[1][asked[1].index(str(python)) + 1 :]
    assert packages[0] == "iree-base-compiler==3.9.0"
    assert any(one.startswith("numpy==") for one in packages)
    assert not any(one.startswith("iree-") for one in packages[1:])


@pytest.fixture
def bundled(tree) -> None:
    """A results tree whose artifacts are whole."""
    tree()


@pytest.fixture
def releases(bundled, monkeypatch, nothing_is_left):
    """What each release of the index does; environments are stand-ins of Python that do it."""
    does: dict[str, dict] = {}

    def listed(good: str, bad: str, prereleases: bool) -> list[Candidate]:
        names = sorted(does, key=Version, reverse=Version(good) > Version(bad))
        return [Candidate(one, ()) for one in names[names.index(good) : names.index(bad) + 1]]

    def make(candidate: Candidate, folder: Path) -> tuple[Path, str]:
        if does[candidate.version].get("missing"):
            raise bisection.CannotInstall("No solution found\nno wheel of this version")
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        script = folder / "standin.py"
        script.write_text(STANDIN.format(does=json.dumps(does[candidate.version])))
        python.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        return python, "IREE compiler version X @ abc"

    monkeypatch.setattr(bisection, "releases_of_index", listed)
    monkeypatch.setattr(bisection, "make_environment", make)
    return does


@pytest.fixture
def run(monkeypatch, capsys):
    def call(good: str, bad: str, *words: str) -> str:
        words = ("--cell", CELL, "--good", good, "--bad", bad, *words)
        monkeypatch.setattr(sys, "argv", ["x", *words])
        bisect.main()
        return capsys.readouterr().out

    return call


def issue() -> str:
    return (FOLDER / "ISSUE.md").read_text()


def report() -> dict:
    return json.loads((FOLDER / "bisection.json").read_text())


ERROR = "failed to legalize operation 'vector.broadcast'"


def test_the_first_release_that_fails_is_found_with_reproducers_and_an_issue(
    releases, run, monkeypatch
):
    asked, supervised = [], bisection.supervise.run

    def supervise(job):
        asked.append(job.request)
        return supervised(job)

    monkeypatch.setattr(bisection.supervise, "run", supervise)
    releases |= {f"3.{minor}.0": {} if minor < 10 else {"error": ERROR} for minor in range(8, 13)}
    shown = run("3.8.0", "3.12.0")
    assert "5 releases: 3.8.0, 3.9.0, 3.10.0, 3.11.0, 3.12.0" in shown
    assert (
        f"{CELL}: 3.10.0 is the first bad release: error (legalization) (3.9.0: ok, 100 bytes)"
        in shown
    )
    names = {"3.9.0", "3.10.0", "ISSUE.md", "bisection.json"}
    assert {path.name for path in FOLDER.iterdir()} == names
    found = report()
    ends = [found[key] for key in ("good", "bad", "first", "between")]
    assert ends == ["3.9.0", "3.10.0", "3.10.0", []]
    tried = {trial["version"] for trial in found["trials"]}
    assert len(tried) == 4
    # Flags by the names that each release has.
    assert {request.fields["toolchain"] for request in asked} == tried
    for version in ("3.9.0", "3.10.0"):
        script = (FOLDER / version / "run.sh").read_text()
        assert f"iree-base-compiler=={version}" in script
        assert "program.mlir \\\n    -o module.vmfb" in script
        assert "iree-run-module" not in script
    assert issue().splitlines()[2] == f"# [since 3.10.0: broken] {ERROR}"
    assert "| 3.9.0 | ok, 100 bytes |\n| 3.10.0 | error (legalization) |" in issue()
    assert f"error: {ERROR}" in issue()
    assert str(Path.cwd()) not in issue()
    assert "/bisect-" not in issue()


def test_a_release_that_compiles_slower_is_explained_by_passes(releases, run):
    for minor, cpu_s in ((8, 3.0), (9, 3.1), (10, 6.0), (11, 6.2)):
        releases[f"3.{minor}.0"] = {"cpu_s": cpu_s}
    words = ("3.8.0", "3.11.0", "--if", "compiles-slower")
    assert "3.10.0 is the first bad release: ok, 100 bytes, compiled in 6 CPU s" in run(*words)
    assert "| pass | s with 3.9.0 | s with 3.10.0 | share of all before |" in issue()
    assert "| Unroll | 1.10 | 4.00 | +93.5% |" in issue()
    assert "CSE" not in issue()
    releases["3.10.0"]["profile"] = "timeout"
    run(*words)
    assert "There is no comparison of passes: 3.10.0: it hangs." in issue()


def test_the_issue_has_the_reduced_program_of_a_bundle_of_the_same_program(releases, run):
    releases |= {"3.8.0": {}, "3.9.0": {"error": ERROR}, "3.10.0": {"error": ERROR}}
    bundle = Path("results/bundles/conv__mlir__llvm-cpu")
    bundle.mkdir(parents=True)
    test_bundle.reduction(bundle)
    for program, is_same in (("func.func @main()\n", True), ("func.func @other()\n", False)):
        (bundle / "program.mlir").write_text(program)
        run("3.8.0", "3.10.0")
        assert ("| O2 | wrong |" in issue()) is is_same


def test_an_improvement_is_found_from_the_newer_end(releases, run):
    releases |= {f"3.{minor}.0": {"error": ERROR} if minor < 10 else {} for minor in range(8, 13)}
    shown = run("3.12.0", "3.8.0")
    assert "3.10.0 is the first good release: ok, 100 bytes (3.9.0: error" in shown
    assert "# [since 3.10.0: no longer broken]" in issue()
    assert "3.9.0/run.sh` (bad) and `3.10.0/run.sh` (good)" in issue()
    found = report()
    assert (found["good"], found["bad"], found["first"]) == ("3.10.0", "3.9.0", "3.10.0")


def test_releases_that_cannot_be_judged_are_passed_over_and_named(releases, run):
    releases |= {"3.8.0": {}, "3.9.0": {"missing": True}, "3.10.0": {"error": "unknown option"}}
    releases |= {"3.11.0": {"error": ERROR}, "3.12.0": {"error": ERROR}}
    assert "Between the two, 3.9.0, 3.10.0 could not be judged" in run("3.8.0", "3.12.0")


def test_a_larger_module_and_a_wrong_result_are_found(measured, run):
    measured |= {"3.9.0": {"bytes": 100}, "3.10.0": {"bytes": 110}}
    measured |= {f"3.{minor}.0": {"bytes": 200, "wrong": True} for minor in (11, 12)}
    for question in ("larger", "wrong"):
        shown = run("3.9.0", "3.12.0", "--if", question)
        assert "3.11.0 is the first bad release" in shown
    assert "--expected_output=" in (FOLDER / "3.11.0/run.sh").read_text()


@pytest.fixture
def measured(releases) -> dict[str, dict]:
    """The same of a cell that was measured."""
    fields = {"vmfb": ["a", "b"], "weights": "w", "exported": []}
    verified = StageRequest("scripts.stages.verify_iree", ".venvs/iree/bin/python", fields)
    verified.write(Path(f"results/verify/{CELL}"))
    return releases


@pytest.fixture
def in_turns(monkeypatch) -> list[list[str]]:
    """The modules of each session of turns. From generation to generation, they differ by 0.1 %."""
    sessions: list[list[str]] = []

    def values(member, number: int) -> tuple[float, ...]:
        ms = float(member.command[-1].removeprefix("--ms="))
        return tuple(ms * (1 + 0.001 * ((at + number) % 3)) for at in range(8))

    def take(members, rule) -> GroupTiming:
        sessions.append([one.name for one in members])
        assert all(one.command[1:3] == ("-m", "scripts.stages.time_module") for one in members)
        found = {one.name: MemberTiming(values_ms=values(one, at)) for at, one in enumerate(members)}  # fmt: skip
        return GroupTiming(0.0, "{}", "", found, (PartTiming(8, tuple(range(8))),))

    monkeypatch.setattr(bisect.members, "time_in_turns", take)
    return sessions


def test_a_slower_release_is_found_by_timing_it_beside_both_ends(
    measured, in_turns, run, monkeypatch
):
    monkeypatch.setattr(bisection.tools, "program", lambda name, env: env / name)
    measured |= {"3.9.0": {"ms": 1.0}, "3.10.0": {"ms": 1.2}, "3.11.0": {"ms": 1.9}, "3.12.0": {"ms": 2.0}}  # fmt: skip
    shown = run("3.9.0", "3.12.0", "--if", "slower")
    assert (
        "3.11.0 is the first bad release: ok, 100 bytes, 1.9 ms (3.10.0: ok, 100 bytes, 1.2 ms)"
        in shown
    )
    assert "in turns: 3.12.0 takes 2.00" in shown
    assert in_turns[0] == ["3.12.0", "3.9.0"]
    assert in_turns[1] == ["3.10.0", "3.9.0", "3.12.0"]
    assert "| aten.mm (fc) | 1.2 | 1.9 | `d0` |" in issue()
    assert "iree-benchmark-module" in issue()
    monkeypatch.setattr(bisection.tools, "program", lambda name, env: None)
    run("3.9.0", "3.12.0", "--if", "slower")
    assert "There is no comparison of dispatches: IREE 3.10.0 has no iree-profile." in issue()


def test_ends_of_about_the_same_latency_are_not_bisected(measured, in_turns, run, capsys):
    measured |= {"3.9.0": {"ms": 1.0}, "3.10.0": {"ms": 1.02}}
    with pytest.raises(SystemExit):
        run("3.9.0", "3.10.0", "--if", "slower")
    assert "it must be at least 1.03 times" in capsys.readouterr().err
    assert len(in_turns) == 2  # timed again, as the first session does not decide


def test_dispatches_are_matched_by_what_they_compute():
    def one(function: str, ms: float, *nodes: list[str]) -> dict:
        return {"function": function, "ms": ms, "nodes": list(nodes)}

    mm, add = ["a", "aten.mm", "fc"], ["b", "aten.add", ""]
    before = [one("d0_mm", 1.0, mm), one("d1_mm", 1.0, mm), one("d2", 5.0, add)]
    after = [one("d0_other_name", 3.0, mm, add), one("d9", 0.5)]
    found = bisection.moved(before, after)
    assert [change[:3] for change in found] == [
        ("aten.mm (fc)", 2.0, 3.0),
        ("d9", 0.0, 0.5),
        ("aten.add (b)", 5.0, 0.0),
    ]
    assert found[0][3] == ["d0_mm", "d1_mm", "d0_other_name"]


def test_ends_are_confirmed_first(releases, run, capsys):
    releases |= {"3.8.0": {}, "3.9.0": {}, "3.10.0": {}}
    with pytest.raises(SystemExit):
        run("3.8.0", "3.10.0")
    shown = capsys.readouterr()
    assert "3.10.0, the bad end: ok, 100 bytes" in shown.err
    assert "3.9.0: ok" not in shown.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("", ""), "give both ends"),
        (("1", "2", "--results", "no"), "no/results.jsonl: no such file"),
    ],
)
def test_what_is_missing_is_named(bundled, run, capsys, words, problem):
    with pytest.raises(SystemExit):
        run(*words)
    assert problem in capsys.readouterr().err
