"""Memory: float64 block by block is exact, weights are counted correctly, and a model that is too large is refused at once."""

from __future__ import annotations

import os
import subprocess

import pytest

from scripts.core import exits
from scripts.core.requests import StageRequest
from tests.checkouts import ROOT, in_environment


@pytest.fixture(scope="module")
def found(environments) -> dict:
    return in_environment(environments / "torch-mlir/bin/python", "memory_in_torch")


MODELS = pytest.mark.parametrize("name", ["gpt2", "vit", "resnet", "bf16"])


@MODELS
def test_float64_by_blocks_is_float64_and_leaves_the_weights_as_they_were(found, name):
    seen = found[name]
    assert seen["blocks"] > 1
    assert (seen["same"], seen["wide"], seen["restored"]) == (True, ["torch.float64"], True)


def test_one_block_at_a_time_is_wide(found):
    assert found["vit"]["widest_share"] < 0.2  # twelve layers, and 2 % outside of them
    assert "do not fit" in found["vit"]["refused"]


@MODELS
def test_the_count_is_that_of_the_weights(found, name):
    assert found[name]["counted"] == found[name]["held"]


def test_a_model_too_large_for_the_stage_is_refused_before_it_is_built(environments, tmp_path):
    fields = {"name": "xl", "model_file": "models/gpt2.py", "options": {"size": "xl"}}
    python = str(environments / "torch-mlir/bin/python")
    request = StageRequest("scripts.stages.make_reference", python, fields)
    request.write(tmp_path)
    done = subprocess.run(
        request.command(tmp_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {exits.LIMIT_VARIABLE: "4000"},
    )
    assert done.returncode == exits.TOO_LARGE, done.stderr[-3000:]
    assert "weights of 6.2 GB (1.56 G parameters, f32) need 6.2 GB" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["request.json"]
