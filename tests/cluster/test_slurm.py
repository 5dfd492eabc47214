"""The workflow through workflow/profiles/slurm on a real Slurm: retries, loss and repair."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from tests.checkouts import ROOT, environment
from tests.cluster.slurm import NODES, Job, Slurm
from tests.cluster.stubs import Stubs, planned, repair

SLURM = (
    *("--profile", "workflow/profiles/slurm", "results/latency.csv"),
    # This Slurm has no accounting.
    *("--slurm-init-seconds-before-status-checks", "1", "--slurm-status-command", "squeue"),
)
STATE_SAVE_SECONDS = 6
"""slurmctld writes what it knows every five seconds; what it has forgotten, the node gives up."""
NOT_REPORTED = "the scheduler did not report"
MORE_THAN_ASKED_MB = 4500
"""3000 MiB are what a compilation asks for at first."""


@dataclass
class Life:
    """A checkout of stubs on the Slurm of the tests, and what was submitted for it."""

    checkout: Stubs
    slurm: Slurm

    def __post_init__(self) -> None:
        self._before = {job.number for job in self.slurm.jobs()}

    def submissions(self, of: str = "") -> list[Job]:
        """Since this was made, the first one first; `of` is in the name of its group."""
        jobs = [job for job in self.slurm.jobs() if job.number not in self._before]
        return [job for job in jobs if of in job.comment]

    def stage_runs(self, stage: str, cell: str) -> bool:
        return (self.checkout.path / "results" / stage / cell / ".scratch").exists()

    def end(self, code: int = 0) -> None:
        """Wait for the run to end; where it does not, say what Slurm knew of it."""
        try:
            self.checkout.end(code=code)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.slurm.account()}") from None


@pytest.fixture(scope="module")
def life(make_stubs, slurm):
    """Three models by four targets."""
    return Life(make_stubs(3, slurm.environment), slurm)


@pytest.fixture(scope="module")
def disturbed(life):
    """A run in which one cell fails, one needs more memory than was asked for, one submission is
    cancelled, and, while both are compiling, the daemons are restarted and the node is drained.

    A job that ends while slurmctld is away is CANCELLED when it is back: none ends until then.
    """
    away = life.checkout.path / "daemons-are-away"
    away.touch()
    hold = f"python3 -c 'import time; b = bytearray({MORE_THAN_ASKED_MB} << 20); time.sleep(3)'"
    life.checkout.behave(
        f"*scripts.stages.compile_iree*m00000*t1*) while [ -e {away} ]; do sleep 0.2; done; {hold}",
        "*scripts.stages.compile_iree*m00001*t2*) sleep 300",
        "*scripts.stages.export_program*m00002*) echo error: no such operator; exit 1",
    )
    life.checkout.start(*SLURM)
    for cell in ("m00000/stub/t1", "m00001/stub/t2"):
        life.checkout.wait_for(lambda cell=cell: life.stage_runs("compile", cell), "a compilation")
    slurm = life.slurm
    time.sleep(STATE_SAVE_SECONDS)
    slurm.stop_daemon("slurmctld", kill=True)
    for node in NODES:
        slurm.stop_daemon(node)
    life.checkout.wait_for(lambda: NOT_REPORTED in life.checkout.output(), "a look at the jobs")
    slurm.start_daemon("slurmctld")
    for node in NODES:
        slurm.start_daemon(node)
    (victim,) = [j for j in life.submissions("build-m00001") if j.state == "RUNNING"]
    slurm.command("scontrol", "update", f"nodename={victim.node}", "state=drain", "reason=test")
    life.checkout.behave(f"*scripts.stages.compile_iree*m00000*t1*) {hold}", "*scripts.stages.export_program*m00002*) echo error: no such operator; exit 1")  # fmt: skip
    slurm.command("scancel", victim.number)
    slurm.command("scontrol", "update", f"nodename={victim.node}", "state=resume")
    away.unlink()
    life.end()
    return life


def statuses(checkout) -> list[str]:
    return [row["status"] for row in checkout.rows()]


def test_what_daemons_nodes_and_scancel_do_loses_no_row(disturbed):
    rows = {(row["model"], row["status"]) for row in disturbed.checkout.rows()}
    assert rows == {("m00000", "ok"), ("m00001", "ok"), ("m00002", "error")}
    assert len(disturbed.checkout.rows()) == 12


def test_while_slurm_does_not_answer_the_run_says_so_and_asks_again(disturbed):
    assert NOT_REPORTED in disturbed.checkout.output()


def test_a_cancelled_submission_is_submitted_again(disturbed):
    builds = [job.state for job in disturbed.submissions("build-m00001")]
    assert builds == ["CANCELLED", "COMPLETED"]


def test_a_stage_that_needs_more_than_was_asked_for_is_submitted_again_with_more(disturbed):
    first, second = disturbed.submissions("build-m00000")
    assert (first.state, second.state) == ("FAILED", "COMPLETED")
    assert second.memory_mb > first.memory_mb


def test_a_failed_cell_takes_no_other_along_and_is_not_submitted_again(disturbed):
    (build,) = disturbed.submissions("build-m00002")
    assert build.state == "COMPLETED"
    others = {job.state for job in disturbed.submissions() if "build" not in job.comment}
    assert others == {"COMPLETED"}


def test_a_site_without_accounting_is_told_before_anything_is_submitted(disturbed):
    before = len(disturbed.slurm.jobs())
    asked = ("--slurm-status-command", "sacct", "--config", "retry=all")
    refused = disturbed.checkout.snakemake(*SLURM[:3], *asked, check=False)
    assert refused.returncode != 0
    assert "set `slurm-status-command: squeue`" in refused.stdout
    assert len(disturbed.slurm.jobs()) == before


@pytest.fixture(scope="module")
def repaired(disturbed):
    """After a repair: what a dry run says, and a run that is killed, refused, and started again."""
    checkout = disturbed.checkout
    disturbed.first, disturbed.done = disturbed.submissions(), checkout.made()
    checkout.behave("*scripts.stages.compile_iree*m00002*t2*) sleep 120")
    repair(checkout.path / "models/m00002.py")
    disturbed.said = planned(checkout.snakemake("-n", *SLURM).stdout)
    checkout.start(*SLURM)
    checkout.wait_for(lambda: disturbed.stage_runs("compile", "m00002/stub/t2"), "a compilation")
    checkout.kill()
    disturbed.left = [job for job in disturbed.submissions() if job.state == "RUNNING"]
    checkout.behave()
    checkout.start(*SLURM)
    disturbed.end(code=1)
    disturbed.refused = checkout.output()
    slurm = disturbed.slurm
    slurm.command(*re.findall(r"^ +(scancel [\d ]+)$", disturbed.refused, re.MULTILINE)[0].split())
    slurm.wait(lambda: not slurm.running(), "the jobs to end")
    checkout.start(*SLURM)
    disturbed.end()
    return disturbed


def test_a_dry_run_says_that_the_repaired_chain_alone_is_due(repaired):
    chain = {"make_reference": 1, "export_program": 1, "compile_iree": 4, "verify_iree": 4}
    assert repaired.said == chain | {"time_group": 1, "aggregate_results": 1}


def test_a_killed_snakemake_started_again_ends_with_every_row(repaired):
    assert statuses(repaired.checkout) == ["ok"] * 12


def test_what_it_left_running_is_named_and_no_job_runs_twice(repaired):
    (left,) = repaired.left
    assert f"scancel {left.number}" in repaired.refused
    states = {job.number: job.state for job in repaired.submissions()}
    assert states[left.number] == "CANCELLED"
    again = repaired.submissions()[len(repaired.first) :]
    assert [job.state for job in again].count("CANCELLED") == 1
    assert not repaired.slurm.running()


def test_the_repaired_chain_alone_was_run(repaired):
    remade = {p for p, when in repaired.checkout.made().items() if repaired.done.get(p) != when}
    assert {path.split("/")[2] for path in remade} == {"m00002"}
    again = repaired.submissions()[len(repaired.first) :]
    assert all("build-m00002" in job.comment or "build" not in job.comment for job in again)


@pytest.fixture(scope="module")
def lost(make_stubs, slurm):
    """A run that loses the node on which it compiles."""
    life = Life(make_stubs(1, slurm.environment), slurm)
    for node in NODES:
        slurm.wait(lambda node=node: slurm.node_state(node) == "idle", f"{node} to be idle")
    life.checkout.behave("*scripts.stages.compile_iree*m00000*t2*) sleep 300")
    life.checkout.start(*SLURM)
    life.checkout.wait_for(lambda: life.stage_runs("compile", "m00000/stub/t2"), "a compilation")
    (life.victim,) = [j for j in life.submissions("build-m00000") if j.state == "RUNNING"]
    life.checkout.behave()
    slurm.lose_node(life.victim.node)
    life.end()
    slurm.start_daemon(life.victim.node)
    return life


@pytest.mark.release
def test_what_ran_on_a_lost_node_runs_on_another_and_no_row_is_lost(lost):
    assert statuses(lost.checkout) == ["ok"] * 4
    first, second = lost.submissions("build-m00000")
    assert (first.state, second.state) == ("NODE_FAIL", "COMPLETED")
    assert second.node != first.node


PARTS = 2
"""Of the graphs of `vmfbench fuzz`."""


@pytest.fixture(scope="module")
def fuzzed(environments, slurm, tmp_path_factory):
    """A function that runs random graphs in parts with further options of `vmfbench fuzz`; returns the outcome and the jobs that were submitted."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / ".venvs").symlink_to(environments)

    def run(options: str):
        before = {job.number for job in slurm.jobs()}
        fuzz = {"parts": PARTS, "minutes": 0.4, "options": options}
        profile, _, *more = SLURM[1:]
        start = [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", "--profile", ROOT / profile]  # fmt: skip
        done = subprocess.run(
            [*start, "results/fuzz.csv", *more, "--config", f"fuzz={json.dumps(fuzz)}"],
            cwd=folder,
            env=environment() | slurm.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, [job for job in slurm.jobs() if job.number not in before]

    return folder, run


def test_graphs_of_an_operator_that_is_not_there_are_not_submitted(fuzzed):
    _, run = fuzzed
    done, submitted = run("--operators nagative")
    assert done.returncode
    assert "no operator of graphs" in done.stdout + done.stderr
    assert not submitted


def test_parts_share_the_random_graphs_and_their_causes_are_in_one_table(fuzzed):
    folder, run = fuzzed
    done, submitted = run("--operators square erfc")
    assert not done.returncode, done.stderr[-4000:]
    assert [(job.state, job.cpus) for job in submitted] == [("COMPLETED", 2)] * PARTS
    journals = folder.glob("results/fuzz/*/[0-3]/journal.jsonl")
    lines = [json.loads(line) for file in journals for line in file.read_text().splitlines()]
    results = [line["result"] for line in lines if line.get("result", {}).get("done")]
    tasks = [result["task"] for result in results]
    firsts = [task["first"] for task in tasks if "first" in task and "origin" not in task]
    assert len(firsts) == len({*firsts})
    with (folder / "results/fuzz.csv").open(encoding="utf-8") as file:
        assert all(row["status"] for row in csv.DictReader(file))
