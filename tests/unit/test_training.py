"""Training steps on IREE: their cells, their remedies, and how the results of a step are compared."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from scripts.config.cell import PINNED, Kind, Toolchain
from scripts.config.compile_tables import Remedy
from scripts.config.entries import Frontend, by_toolchain, variants_of_frontends
from scripts.core import tensors
from scripts.core.tensors import CHANGE, GRADIENT, LOSS, Signature, TensorType
from scripts.measure.verify import scaling, train_results, verify
from scripts.measure.verify.verification import Verification
from scripts.tools.report.web.page_source import of_row
from tests.unit.conftest import MATRIX

MLIR = Frontend("mlir", "torch_mlir", "torch-mlir", {"dialect": "torch"})
XLA = Frontend("xla", "torch_xla", "torch-xla")
BOTH = {"mlir": MLIR, "xla": XLA}
OTHER = {PINNED: Toolchain(PINNED), "new": Toolchain("new", envs=("torch-mlir",))}


# Cells


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        (["eval"], ["mlir", "xla"]),
        (["train"], ["mlir+train", "xla+train"]),
        (["eval", "train"], ["mlir", "xla", "mlir+train", "xla+train"]),
    ],
)
def test_each_test_has_frontends_of_its_own(tests, names):
    assert list(variants_of_frontends(BOTH, tests)) == names


def test_each_test_and_toolchain_has_a_frontend():
    found = by_toolchain(variants_of_frontends({"mlir": MLIR}, ["eval", "train"]), OTHER)
    assert list(found) == ["mlir", "mlir@new", "mlir+train", "mlir+train@new"]
    assert [frontend.test for frontend in found.values()] == ["eval", "eval", "train", "train"]


def of_training(**changes):
    """A matrix of training steps by two frontends."""
    return dataclasses.replace(
        MATRIX, frontends=variants_of_frontends(BOTH, ["train"]), tests=("train",), **changes
    )


def test_a_training_step_starts_from_the_gradients_stage():
    matrix = of_training()
    row = next(row for row in matrix.rows() if row.kind is Kind.IREE)
    assert str(row) == "conv/mlir+train/llvm-cpu"
    names = [stage.name for stage, _ in matrix.chain(row)]
    assert names == ["reference", "gradients", "export", "compile", "verify"]


def test_a_training_step_shows_both_stages_that_make_golden_results():
    row = next(row for row in of_training().rows() if row.kind is Kind.IREE)
    names = [stage.name for stage, _ in of_row(row)]
    assert names == [*("reference", "gradients", "export", "compile", "remedy", "verify")]


def test_the_globs_of_a_target_are_about_entries_of_the_configuration():
    only = dataclasses.replace(MATRIX.targets["vulkan"], frontends=("mlir",))
    matrix = of_training(targets={"vulkan": only})
    assert {frontend.name for _, frontend, _ in matrix.cells()} == {"mlir+train"}


def test_a_remedy_by_another_path_takes_the_program_of_the_same_test():
    by_xla = Remedy(
        name="xla", does="", frontend="xla", reasons=("*",), why="", seen="", versions={}
    )
    target = dataclasses.replace(MATRIX.targets["vulkan"], remedies=(by_xla,))
    names = ("mlir", "mlir+train", "xla", "xla+train")
    programs = {name: dataclasses.replace(MATRIX.frontends["mlir"], name=name) for name in names}
    both = of_training(remedied_by=("xla", "xla+train"), programs=programs)
    found = {
        name: [one.variant.frontend for one in both.attempts(name, target)]
        for name in ("mlir", "mlir+train")
    }
    assert found == {"mlir": ["xla"], "mlir+train": ["xla+train"]}
    none = of_training(remedied_by=("xla",), programs=programs)
    assert none.attempts("mlir+train", target) == []


# Results

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)
MEAN = RNG.standard_normal(3).astype(np.float32)
UPDATE = (RNG.standard_normal((4, 3)) * 1e-6).astype(np.float32)
COUNT = np.array(5)
TYPES = (
    TensorType(LOSS, (), "float32"),
    TensorType(f"{GRADIENT}w", (4, 3), "float32"),
    TensorType(f"{CHANGE}mean", (3,), "float32"),
    TensorType(f"{CHANGE}count", (), "int64"),
    TensorType(f"{CHANGE}w", (4, 3), "float32"),
)
GOLDEN = [np.float32(2.5), -UPDATE / 0.01, MEAN * 0.5, np.array(1), (WEIGHT + UPDATE) - WEIGHT]
RIGHT = [np.float32(2.5), -UPDATE / 0.01, MEAN * 1.5, COUNT + 1, WEIGHT + UPDATE]


@pytest.fixture
def stored(monkeypatch):
    """The archive of the weights. (Reading one needs IREE, which the driver does not have.)"""
    held = {"w": WEIGHT, "mean": MEAN, "count": COUNT}
    bytes_of = {name: value.reshape(-1).view(np.uint8) for name, value in held.items()}
    monkeypatch.setattr(train_results.tensors, "read_archive", lambda path: bytes_of)


SIGNATURE = Signature(
    model="m",
    dtype="f32",
    batch_size=1,
    inputs=(),
    outputs=TYPES,
    parameters=(
        TensorType("w", (4, 3), "float32"),
        TensorType("mean", (3,), "float32"),
        TensorType("count", (), "int64"),
    ),
    aliases={},
    options={},
    torch_version="",
    has_fp64=True,
    rmse_vs_fp64=None,
    deterministic=True,
)


def code(outputs) -> str:
    """The verification code of a program's results."""
    golden = [np.asarray(array) for array in GOLDEN]
    wide = [np.asarray(array, np.float64) for array in golden]
    expected = verify.Expected(TYPES, golden, wide, True, "f32")
    compared = train_results.compared([np.asarray(o) for o in outputs], SIGNATURE, Path())
    return verify.verify(compared, expected, {}, train_results.names(TYPES)).code


def with_(place: int, value) -> list:
    return [*RIGHT[:place], value, *RIGHT[place + 1 :]]


def test_the_right_new_values_pass(stored):
    assert code(RIGHT) == "PASS"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(with_(0, np.float32(2.6)), id="another loss"),
        pytest.param(with_(1, UPDATE / 0.01), id="gradients of the other sign"),
        pytest.param(with_(2, MEAN), id="a running mean that stays"),
        pytest.param(with_(3, COUNT), id="a counter that stays"),
        pytest.param(with_(4, WEIGHT), id="weights that stay"),
        pytest.param(with_(4, WEIGHT - UPDATE), id="weights that go the other way"),
        pytest.param(with_(4, UPDATE), id="the update alone"),
        pytest.param(with_(4, WEIGHT + 1.1 * UPDATE), id="a learning rate that is 10 % larger"),
    ],
)
def test_a_wrong_step_fails_although_the_weights_are_nearly_the_same(stored, wrong):
    assert code(wrong) == "FAIL"


def test_results_of_another_number_or_shape_are_compared_as_they_are(stored):
    assert train_results.compared(RIGHT[:2], SIGNATURE, Path()) == RIGHT[:2]
    assert code(with_(4, WEIGHT[:2])) == "FAIL"


def test_a_forward_pass_is_compared_as_it_is():
    of_eval = dataclasses.replace(SIGNATURE, outputs=(TensorType("logits", (2,), "float32"),))
    found = [np.zeros(2, np.float32)]
    assert train_results.compared(found, of_eval, Path()) is found
    assert train_results.names(of_eval.outputs) is None


def test_gradients_changes_the_tensors_of_an_optimizer_and_the_buffers_of_a_module_are_groups():
    named = ["gradient of a", "gradient of b", "change of a", "change of b", "change of bn.mean"]
    named += [f"change of {tensors.OPTIMIZER}exp_avg.{w}" for w in "ab"]
    named += [f"change of {tensors.OPTIMIZER}step.a"]
    named += ["change of bn.var", "change of other.var"]
    groups = scaling.scale_of([LOSS, *named])
    alike = [(i, j) for i in range(11) for j in range(i) if groups[i] == groups[j]]
    assert alike == [(2, 1), (4, 3), (7, 6), (9, 5)]


def passed(**changes) -> Verification:
    return dataclasses.replace(Verification("PASS", "", 0.0, 0.0, 0.0, tol=1e-2), **changes)


def test_a_weight_that_is_left_as_it_was_fails_however_small_its_change_is():
    types = (TensorType(f"{CHANGE}large", (4,), "float32"), TensorType(f"{CHANGE}small", (4,), "float32"))  # fmt: skip
    golden = [np.ones(4, np.float32), np.full(4, 1e-7, np.float32)]
    expected = verify.Expected(types, golden, None, True, "f32")
    assert train_results.require_changes(passed(), golden, expected).code == "PASS"
    found = train_results.require_changes(passed(), [golden[0], np.zeros(4, np.float32)], expected)
    assert (found.code, found.detail) == ("FAIL", f"{CHANGE}small: none, expected 4 of 4 values to change")  # fmt: skip
    few = dataclasses.replace(expected, golden=[golden[0], np.array([1e-7, 0, 0, 0], np.float32)])
    assert train_results.require_changes(passed(), [golden[0], np.zeros(4)], few).code == "PASS"


def followed(losses, golden, **signature) -> Verification:
    """A program whose successive steps have these losses, beside eager's."""
    left = iter(losses[1:])
    seen = []

    def step(weights):
        seen.append(weights)
        return [np.float32(next(left)), *RIGHT[1:]]

    found = train_results.follow(
        passed(),
        [np.float32(losses[0]), *RIGHT[1:]],
        step,
        dataclasses.replace(SIGNATURE, **signature),
        np.array(golden),
    )
    for weights in seen:
        assert list(weights) == ["mean", "count", "w"]
        assert np.array_equal(weights["w"].view(np.float32).reshape(4, 3), WEIGHT + UPDATE)
    return found


GOLDEN_LOSSES = [2.0, 1.9, 1.8, 1.7]


@pytest.mark.parametrize(
    ("losses", "golden", "steps", "detail"),
    [
        (GOLDEN_LOSSES, GOLDEN_LOSSES, "4/4", ""),
        ([2.0, 2.0, 2.0, 2.0], GOLDEN_LOSSES, "1/4", "loss of step 2 of 4: 2, expected 1.9"),
        ([2.0, 1.9, 1.8, 1.69], GOLDEN_LOSSES, "3/4", "loss of step 4 of 4: 1.69, expected 1.7"),
        # What the losses move later allows nothing now.
        ([2.0, 1.95, 1.8, 9.0], [2.0, 1.9, 1.8, 9.0], "3/4", "loss of step 2 of 4: 1.95, expected 1.9"),
        # A loss that was verified may be as wrong later as it is now.
        ([2.001, 1.901, 1.801, 1.701], GOLDEN_LOSSES, "4/4", ""),
        ([2.0, 1.9, 5.0, 7.0], [2.0, 1.9, np.inf, np.nan], "2/2", ""),
    ],
)  # fmt: skip
def test_the_losses_of_successive_steps_follow_eagers(losses, golden, steps, detail):
    found = followed(losses, golden)
    assert f"{found.train_steps}/{found.train_expected}" == steps
    assert (found.detail, found.code) == (detail, "FAIL" if detail else "PASS")
    assert found.golden_losses == tuple(one for one in golden if np.isfinite(one))
    assert found.losses == tuple(map(float, np.float32(losses[: found.train_expected])))


def test_a_loss_that_is_not_finite_is_none():
    found = followed([2.0, np.nan, np.inf, 1.7], GOLDEN_LOSSES)
    assert (found.losses, found.code) == ((2.0, None, None, float(np.float32(1.7))), "FAIL")


def test_rounding_of_a_loss_depends_on_the_dtype():
    close = [2.0, 2.01, 2.0, 2.0]
    assert followed(close, [2.0] * 4).code == "FAIL"
    assert followed(close, [2.0] * 4, dtype="bf16").code == "PASS"


def test_a_step_that_failed_is_not_followed():
    wrong = passed(code="FAIL")
    assert train_results.follow(wrong, RIGHT, lambda _: [], SIGNATURE, np.array([1.0])) is wrong
