"""`vmfbench compare --against`: the run of another commit, from a history or a branch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.results.results_file import BadRecords
from scripts.tools.compare import compare, history, store
from tests.report_records import records

RESULTS = Path("results")


def git(*words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit() -> str:
    git("commit", "-q", "--allow-empty", "-m", "x")
    return git("rev-parse", "HEAD")


def measured(factor: float) -> None:
    """A run at the present commit, in which compilation took `factor` as long."""
    rows = records()
    for row in rows:
        if row.get("compile"):
            row["compile"]["cpu_s"] = 10.0 * factor
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store.keep(RESULTS / "results.jsonl", "latency")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository whose commits a (on main), b and c (on a branch) have runs; c takes four times as long to compile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)
    git("init", "-q", "-b", "main", ".")
    hashes = [commit()]
    measured(1)
    git("checkout", "-q", "-b", "mine")
    for factor in (1.5, 4):
        hashes.append(commit())
        measured(factor)
    return hashes


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vmfbench compare", *words])
        try:
            code = compare.main()
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.parametrize(
    ("words", "at", "factor"),
    [(["fork-point", "--base", "main"], 0, "4.00"), (["parent"], 1, "2.67"), (["latest"], 1, "2.67")],
)  # fmt: skip
def test_the_run_of_the_commit_is_what_is_compared_with(project, run, words, at, factor):
    code, said, _ = run("--against", *words)
    assert code == 1
    assert said.startswith(f"{words[0]} {project[at][:12]} → results")
    assert f"{factor} × (" in said


def test_the_base_branch_is_that_of_the_pull_request(project, run, monkeypatch):
    git("update-ref", "refs/remotes/origin/next", project[1])
    monkeypatch.setenv("GITHUB_BASE_REF", "next")
    assert run("--against", "fork-point", "--commit") == (0, f"{project[1]}\n", "")


def test_a_commit_without_a_run_is_no_pass(project, run):
    missing, _ = commit(), commit()
    code, said, error = run("--against", "parent")
    assert (code, said) == (2, "")
    assert f"no run of the first parent of HEAD, {missing[:12]}" in error
    assert f"commits with a run: {project[2][:12]}, {project[1][:12]}, {project[0][:12]}" in error


def test_rows_with_files_that_were_changed_are_of_no_commit(project, run):
    Path("model.py").write_text("1")
    git("add", "model.py")
    git("commit", "-q", "-m", "x")
    Path("model.py").write_text("2")
    measured(9)
    git("commit", "-q", "-am", "x")
    code, _, error = run("--against", "parent")
    assert code == 2
    assert "no run of the first parent" in error


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--against", "fork-point", "--base", "mine"], "is a commit of mine itself; use --against parent"),
        (["--against", "fork-point", "--base", "origin/none"], "fetch-depth: 0"),
        (["--against", "parent", "a", "b"], "name two folders or files"),
        (["--against", "parent", "--toolchain", "a", "b"], "name two folders or files"),
        (["--against", "latest", "--commit"], "give --against fork-point or parent"),
        (["a"], "name two folders or files"),
    ],
)  # fmt: skip
def test_commits_and_options_that_cannot_be_compared_are_named(project, run, words, problem):
    code, _, error = run(*words)
    assert code == 2
    assert problem in error


def test_a_history_may_be_a_branch(project, run):
    shutil.copytree(RESULTS / "history", "kept")
    git("checkout", "-q", "--orphan", "runs")
    git("--work-tree", "kept", "add", "--all")
    git("commit", "-q", "-m", "runs")
    git("checkout", "-qf", "mine")
    shutil.rmtree(RESULTS / "history")
    shutil.rmtree("kept")
    code, said, _ = run("--against", "parent", "--history", "runs")
    assert code == 1
    assert said.startswith(f"parent {project[1][:12]} → results")
    code, _, error = run("--against", "parent", "--history", "runs", "--why")
    assert code == 2
    assert "--why, --remeasure and --recompile have nothing to read" in error


@pytest.fixture
def shared(project, monkeypatch):
    """Publishes the history of the folder to the branch `runs` of a bare repository; returns what was said."""
    git("init", "-q", "--bare", "shared.git")
    git("remote", "add", "origin", "shared.git")

    def publish(name="origin/runs") -> str:
        return store.publish(RESULTS / "history", name)

    publish.entries = lambda: git("ls-tree", "--name-only", "origin/runs").splitlines()
    return publish


def test_a_history_is_published_to_a_branch_and_compared_with(project, shared, run):
    before = git("status", "--porcelain"), git("branch", "--list")
    assert shared() == "6 files were added to origin/runs"
    assert shared() == "origin/runs has these runs already"
    assert shared.entries() == sorted(path.name for path in (RESULTS / "history").iterdir())
    assert (git("status", "--porcelain"), git("branch", "--list")) == before
    shutil.rmtree(RESULTS / "history")
    code, said, _ = run("--against", "parent", "--history", "origin/runs")
    assert (code, said.startswith(f"parent {project[1][:12]} → results")) == (1, True)
    code, said, _ = run("--against", "latest", "--history", "origin/runs")
    assert (code, said.startswith(f"latest {project[1]}"[:19])) == (1, True)


def test_what_others_have_published_stays_and_an_entry_is_of_the_commits_of_all(shared):
    shutil.copytree(RESULTS, "theirs")
    shared()
    first = min((RESULTS / "history").glob("*.json"))
    both = []
    for number, folder in enumerate(("theirs", "results")):
        path = Path(folder, "history", first.name)
        entry = json.loads(path.read_text())
        both.append(f"c{number}")
        path.write_text(json.dumps(entry | {"commits": [*entry["commits"], both[-1]]}))
    assert (
        store.publish(Path("theirs/history"), "origin/runs") == "1 files were added to origin/runs"
    )
    measured(7)
    assert shared() == "3 files were added to origin/runs"
    kept = json.loads(git("show", f"origin/runs:{first.name}"))
    assert kept["commits"][-2:] == both


def test_another_push_at_the_same_time_is_no_failure(shared, monkeypatch):
    pushed = []

    def racing(*words: str, **variables: str) -> bytes:
        if words[0] == "push" and not pushed:
            pushed.append(words)
            shutil.copytree(RESULTS, "theirs")
            for path in sorted(Path("theirs/history").iterdir())[2:]:
                path.unlink()
            store.publish(Path("theirs/history"), "origin/runs")
        return done(*words, **variables)

    done = store.git
    monkeypatch.setattr(store, "git", racing)
    assert shared() == "4 files were added to origin/runs"
    assert len(shared.entries()) == 6


def test_only_whole_files_of_runs_are_published(shared):
    folder = RESULTS / "history"
    Path("secret").write_text("s")
    (folder / "secret").symlink_to("../../secret")
    (folder / "notes.txt").write_text("mine")
    assert shared() == "6 files were added to origin/runs"
    assert {"secret", "notes.txt"} & {*shared.entries()} == set()
    passes = next(folder.glob("*.zst")).with_suffix("").with_suffix(store.PASSES)
    passes.symlink_to("../../secret")
    with pytest.raises(BadRecords, match=r"passes.zst: is a link, expected a file"):
        shared()
    passes.unlink()
    next(folder.glob("*.jsonl.zst")).write_bytes(b"other")
    with pytest.raises(BadRecords, match="cannot be read"):
        shared()
    (folder / "other.json").write_text("{}")
    with pytest.raises(BadRecords, match="not an entry of a history"):
        shared()


@pytest.mark.parametrize(
    ("name", "said"),
    [("runs", "expected REMOTE/BRANCH, such as origin/runs"), ("nowhere/runs", "nowhere")],
)
def test_a_branch_that_cannot_be_written_is_named(shared, monkeypatch, capsys, name, said):
    monkeypatch.setattr(sys, "argv", ["vmfbench history", "--publish", name])
    with pytest.raises(SystemExit):
        history.main()
    assert said in capsys.readouterr().err


def test_the_folder_of_the_run_is_found_beside_its_history(project, tmp_path):
    shutil.copytree(RESULTS, "before/results")
    git("checkout", "-q", project[2])
    _, _, folder = compare.find_run("parent", "", "before/results/history", RESULTS)
    assert folder is None  # its rows are those of another commit
    git("commit", "-q", "--allow-empty", "-m", "x")
    _, _, folder = compare.find_run("parent", "", "before/results/history", RESULTS)
    assert folder == Path("before/results")
