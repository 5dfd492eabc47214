"""A failed row names its cause, if that is known: by the program's operators, what was said, and what its lowering path avoids."""

from __future__ import annotations

import pytest

from scripts.config import plugins
from scripts.frontends.lowering import stablehlo
from scripts.results import known_failures

LOST_NAN = "FAIL output 0: 1 of 6 values are not the NaN or infinity of golden; first at [0]: 0.0, expected nan"
LOG10 = "undefined symbol: log10f"
BOTH = {"maximum.default": ["float32"], "log10.default": ["float32"], "sum.default": ["float32"]}


def detail(operators: dict, said: str, stage: str = "verify", status: str = "error", reason: str = "wrong-result", exporter: str = "torch_mlir", **options: str) -> str:  # fmt: skip
    """The detail of a row after its cause was looked up."""
    options = {"dialect": "torch", "rewrites": "none", **options}
    record = {
        "outcome": {"status": status, "stage": stage, "reason": reason, "detail": said},
        "experiment": {"exporter": exporter, "exporter_options": options},
    }
    known_failures.name_cause(record, operators)
    return record["outcome"]["detail"].removeprefix(said)


def test_wrong_values_that_fit_a_known_miscompile_name_it():
    assert detail(BOTH, LOST_NAN) == "; known-miscompile: nan-is-clamped"
    assert detail({"sum.dim_IntList": ["uint8"]}, "1 of 1 integers differ") == (
        "; known-miscompile: u8-is-signed (https://github.com/llvm/torch-mlir/pull/4601)"
    )


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ({"relu.default": ["float32"]}, LOST_NAN),
        (BOTH, "3 of 6 values beyond tol 0.001, worst at [1]: 1.5, expected 2"),
        ({"cat.default": ["float32"], "_to_copy.default": ["uint8"]}, "1 of 1 integers differ"),
        ({}, LOST_NAN),
    ],
)
def test_others_do_not(operators, said):
    assert detail(operators, said) == ""


def test_an_entry_of_operators_alone_is_the_cause_in_programs_without_others():
    beyond = "1 of 6 values beyond tol 0.001, worst at [1]: 1.5, expected 2"
    pooled = {"max_pool2d.default": ["float32"]}
    assert detail(pooled, beyond) == "; known-miscompile: ceil-mode-pads-both-sides"
    assert detail({**pooled, "relu.default": ["float32"]}, beyond) == ""


@pytest.mark.parametrize(
    ("operator", "said", "name"),
    [
        ("index_copy.default", "'vector.store' op write affecting operations on global resources", "put-into-itself-is-refused"),
        ("max_pool2d_with_indices.default", "'vector.store' op write affecting operations on global resources", "pooled-with-indices"),
        ("convolution.default", "failed to legalize operation 'torch.aten.convolution': (!torch.vtensor<[1,2,1,1,1],f32>)", "convolved-by-channel"),
        ("convolution.default", "failed to legalize operation 'torch.aten.convolution': (!torch.vtensor<[2,1,?],f32>)", "convolution-by-dynamic-weight"),
        ("convolution.default", "failed to legalize operation 'stablehlo.convolution' that was: tensor<1x?xf32>", "dynamic-size-in-stablehlo"),
        ("cumprod.default", "failed to legalize operation 'torch.constant.int': %0", "not-in-stablehlo"),
        ("relu.default", "failed to legalize operation 'torch.constant.int': %0", ""),
        ("relu.default", "failed to legalize operation 'stablehlo.convolution' that was: tensor<1x2xf32>", ""),
    ],
)  # fmt: skip
def test_refusals_in_the_same_words_are_told_apart_by_operators_and_sizes(operator, said, name):
    compiled = {"stage": "compile", "reason": "compiler-error"}
    named = detail({operator: ["float32"]}, said, **compiled)
    assert named == (f"; known-refusal: {name}" if name else "")


def test_what_the_lowering_path_avoids_is_not_the_cause():
    assert detail(BOTH, LOST_NAN, rewrites="needed") == ""
    assert detail(BOTH, LOST_NAN, rewrites="all", dialect="stablehlo") != ""
    for rewrites, said in (("none", "; known-miscompile: i1-product"), ("needed", "")):
        assert detail({"mm.default": ["bool"]}, "", rewrites=rewrites, dialect="stablehlo") == said


def test_crashes_and_refusals_name_theirs():
    compiled = {"stage": "compile", "reason": "compiler-error"}
    assert detail(BOTH, LOG10, **compiled).startswith("; known-refusal: log10-is-not-linked (")
    assert detail({"mm.default": ["int8"]}, LOG10, **compiled) == ""
    crashed = {"stage": "export", "status": "crashed", "reason": "SIGFPE"}
    assert detail({}, "killed by SIGFPE; in ConvertAtenViewOp", **crashed) == "; known-crash: empty-view"  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "status", "reason"),
    [("verify", "timeout", "time-limit"), ("reference", "error", "x"), ("verify", "ok", "")],
)
def test_rows_that_failed_otherwise_or_not_at_all_have_none(stage, status, reason):
    assert detail(BOTH, LOST_NAN, stage, status, reason) == ""


def test_each_rewrite_that_avoids_a_cause_is_one_of_a_lowering_path():
    declared = {name for module in ("torch_mlir", "torch_xla") for name in plugins.exporter(module).rewrites}  # fmt: skip
    named = {name for known in known_failures.read_known() for name in known.avoided_by}
    assert named
    assert named <= declared | {*stablehlo.AVOIDING}
    assert {*stablehlo.AVOIDING} <= named


def test_a_wrong_entry_names_the_file(tmp_path):
    file = tmp_path / "known.yaml"
    file.write_text("failures: [{name: a, abuot: b}]")
    with pytest.raises(ValueError, match=r"known\.yaml"):
        known_failures.read_known(file)
