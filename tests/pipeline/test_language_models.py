"""Phases of language models: a prompt, then tokens, compared with those of transformers."""

from __future__ import annotations

import json

import pytest

from tests.checkouts import ROOT, as_made, in_environment, keep_models, params

FRONTEND, TARGET = "torchmlir-torch", "llvm-cpu"
FAMILIES, OF_RELEASE = ("gpt2", "llama", "deepseek"), ("deepseek",)


@pytest.fixture(scope="module")
def checkout(make_checkout, selected):
    families = selected(FAMILIES, OF_RELEASE)
    made = make_checkout(
        "language-models",
        models={
            family: {
                "size": "tiny",
                "phase": ["prefill", "decode"],
                "seq_len": 12,
                "cache_len": 32,
                "batch_size": 2 if family == "llama" else 1,
            }
            for family in families
        },
    )
    keep_models(made, *families)
    made.snakemake(
        "--cores",
        "2",
        "results/latency.csv",
        "--config",
        f"frontends={FRONTEND}",
        f"targets={TARGET}",
        "baselines=eager",
    )
    return made


def signature(checkout, model: str) -> dict:
    return json.loads((checkout.path / f"results/reference/{model}/signature.json").read_text())


def generate(checkout, family: str) -> list[list[int]]:
    python = ROOT / ".venvs/iree/bin/python"
    program = (checkout.path / "results", family, FRONTEND, TARGET)
    return in_environment(python, "generate_in_iree", *program)


@pytest.mark.parametrize("family", params(FAMILIES, OF_RELEASE))
def test_each_phase_is_held_to_transformers_greedy_tokens(checkout, family):
    for phase, tokens in (("prefill", 1), ("decode", 16)):
        for row in checkout.rows():
            if row["model"] == f"{family}-{phase}":
                assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row
                assert row["phase"] == phase
                assert row["greedy_tokens"] == f"{tokens}/{tokens}"


@pytest.mark.parametrize("family", params(FAMILIES, OF_RELEASE))
def test_prefill_and_decode_together_generate_what_transformers_does(checkout, family):
    parts = [
        signature(checkout, f"{family}-{phase}")["generation"] for phase in ("prefill", "decode")
    ]
    wanted = [first + rest for first, rest in zip(*(part["tokens"] for part in parts), strict=True)]
    for row in wanted:
        assert len(set(row)) > 4, f"{row}: a program without its layers could give that"
    assert generate(checkout, family) == wanted


def test_the_columns_of_language_models_are_their_latency_in_other_units(checkout):
    for row in checkout.rows():
        latency = float(row["latency_ms"])
        if row["phase"] == "prefill":
            assert float(row["ttft_ms"]) == pytest.approx(latency)
            assert row["tokens_per_s"] == ""
        else:
            assert float(row["tokens_per_s"]) == pytest.approx(int(row["batch_size"]) * 1e3 / latency, rel=1e-5)  # fmt: skip
            assert row["ttft_ms"] == ""


def test_the_rows_of_a_language_model_say_what_it_is(checkout):
    asked = {"size": "tiny", "seq_len": "12", "cache_len": "32", "pretrained": "False", "seed": "0"}
    words = {"gpt2": "1000", "llama": "512", "deepseek": "512"}
    for row in checkout.rows():
        assert {key: row[key] for key in asked} == asked
        assert (row["layers"], row["vocab_size"]) == ("2", words[row["model"].split("-")[0]])
    page = (checkout.path / "results/latency.md").read_text()
    assert (
        "size=tiny, phase=decode, batch_size=2, seq_len=12, cache_len=32, pretrained=False" in page
    )


def test_a_wrong_token_fails_the_row_and_says_which(checkout):
    path = checkout.path / "results/reference/gpt2-decode/signature.json"
    original = path.read_text()
    changed = json.loads(original)
    right = changed["generation"]["tokens"][0][3]
    changed["generation"]["tokens"][0][3] = right - 1 if right else 1
    path.write_text(json.dumps(changed))
    as_made(path)
    cell = f"results/verify/gpt2-decode/{FRONTEND}/{TARGET}/status.json"
    checkout.snakemake("--cores", "2", cell, "--allowed-rules", "verify_iree")
    path.write_text(original)
    as_made(path)
    status = json.loads((checkout.path / cell).read_text())
    assert status["status"] == "error"
    assert f"greedy token 4 of 16: {right}, transformers' is" in status["detail"]
