"""torchbench: a TorchBench configuration file, and what it sets for a model."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.config.settings import ConfigError
from scripts.config.torchbench import GROUPS, LISTS, SIZES, TorchbenchFile

FILE = """
batch_size:
  training: {wide: 4, fixed: 2}
  inference: {wide: 32}
  divisors: {split: 8}
dont_change_batch_size: [fixed]
tolerance:
  higher: [noisy, noisy-and-worse]
  even_higher: [noisier, noisy-and-worse, bad-half]
  higher_fp16: [bad-half]
  higher_bf16: [bad-brain, noisier]
  cosine: [turned]
  freezing: {even_higher: [noisy]}
  iou_thresholds: {seg: 0.95}
require_larger_multiplier_for_smaller_tensor: [noisier, tiny]
very_slow: &VERY_SLOW
slow:
  - *VERY_SLOW
  - crawler
non_deterministic: [dice]
families: &FAMILY
  - family-a
  - &BRANCH [family-b, [family-c]]
only_training:
  - *FAMILY
  - learner
skip:
  all: [gone]
  device:
    cpu: [big, gone]
    cuda: ~
    xpu:
      - *FAMILY
      - ~
  test:
    training: [*BRANCH, frozen]
  multiprocess: [pair]
accuracy:
  skip:
    large_models: [huge]
    eager_not_deterministic: [huge, dice, loose]
  max_batch_size: {wide: 2}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str):
        path = tmp_path / "bench.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def bench(write):
    return TorchbenchFile.read(write(FILE))


def problems_of(path) -> list[str]:
    """What is wrong with a file, a line each, without the file's name before each."""
    with pytest.raises(ConfigError) as problem:
        TorchbenchFile.read(path)
    lines = str(problem.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


@pytest.mark.parametrize(
    ("model", "device", "test", "key"),
    [
        ("gone", "cpu", "eval", "skip.all"),
        ("gone", "vulkan", "train", "skip.all"),
        ("big", "cpu", "eval", "skip.device.cpu"),
        ("big", "cpu", "train", "skip.device.cpu"),
        ("big", "cuda", "eval", ""),
        ("family-c", "xpu", "train", "skip.device.xpu"),
        ("family-c", "cuda", "train", "skip.test.training"),
        ("family-a", "cuda", "train", ""),
        ("family-a", "cuda", "eval", "only_training"),
        ("learner", "cpu", "eval", "only_training"),
        ("learner", "cpu", "train", ""),
        ("frozen", "cpu", "train", "skip.test.training"),
        ("frozen", "cpu", "eval", ""),
        ("pair", "cuda", "eval", "skip.multiprocess"),
        ("crawler", "cpu", "eval", ""),
        ("go", "cpu", "eval", ""),
        ("Gone", "cpu", "eval", ""),
    ],
)
def test_a_model_is_skipped_by_the_first_key_that_names_it(bench, model, device, test, key):
    expected = f"{key} of {bench.path}" if key else ""
    assert bench.skip_reason(model, device, test) == expected
    assert bench.path.endswith("bench.yaml")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("huge", "accuracy.skip.large_models"),
        ("loose", "accuracy.skip.eager_not_deterministic"),
        ("dice", "accuracy.skip.eager_not_deterministic"),
        ("wide", ""),
    ],
)
def test_a_model_whose_results_cannot_be_held_to_eagers_is_named(bench, model, key):
    assert bench.skip_verify_reason(model) == (f"{key} of {bench.path}" if key else "")


@pytest.mark.parametrize(
    ("model", "test", "size"),
    [
        ("wide", "train", 4),
        ("wide", "eval", 32),
        ("fixed", "train", 2),  # dont_change_batch_size is of sizes asked for on a command line
        ("fixed", "eval", 64),
        ("other", "train", 64),
    ],
)
def test_the_batch_size_is_the_files_whether_or_not_it_is_to_be_changed(bench, model, test, size):
    assert bench.batch_size(model, test, 64) == size


@pytest.mark.parametrize(
    ("model", "default", "size"),
    [("split", 32, 4), ("split", 31, 3), ("split", 4, 1), ("other", 32, 32)],
)
def test_a_models_own_batch_size_is_divided_but_never_to_nothing(bench, model, default, size):
    assert bench.batch_size(model, "eval", default) == size


@pytest.mark.parametrize(
    ("model", "device", "test", "precision", "tol"),
    [
        ("noisy", "cuda", "train", "none", 1e-3),
        ("noisy", "vulkan", "train", "bf16", 1e-3),
        ("noisy", "cpu", "train", "none", None),
        ("noisy", "cuda", "eval", "none", None),
        ("noisy", "cuda", "train", "amp-fp16", None),
        ("noisier", "cuda", "train", "none", 8e-2),
        ("noisier", "cuda", "eval", "none", None),
        ("noisier", "cuda", "eval", "fp16", 8e-2),
        ("noisier", "cpu", "eval", "amp-bf16", 8e-2),
        ("noisier", "cuda", "train", "bf16", 1e-2),
        ("noisy-and-worse", "cuda", "train", "none", 1e-3),
        ("bad-half", "cuda", "eval", "fp16", 1e-2),
        ("bad-half", "cuda", "train", "amp-fp16", 1e-2),
        ("bad-half", "cuda", "eval", "amp-bf16", 1e-2),
        ("bad-half", "cuda", "train", "bf16", 8e-2),
        ("bad-half", "cuda", "eval", "bf16", None),
        ("bad-brain", "cpu", "eval", "bf16", 1e-2),
        ("bad-brain", "cuda", "eval", "amp-bf16", None),
        ("bad-brain", "cuda", "train", "none", None),
        ("seg", "cuda", "train", "none", None),
    ],
)
def test_the_lists_of_tolerances_apply_where_torchbench_applies_them(
    bench, model, device, test, precision, tol
):
    found = bench.tolerance(model, device, test, precision)
    assert found.get("tol") == tol
    assert ("tol" in found) == (tol is not None)
    assert "cosine" not in found


def test_a_comparison_is_changed_for_the_models_listed_and_no_others(bench):
    assert bench.tolerance("turned", "cpu", "eval", "none") == {"cosine": True}
    assert bench.tolerance("tiny", "cpu", "eval", "none") == {"small_tensor_multiplier": True}
    assert bench.tolerance("noisier", "cuda", "train", "none") == {
        "tol": 8e-2,
        "small_tensor_multiplier": True,
    }
    assert bench.tolerance("other", "cuda", "train", "none") == {}


@pytest.mark.parametrize("text", ["{}", "other: 3", "skip:", "skip: {all: [~], device: {cpu: }}"])
def test_a_file_that_says_nothing_changes_nothing(write, text):
    found = TorchbenchFile.read(write(text))
    assert found.skip_reason("a", "cpu", "eval") == found.skip_verify_reason("a") == ""
    assert found.batch_size("a", "train", 3) == 3
    assert found.tolerance("a", "cuda", "train", "none") == {}


def nested(key: str, value: object) -> dict:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


@pytest.mark.parametrize(
    ("keys", "value", "problem"),
    [
        (LISTS, "resnet18", "{}: found 'resnet18', expected a list of models"),
        (LISTS, True, "{}: found True, expected a list of models"),
        (GROUPS, {"cpu": "a"}, "{}.cpu: found 'a', expected a list of models"),
        ([*LISTS, "skip.device.cpu"], ["a", [["b", 3]]], "{}: found 3, expected the name of a model"),
        (["skip", "accuracy.skip", *GROUPS, *SIZES], [1], "{}: found [1], expected a mapping"),
        (["skip", "accuracy.skip", *GROUPS, *SIZES], 0, "{}: found 0, expected a mapping"),
        (SIZES, {"a": 0, "b": 1}, "{}.a: found 0, expected a positive whole number"),
        (SIZES, {"a": 2.0}, "{}.a: found 2.0, expected a positive whole number"),
        (SIZES, {"a": True}, "{}.a: found True, expected a positive whole number"),
        (SIZES, {"a": None}, "{}.a: found nothing, expected a positive whole number"),
        (SIZES, {18: 2}, "{}: found 18, expected the name of a model"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_once_by_file_and_key(write, keys, value, problem):
    for key in keys:
        path = write(yaml.safe_dump(nested(key, value)))
        assert problems_of(path) == [problem.format(key)]


def test_everything_that_is_wrong_is_reported_at_once(write):
    path = write("skip: {all: a, device: {cpu: [1]}}\nbatch_size: {training: {a: 0}}\ntolerance: x")
    assert sorted(problems_of(path)) == [
        "batch_size.training.a: found 0, expected a positive whole number",
        "skip.all: found 'a', expected a list of models",
        "skip.device.cpu: found 1, expected the name of a model",
        "tolerance: found 'x', expected a mapping",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "found nothing, expected a mapping"),
        ("# only a comment", "found nothing, expected a mapping"),
        ("- a", "found ['a'], expected a mapping"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(write, text, problem):
    assert problems_of(write(text)) == [problem]


@pytest.mark.parametrize("text", ["skip: [", "skip: *NOWHERE", "a: 2001-99-99", "a: !!python/name:os.system"])  # fmt: skip
def test_a_file_that_is_no_plain_yaml_is_refused_on_one_line(write, text):
    [problem] = problems_of(write(text))
    assert problem.startswith("cannot be read as YAML: ")


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    [problem] = problems_of(tmp_path / "nowhere.yaml")
    assert "No such file" in problem
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00a")
    assert problems_of(tmp_path / "binary.yaml")[0].startswith("cannot be read as YAML: ")


def test_a_long_value_is_cut_in_the_message(write):
    path = write(yaml.safe_dump({"only_training": {"a": "x" * 1000}}))
    assert len(problems_of(path)[0]) < 200


@pytest.mark.parametrize("top", ["only_training", "batch_size"])
def test_lists_that_hold_each_other_are_read_once(write, top):
    """An anchor may stand in its own list; 40 levels of two would be 2**40 items in full."""
    levels = "\n".join(f"l{i}: &L{i} [*L{i - 1}, *L{i - 1}]" for i in range(1, 41))
    path = write(f"l0: &L0 [a]\n{levels}\n{top}: &SELF [*L40, b, *SELF]")
    if top == "batch_size":
        assert len(problems_of(path)) == 1
    else:
        assert TorchbenchFile.read(path).lists[top] == {"a", "b"}


NAMES = st.text("abcxyz_/.-0123456789", min_size=1)
NESTED = st.recursive(st.none() | NAMES, lambda items: st.lists(items, max_size=4))


def flat(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(flat, value))
    return set() if value is None else {value}


@given(st.lists(NESTED, max_size=5))
def test_a_list_names_what_is_in_it_at_whatever_depth(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "nested.yaml"
    path.write_text(yaml.safe_dump({"only_training": value}), encoding="utf-8")
    assert TorchbenchFile.read(path).lists["only_training"] == flat(value)
