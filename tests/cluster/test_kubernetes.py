"""The workflow through workflow/profiles/kubernetes, with a substitute for kubectl."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

STANDIN = Path(__file__).parent / "standin"
PROFILE = Path("workflow/profiles/kubernetes")


@pytest.fixture(scope="module")
def ran(make_stubs, tmp_path_factory):
    """A checkout of one model by four targets, one of them measured on a node with a GPU."""
    variables = {
        "QUEUE": str(tmp_path_factory.mktemp("queue")),
        "PATH": f"{STANDIN}:{os.environ['PATH']}",
    }
    checkout = make_stubs(1, variables)
    config = yaml.safe_load((checkout.path / "config.yaml").read_text())
    config["targets"]["t1"]["node"] = "gpu"
    checkout.configure(
        targets=config["targets"], nodes={"gpu": {"gpu": 1, "machine_type": "a3-highgpu-1g"}}
    )
    profile = checkout.path / PROFILE / "profile.yaml"
    said = profile.read_text()
    assert "--mount /vmfbench" in said
    profile.write_text(said.replace("--mount /vmfbench", f"--mount {checkout.path.parent}"))
    line = ("--profile", str(PROFILE), "results/latency.csv")
    checkout.snakemake(*line, "--seconds-between-status-checks", "1")
    return checkout


def pods(checkout, *, measures: bool) -> list[dict]:
    """What the Jobs ask for, the first one first."""
    files = sorted(Path(checkout.variables["QUEUE"]).glob("*/manifest.json"))
    asked = [json.loads(file.read_text())["spec"]["template"]["spec"] for file in files]
    return [pod for pod in asked if ("affinity" in pod) == measures]


def resources(pod: dict) -> dict:
    return pod["containers"][0]["resources"]


def test_every_row_is_there(ran):
    assert [row["status"] for row in ran.rows()] == ["ok"] * 4


def test_a_pod_that_measures_has_cores_of_its_own_and_no_other_beside_it(ran):
    on_cpu, on_gpu = sorted(pods(ran, measures=True), key=lambda pod: "nodeSelector" in pod)
    for pod in (on_cpu, on_gpu):
        asked = resources(pod)
        assert asked["requests"]["cpu"] == asked["limits"]["cpu"] == "8"
        assert asked["requests"]["memory"] == asked["limits"]["memory"]
    assert on_gpu["nodeSelector"] == {"node.kubernetes.io/instance-type": "a3-highgpu-1g"}
    assert resources(on_gpu)["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in resources(on_cpu)["limits"]


def test_verifications_share_their_nodes_and_ask_for_their_device(ran):
    on_cpu, on_gpu = sorted(pods(ran, measures=False)[2:], key=lambda pod: "nodeSelector" in pod)
    assert resources(on_cpu)["limits"].keys() == {"memory"}
    assert on_gpu["nodeSelector"] == {"node.kubernetes.io/instance-type": "a3-highgpu-1g"}
    assert resources(on_gpu)["limits"]["nvidia.com/gpu"] == "1"
    assert resources(on_gpu)["requests"]["cpu"] == "2"


def test_the_others_share_their_nodes_and_ask_for_no_device(ran):
    reference, build = pods(ran, measures=False)[:2]
    assert resources(reference)["requests"]["cpu"] == "2"
    assert resources(build)["requests"]["cpu"] == "8"  # four compilations side by side
    for pod in (reference, build):
        assert resources(pod)["limits"].keys() == {"memory"}
        assert "nodeSelector" not in pod


def test_while_the_cluster_does_not_answer_a_job_goes_on_and_one_that_is_gone_has_failed(
    tmp_path, monkeypatch
):
    def status() -> str:
        asked = [Path(__file__).parents[2] / PROFILE / "status", "vmfbench-abc"]
        return subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    kubectl = tmp_path / "kubectl"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for body, said in (("exit 1", "running"), ("exit 0", "failed"), ("echo '[/]'", "running")):
        kubectl.write_text(f"#!/bin/sh\n{body}\n")
        kubectl.chmod(0o755)
        assert status() == said
