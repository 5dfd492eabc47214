"""results/fuzz.csv through workflow/profiles/slurm on a real Slurm: each part has a node's cores and a share of the graphs."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import pytest

from tests.checkouts import ROOT, environment

PARTS = 2
LINE = (
    *("--profile", os.fspath(ROOT / "workflow/profiles/slurm"), "results/fuzz.csv"),
    *("--slurm-init-seconds-before-status-checks", "1", "--slurm-status-command", "squeue"),
)


@pytest.fixture(scope="module")
def run(environments, slurm, tmp_path_factory):
    """A function that runs the parts with further options of `vmfbench fuzz`, and the folder in which it does."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / ".venvs").symlink_to(environments)

    def run(options: str):
        fuzz = {"parts": PARTS, "minutes": 0.4, "options": options}
        start = [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", *LINE]
        return subprocess.run(
            [*start, "--config", f"fuzz={json.dumps(fuzz)}"],
            cwd=folder,
            env=environment() | slurm.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return folder, run


def test_an_operator_that_is_not_there_stops_before_a_job_is_submitted(run, slurm):
    _, run = run
    done = run("--operators nagative")
    assert done.returncode
    assert "no operator of graphs" in done.stdout + done.stderr
    assert not slurm.jobs()


def test_parts_share_the_graphs_and_their_causes_are_in_one_table(run, slurm):
    folder, run = run
    done = run("--operators square erfc")
    assert not done.returncode, done.stderr[-4000:]
    jobs = slurm.jobs()
    assert [(job.state, job.cpus) for job in jobs] == [("COMPLETED", 2)] * PARTS
    journals = folder.glob("results/fuzz/*/[0-3]/journal.jsonl")
    lines = [json.loads(line) for file in journals for line in file.read_text().splitlines()]
    results = [line["result"] for line in lines if line.get("result", {}).get("done")]
    firsts = [result["task"]["first"] for result in results if "first" in result["task"]]
    assert len(firsts) == len({*firsts}) > 0
    with (folder / "results/fuzz.csv").open(encoding="utf-8") as file:
        assert "erfc.default" in {row["operators"] for row in csv.DictReader(file)}
