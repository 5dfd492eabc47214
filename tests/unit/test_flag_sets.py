"""Flag sets: the table, its page, and the names of sets among the flags of targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.config import compile_tables, expansion, settings
from scripts.config.settings import ConfigError
from scripts.tools.variants import document

ROOT = Path(__file__).parents[2]
TILED = "--iree-dispatch-creation-data-tiling"
FUSED = "--iree-dispatch-creation-enable-aggressive-fusion"
FIXED = "--iree-global-opt-propagate-transposes=false"
CHANNELS = "--iree-preprocessing-pass-pipeline=builtin.module(util.func(iree-preprocessing-convert-conv-to-channels-last))"
ENTRY = "does: x, backends: [llvm-cpu], iree: [3.13.0], why: y, seen: z"
WHOLE = "properties: {{big: [x]}}\nopt_levels: {{llvm-cpu: [O3]}}\npreprocessing: {{}}\nflag_sets: {{a: {{{}}}}}"


def test_the_page_has_the_tables_of_the_file():
    page = (ROOT / "docs/tuning.md").read_text(encoding="utf-8")
    assert document.PARTS[1].within(page) == page, "run vmfbench docs"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (WHOLE.format(ENTRY), "missing required field `flags`"),
        (WHOLE.format(ENTRY + ", flags: [O3]"), "flag_sets.a.flags: found 'O3', expected a flag that begins with --"),
        (WHOLE.format(ENTRY + ", flags: [--x], needs: [small]"), "flag_sets.a.needs: found 'small', allowed is one of big"),
        (WHOLE.format(ENTRY + ", flags: [--x], need: [big]"), "unknown field `need`"),
        (WHOLE.format(ENTRY.replace("llvm-cpu", "cpu") + ", flags: [--x]"), "backends[0]`"),
        (WHOLE.format(ENTRY + ", flags: [--x]").replace("[O3]", "[O9]"), "opt_levels[...][0]`"),
        (WHOLE.format(ENTRY + ", flags: [--x]").replace("preprocessing: {}", f"preprocessing: {{a: {{{ENTRY}, flags: [--y]}}}}"), "preprocessing.a: found the name of a flag set"),
        ("flag_sets: {}", "missing required field"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named(tmp_path, text, problem):
    (tmp_path / "table.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        compile_tables.flag_sets(tmp_path / "table.yaml")
    assert problem in str(error.value)
    assert "table.yaml" in str(error.value)


def flags(model: str, changes: dict | None = None) -> tuple[str, ...]:
    """The flags of a model on the shipped target llvm-cpu, or one that is changed."""
    config = {"targets": {"llvm-cpu": changes}} if changes else {}
    declared, selections = settings.load(config, [ROOT / "config.yaml"])
    return expansion.expand(declared, selections, ROOT).target(model, "torchmlir-torch", "llvm-cpu").flags  # fmt: skip


def test_the_flags_of_the_shipped_targets_are_those_of_the_sets_that_they_name():
    assert {flags(model) for model in ("vit", "gpt2-decode", "bert", "conv")} == {(TILED, CHANNELS)}
    assert flags("llama-decode") == (TILED,)
    assert flags("resnet") == flags("mobilenet") == (TILED, CHANNELS, FIXED)
    graphs = ("gat", "gatv2", "gcn", "graphsage")
    assert {flags(model) for model in graphs} == {(TILED, "--iree-llvmcpu-enable-ukernels=all")}
    assert flags("llama-qlora") == flags("llama-prefill") == ()


def test_sets_and_flags_may_be_mixed_and_an_override_replaces_both():
    changes = {"flags": ["--a", "fused", "--b"], "overrides": {"vit": {"flags": ["channels-last"]}}}
    assert flags("conv", changes) == ("--a", TILED, FUSED, "--b")
    assert flags("vit", changes) == (CHANNELS,)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"backend": "llvm-cpu", "flags": ["data-tilng"]}, "targets.mine.flags: unknown flag set 'data-tilng'; for llvm-cpu there are: data-tiling, fused"),
        ({"backend": "cuda", "flags": ["fused"]}, "targets.mine.flags: flag set 'fused' is for llvm-cpu, the backend is cuda"),
        ({"backend": "llvm-cpu", "overrides": {"vit": {"flags": ["O3"]}}}, "targets.mine.overrides.vit.flags: unknown flag set 'O3'"),
    ],
)  # fmt: skip
def test_a_set_that_does_not_exist_for_the_backend_is_an_error(target, problem):
    declared, selections = settings.load({"targets": {"mine": target}}, [ROOT / "config.yaml"])
    with pytest.raises(ConfigError) as error:
        expansion.expand(declared, selections, ROOT)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%9 = torch.aten.bitwise_right_shift.Tensor %8, %7 : !torch.vtensor<[3,4],si8>, !torch.vtensor<[],si8> -> !torch.vtensor<[3,4],si8>", True),
        ("%9 = stablehlo.shift_right_arithmetic %8, %c : tensor<3072x1536xi8>", True),
        ("%9 = arith.shrsi %in, %c4_i8 : i8", True),
        ("%9 = torch.aten.bitwise_right_shift.Tensor %8, %7 : !torch.vtensor<[3],si64>, !torch.vtensor<[],si64> -> !torch.vtensor<[3],si64>", False),
        ("%9 = stablehlo.shift_right_logical %8, %c : tensor<128xui32>", False),
        ("%9 = arith.shrui %in, %c4_i8 : i32", False),
    ],
)  # fmt: skip
def test_only_programs_that_shift_bytes_have_4_bit_weights(line, found):
    patterns = compile_tables.flag_sets().properties["4-bit weights"]
    assert any(re.search(one, line) for one in patterns) == found
