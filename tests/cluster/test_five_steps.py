"""docs/clusters.md: runs the blocks of "From a login node to a CSV" as written, on a real Slurm."""

from __future__ import annotations

import re
import subprocess
import textwrap

import pytest
import yaml

from tests.checkouts import EAGER, QUICK, ROOT, environment, keep_models, shipped

pytestmark = pytest.mark.release
PAGE = ROOT / "docs/clusters.md"
CONFIG = {
    "models": {},
    "targets": {"llvm-cpu": {"backend": "llvm-cpu"}},
    "baselines": EAGER,
    "measure": QUICK,
}  # fmt: skip


def blocks(language: str) -> list[str]:
    """The page's fenced blocks of a language, without the indent of the step that they are in."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def shell(checkout, *lines: str) -> str:
    """What bash prints of lines that all have to end well, each after a line with `+`."""
    done = subprocess.run(
        ["bash", "-exc", "\n".join(lines)],
        cwd=checkout.path,
        env=environment() | checkout.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def walked(make_checkout, slurm):
    """A checkout of one model by one frontend in which the steps were taken; what they printed is its `.said`."""
    # Step 3: what the page adds to config.yaml, merged into a small one.
    (added,) = map(yaml.safe_load, blocks("yaml"))
    site = {key: CONFIG.get(key, {}) | entries for key, entries in added.items()}
    frontends = shipped("frontends", "torchmlir-stablehlo")
    checkout = make_checkout("steps", frontends=frontends, **CONFIG | site)
    keep_models(checkout, "conv")
    profile = checkout.path / "workflow/profiles/slurm/profile.yaml"
    lines = profile.read_text(encoding="utf-8")
    # The lines of a site without accounting, whose jobs end sooner than a real one's.
    lines = lines.replace("# slurm-status-command: squeue", "slurm-status-command: squeue")
    profile.write_text(lines.replace("checks: 20", "checks: 1"), encoding="utf-8")
    # Bytecode is made of what is imported, not of all packages of an environment that is used once.
    checkout.variables |= slurm.environment | {"PIP_NO_COMPILE": "1"}
    checkout.said = shell(checkout, *blocks("sh"))
    return checkout


def test_the_steps_end_with_all_rows(walked):
    # IREE and eager on the CPU, and on the GPU's node, which has none.
    ended = [(row["runtime"], row["status"]) for row in walked.rows()]
    assert sorted(ended) == [(runtime, status) for runtime in ("eager", "iree") for status in ("ok", "unavailable")]  # fmt: skip
    for row in walked.rows():
        verified = row["verification_code"] == "PASS"
        assert verified == bool(row["latency_ms"]) == (row["status"] == "ok")


def test_the_environments_were_there_and_the_dry_run_came_first(walked):
    made, planned, _ = re.split(r"^\+ vmfbench run.*$", walked.said, flags=re.MULTILINE)[1:]
    assert "Nothing to be done" in made
    assert "This was a dry-run" in planned


def test_measurements_have_a_node_of_their_kind_to_themselves_and_builds_do_not(walked, slurm):
    # A reference, an export and two compilations; on the CPU and on the page's GPU node two verifications, and the timing of
    # what is verified.
    done = slurm.jobs()
    assert {job.state for job in done} == {"COMPLETED"}
    assert sorted((job.partition, job.exclusive, job.cpus) for job in done) == [
        ("cpu", False, 2),
        ("cpu", False, 4),  # the verifications side by side
        ("cpu", False, 4),  # the compilations
        ("cpu", True, 8),
        ("gpu", False, 2),  # one at a time, as there is one device
        ("gpu", True, 8),
    ]
    for on_gpu in (job for job in done if job.partition == "gpu"):
        assert on_gpu.constraint == "a100"
        shown = slurm.command("scontrol", "show", "job", on_gpu.number)
        assert re.search("TresPerJob=gres[:/]gpu:1", shown), shown  # of Slurm 22 and of later ones


def test_the_line_given_again_submits_nothing(walked, slurm):
    before = len(slurm.jobs())
    line = blocks("sh")[-1].splitlines()[-1]
    assert "Nothing to be done" in shell(walked, ". .venvs/driver/bin/activate", line)
    assert len(slurm.jobs()) == before
