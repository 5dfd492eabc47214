"""Inputs written after public bug reports: each ends as its first lines say, and none of them stops the others.

The reports are named in the files. Those of the binary files: qlinear_add.onnx is llvm/torch-mlir#4357, and maxpool_end.onnx
iree-org/iree#18270. o_ext_nul.onnx has a NUL in the path of its external data.
"""

from __future__ import annotations

import re

import pytest

from tests.checkouts import ON_CPU, QUICK, made_environments, shipped

CASES = "tests/pipeline/reported_cases"
ALL = ("torchmlir-torch", "torchmlir-stablehlo", "torchxla-stablehlo")
FRONTENDS = shipped("frontends", *ALL, "onnx-torch", "mlir")
BASELINES = shipped("baselines", "eager", "onnxruntime")

OK = ("ok", "verify", "", "")
RIGHT: dict[tuple[str, str], tuple[str, str, str, str]] = {
    ("cf_spin", "mlir"): OK,
    **{("gqa_masked", path): OK for path in ALL},
    ("i4", "mlir"): ("error", "reference", "model-file", r"i4\.mlir: result 0 has type i8, expected a tensor"),
    ("maxpool_end", "onnx-torch"): ("error", "verify", "wrong-result", r"z.*0\.508481, expected 1\.14408"),
    ("o_ext_nul", "onnx-torch"): ("error", "reference", "model-file", r"o_ext_nul\.onnx: its external data"),
    ("oob_gather", "mlir"): ("crashed", "reference", "SIGSEGV", r"a call of the program that IREE compiled at O0"),
    ("qlinear_add", "onnx-torch"): ("unsupported", "export", "unsupported", r"does not convert com\.microsoft\.QLinearAdd$"),
    ("unranked", "mlir"): ("error", "reference", "model-file", r"argument 0 has no rank"),
    ("var_neg", "torchmlir-torch"): OK,
    ("var_neg", "torchmlir-stablehlo"): OK,
    ("var_neg", "torchxla-stablehlo"): ("unsupported", "export", "capture", r"correction argument should be non-negative \(var_neg\.py:\d+: return torch\.var"),
    ("while_loop", "torchmlir-torch"): OK,
    ("while_loop", "torchmlir-stablehlo"): ("unsupported", "export", "legalization", r"higher_order\.while_loop"),
    ("while_loop", "torchxla-stablehlo"): ("unsupported", "export", "operator", r"higher_order\.while_loop"),
    **{(name, "eager"): ("ok", "baseline", "", "") for name in ("gqa_masked", "var_neg", "while_loop")},
    **{(name, "onnxruntime"): ("ok", "baseline", "", "") for name in ("maxpool_end", "qlinear_add")},
    ("o_ext_nul", "onnxruntime"): ("error", "reference", "model-file", r"o_ext_nul\.onnx"),
}  # fmt: skip
"""What is right by model and frontend or baseline: status, stage, reason, and a pattern in the detail."""


@pytest.fixture(scope="module")
def rows(make_checkout) -> dict[tuple[str, str], dict[str, str]]:
    made_environments("onnxruntime")
    made = make_checkout(
        "reported", models={}, frontends=FRONTENDS, targets=ON_CPU, baselines=BASELINES, measure=QUICK
    )  # fmt: skip
    made.snakemake("--cores", "2", "results/latency.csv", "--config", f"file={CASES}/*")
    return {(row["model"], row["frontend"] or row["runtime"]): row for row in made.rows()}


def test_every_case_has_all_of_its_rows(rows):
    assert rows.keys() == RIGHT.keys()


@pytest.mark.parametrize("cell", RIGHT, ids="-".join)
def test_a_case_ends_as_its_first_lines_say(rows, cell):
    row = rows[cell]
    *outcome, words = RIGHT[cell]
    assert [row["status"], row["stage"], row["reason"]] == outcome, row["detail"]
    assert re.search(words, row["detail"])


def test_no_reason_has_an_address(rows):
    details = [row["detail"] for row in rows.values()]
    assert not [text for text in details if re.search(r"0x[0-9a-f]{6,}|\b\d{13,}\b", text)]
