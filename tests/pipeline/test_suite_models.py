"""Models of suites: built, initialised, and run from a name to a verified row."""

from __future__ import annotations

import re

import pytest

from scripts.config import choices
from tests.checkouts import ROOT, in_environment

BENCHMARK = """
import torch


class Model:
    DEFAULT_EVAL_BSIZE = 4

    def __init__(self, test, device, batch_size=None, extra_args=[]):
        assert (test, device) == ("eval", "cpu")
        self.module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        self.example_inputs = (torch.randn(batch_size or self.DEFAULT_EVAL_BSIZE, 3),)

    def get_module(self):
        return self.module, self.example_inputs
"""


@pytest.fixture(scope="module")
def run(environments):
    """A function that runs suites_in_torch with a case, in the reference's environment."""

    def in_torch(**case):
        python = environments / "torch-mlir/bin/python"
        return in_environment(python, "suites_in_torch", case=case)

    return in_torch


def test_the_files_of_names_are_what_the_installed_packages_list(run):
    for suite, lines in run(do="listings").items():
        text = (ROOT / choices.SUITE_NAMES / f"{suite}.txt").read_text(encoding="utf-8")
        assert text.splitlines()[1:] == lines, "run vmfbench suites in torch-mlir"


def test_an_untrained_model_is_given_values_that_show_in_its_output(run):
    found = run(do="untrained")
    assert found["was_zero"]
    assert found["changed"] == ["gain", "norm.weight", "head.weight"]  # and no bias
    assert all(0.1 <= found["largest"][name] <= 0.5 for name in ("gain", "norm.weight"))
    assert 0.01 < found["largest"]["head.weight"] < 0.2
    assert found["std"] > 1e-3
    # The statistics are those of the inputs, whole: what is normed has mean 0 and deviation 1.
    assert found["normed"] == pytest.approx([0, 1], abs=0.25)
    assert (found["momentum"], found["training"]) == (0.1, False)


# (suite, options): shapes of its inputs, of its outputs, what is said of its inputs; None: any.
LOADED = [
    ("timm", {"name": "test_vit", "batch_size": 2}, [[2, 3, 160, 160]], [[2, 1000]], "timm pretrained_cfg of test_vit: 2x3x160x160, standard normal"),
    ("timm", {"name": "test_resnet.r160_in1k"}, [[1, 3, 160, 160]], [[1, 1000]], "timm pretrained_cfg of test_resnet.r160_in1k: 1x3x160x160, standard normal"),
    ("torchvision", {"name": "squeezenet1_1"}, [[1, 3, 224, 224]], [[1, 1000]], "torchvision transforms of squeezenet1_1's default weights: 1x3x224x224, standard normal"),
    ("hf", {"name": "t5", "size": "small", "batch_size": 2, "seq_len": 8}, [[2, 8]] * 3, [[2, 8, 8192], [2, 8, 256]], None),
    ("hf", {"name": "whisper", "size": "small", "seq_len": 8}, [[1, 80, 3000], [1, 8]], None, None),
    ("hf", {"name": "bert:question-answering", "size": "small", "seq_len": 8}, [[1, 8]] * 3, [[1, 8], [1, 8]], None),
    ("hf", {"name": "bert:multiple-choice", "size": "small", "seq_len": 8}, [[1, 4, 8]] * 3, [[1, 4]], None),
    ("hf", {"name": "layoutlm", "size": "small", "seq_len": 8}, [[1, 8], [1, 8], [1, 8], [1, 8, 4]], [[1, 8, 8192]], None),
    ("hf", {"name": "GPT2ForSequenceClassification", "size": "small", "batch_size": 2, "seq_len": 8}, [[2, 8]] * 3, [[2, 2]], None),
    ("hf", {"name": "resnet", "size": "small", "batch_size": 2}, [[2, 3, 224, 224]], [[2, 2]], None),
    ("hf", {"name": "wav2vec2", "size": "small"}, [[1, 16000]], None, None),
]  # fmt: skip
GONE = [
    ("hf", {"name": "bert:nosuch"}, r"transformers has no nosuch of model type bert; it has fill-mask, "),
    ("hf", {"name": "Speech2Text2ForCausalLM"}, r"transformers [\d.]+ has no model type or class 'Speech2Text2ForCausalLM'"),
    ("timm", {"name": "gluon_xception65"}, r"Unknown model \(gluon_xception65\)"),
    ("torchvision", {"name": "nosuch"}, r"Unknown model nosuch"),
]  # fmt: skip
SIZES = [
    ("hf", {"name": "mixtral", "seq_len": 8}),
    ("hf", {"name": "distilbert", "seq_len": 8}),
]


@pytest.fixture(scope="module")
def loaded(run) -> dict[str, dict]:
    """What became of every model above, by suite and name."""
    asked = [case[:2] for case in (*LOADED, *GONE, *SIZES)]
    found = run(do="load", models=asked)
    return {f"{s}/{o['name']}": f for (s, o), f in zip(asked, found, strict=True)}


@pytest.mark.parametrize(("suite", "options", "inputs", "outputs", "described"), LOADED)
def test_a_model_has_inputs_of_its_own_configuration(
    loaded, suite, options, inputs, outputs, described
):
    found = loaded[f"{suite}/{options['name']}"]
    assert list(found["inputs"].values()) == inputs
    assert outputs is None or list(found["outputs"].values()) == outputs
    assert described is None or found["described"] == described
    assert min(found["std"]) > 1e-3
    assert found["training"] == []


def test_a_model_of_many_gigabytes_is_small_and_says_what_was_changed(loaded):
    found = loaded["hf/mixtral"]
    assert found["parameters"] * 4 < 100e6
    assert found["described"] == (
        "transformers MixtralConfig of MixtralForCausalLM: input_ids 1x8, attention_mask 1x8; small: "
        "hidden_size 4096→256, intermediate_size 14336→896, num_attention_heads 32→2, "
        "num_key_value_heads 8→1, num_hidden_layers 32→2, num_local_experts 8→4, vocab_size 32000→8192"
    )


def test_a_model_below_the_bound_is_as_its_configuration_says(loaded):
    found = loaded["hf/distilbert"]
    assert found["parameters"] == 66_985_530
    assert found["class"] == "DistilBertForMaskedLM"
    assert "small" not in found["described"]


@pytest.mark.parametrize(("suite", "options", "problem"), GONE)
def test_a_model_that_is_not_there_any_more_says_so(loaded, suite, options, problem):
    assert re.search(problem, loaded[f"{suite}/{options['name']}"]["error"])


def test_a_torchbench_model_is_built_from_the_checkout_with_its_inputs(run, tmp_path):
    for package in ("torchbenchmark", "torchbenchmark/models", "torchbenchmark/models/tiny"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(BENCHMARK if "tiny" in package else "")
    options = {"name": "tiny", "path": str(tmp_path)}
    asked = [options, options | {"batch_size": 6}, options | {"name": "no"}]
    own, larger, gone = run(do="load", models=[["torchbench", each] for each in asked])
    assert list(own["inputs"].values()) == [[4, 3]]
    assert own["described"] == "torchbenchmark's own example_inputs of tiny: 4x3"
    assert list(larger["inputs"].values()) == [[6, 3]]
    assert "set torchbench.path to a checkout" in gone["error"]


def test_suites_of_names_end_as_verified_rows(make_checkout):
    checkout = make_checkout(
        "suites",
        suites=["timm/test_resnet*", {"hf/distilbert": {"size": "small", "seq_len": 16}}],
        targets={"llvm-cpu": {"backend": "llvm-cpu", "opt_level": "O3"}},
        baselines={},
    )
    checkout.snakemake(
        "--cores", "2", "results/latency.csv",
        "--config", "models=timm-*,hf-*", "frontends=torchmlir-torch",
    )  # fmt: skip
    rows = {row["model"]: row for row in checkout.rows()}
    assert sorted(rows) == ["hf-distilbert", "timm-test_resnet"]
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert {row["suite"] for row in rows.values()} == {"hf", "timm"}
