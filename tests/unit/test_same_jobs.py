"""What a run does stays the same while the code moves: inputs, params, requests and commands of every job.

`VMFBENCH_UPDATE=1 python -m pytest tests/unit/test_same_jobs.py` accepts the jobs as they are now. The commit that does
so says what has changed.
"""

import importlib
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.core import requests
from tests.checkouts import ROOT, environment

DATA = Path(__file__).parent / "data"
MODELS = "models=conv,gpt2,mobilenet,llama-qlora"
RUNS = {
    "rows": (
        [
            "results/latency.csv",
            "results/tuned.csv",
            "results/kernels.csv",
            "results/operators.csv",
            "results/coverage.md",
            "results/report.html",
            "dumps",
            "profile",
            "code",
            "compile_time",
        ],
        [MODELS, "tests=eval,train"],
    ),
    "toolchains": (
        ["results/latency.csv"],
        ["models=conv", "toolchains=pinned,iree-3.12", "measure={threads: [1, 2]}"],
    ),
}
"""Targets and configuration of each dry run."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The project's files, without results."""
    to = tmp_path_factory.mktemp("jobs")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith(("docs/", "tests/unit/data/")):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name, follow_symlinks=False)
    return to


def by_name(lines: str) -> dict[str, dict]:
    """Jobs by their rule and outputs."""
    found = (json.loads(line) for line in lines.splitlines())
    return {" ".join([job["rule"], *job["output"], *job["log"]]): job for job in found}


WITHOUT_TORCH = {
    "compile_iree", "dump_iree", "make_env", "profile_compile", "profile_group", "read_code", "time_group",
    "time_operators", "verify_baseline", "verify_iree",
}  # fmt: skip
"""Stages whose modules this process can import."""


def assert_decodes(words: list[str]) -> None:
    """Decode the request of a command of a rule as its stage does."""
    fields = json.loads(words[words.index("--request") + 1])
    for at, word in enumerate(words):
        if word == "--file":
            fields[words[at + 1]] = words[at + 2]
        elif word == "--files":
            end = next(i for i in range(at + 1, len(words)) if words[i].startswith("--"))
            fields[words[at + 1]] = words[at + 2 : end]
        elif word == "--field":
            fields[words[at + 1]] = json.loads(words[at + 2])
    name = words[words.index("--run") + 1]
    if name.rpartition(".")[2] in WITHOUT_TORCH:
        source = (ROOT / f"{name.replace('.', '/')}.py").read_text()
        kind = re.search(r"requests\.run\((\w+), ", source)[1]
        module = importlib.import_module(name)
        assert requests.decode(getattr(module, kind), fields)


@pytest.mark.parametrize("run", RUNS)
def test_every_job_reads_writes_requests_and_runs_what_it_did(run, folder, tmp_path):
    targets, config = RUNS[run]
    out = tmp_path / "jobs.jsonl"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/list_jobs.py", *targets, "--config", *config, "--out", out],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    jobs = out.read_text().replace(str(folder), "CHECKOUT")
    stored = DATA / f"jobs-{run}.jsonl.xz"
    if os.environ.get("VMFBENCH_UPDATE"):
        stored.write_bytes(lzma.compress(jobs.encode()))
    expected, found = by_name(lzma.decompress(stored.read_bytes()).decode()), by_name(jobs)
    assert sorted(found) == sorted(expected)
    for job in found.values():
        # A remedy sets the fields of each attempt itself.
        if "--request" in job["command"] and "--asked" not in job["command"]:
            assert_decodes(shlex.split(job["command"]))
    for name, job in expected.items():
        assert found[name] == job
