"""settings: a later configuration file adds, changes and leaves out entries, and finds its files."""

import copy

import pytest
import yaml

from scripts.config import expansion, settings
from scripts.config.settings import ConfigError
from tests.checkouts import ROOT

BASE = yaml.safe_load("""
models: {bert: {seq_len: 8}, resnet: {size: 18}}
targets: {cpu: {backend: llvm-cpu}, gpu: {backend: cuda}, gpu-2: {backend: cuda}}
expect: {"*/*/cpu": ok, "*/*/gpu": error}
""")
SHIPPED = ("bert", "conv")


def merged(text: str, *more: str) -> dict:
    found = copy.deepcopy(BASE)
    for one in (text, *more):
        settings.merge(found, yaml.safe_load(one), SHIPPED)
    return found


def left_out(entries: dict) -> set[str]:
    return {name for name, entry in entries.items() if entry.get("default") is False}


def test_null_leaves_an_entry_out_and_keeps_what_it_holds():
    assert merged("targets: {gpu: null}")["targets"] == BASE["targets"] | {
        "gpu": {"backend": "cuda", "default": False}
    }


def test_a_glob_leaves_out_all_that_it_matches_but_what_the_same_file_sets():
    found = merged('models: {"*": null, conv: {}, mine: {file: x.py}}')["models"]
    assert left_out(found) == {"bert", "resnet"}
    assert list(found) == ["bert", "resnet", "conv", "mine"]
    assert left_out(merged('targets: {"gpu*": null, gpu-2: {arch: sm_80}}')["targets"]) == {"gpu"}


def test_a_later_file_brings_an_entry_back():
    found = merged('models: {"*": null}', "models: {bert: {default: true}}")["models"]
    assert left_out(found) == {"resnet", "conv"}


@pytest.mark.parametrize("text", ["models: {brt: null}", 'targets: {"metal*": null}'])
def test_null_for_what_is_not_there_is_refused_with_what_there_is(text):
    with pytest.raises(ConfigError, match=r"found null, .* there are: (bert, conv|cpu, gpu)"):
        merged(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("train: {name: Adam}", {"name": "Adam", "lr": 0.1}),
        ("train: {name: SGD, lr: 0.2}", {"name": "SGD", "lr": 0.2, "momentum": 0.9}),
        ("train: {momentum: 0.8}", {"name": "SGD", "lr": 0.1, "momentum": 0.8}),
    ],
)
def test_another_optimizer_has_none_of_the_arguments_of_the_one_before(text, found):
    assert merged("train: {name: SGD, lr: 0.1, momentum: 0.9}", text)["train"] == found


def test_null_removes_an_expectation():
    assert merged('expect: {"*/*/gpu": null, "x/*": ok}')["expect"] == {
        "*/*/cpu": "ok",
        "x/*": "ok",
    }


def test_paths_of_a_file_are_found_beside_it_else_beside_the_snakefile(tmp_path):
    (tmp_path / "mine.py").touch()
    content = {
        "models": {"a": {"file": "mine.py"}, "b": {"file": "models/bert.py"}, "c": None},
        "torchbench": {"file": "~/x.yaml"},
    }
    found = settings.located(content, tmp_path, ROOT)
    assert found["models"] == {
        "a": {"file": str(tmp_path / "mine.py")},
        "b": {"file": "models/bert.py"},
        "c": None,
    }
    assert found["torchbench"] == {"file": "~/x.yaml"}
    assert settings.located(content, tmp_path, tmp_path) == content


def test_a_matrix_of_ones_own_over_the_shipped_one(tmp_path):
    (tmp_path / "mine.py").write_text("def get_model(): ...\ndef get_dummy_input(): ...\n")
    (tmp_path / "mine.yaml").write_text(
        'models: {"*": null, resnet: {}, mine: {file: mine.py}}\n'
        'targets: {"*": null, llvm-cpu: {}}\nbaselines: {"*": null}\n'
    )
    files = [ROOT / "config.yaml", tmp_path / "mine.yaml"]
    declared, selections = settings.load({}, files, ROOT)
    found = expansion.expand(declared, selections, ROOT)
    assert list(found.models) == ["resnet", "mine"]
    assert found.models["mine"].file == str(tmp_path / "mine.py")
    assert (list(found.targets), found.baselines) == (["llvm-cpu"], {})
    named = expansion.expand(declared, {"models": "vit", "targets": "cuda"}, ROOT)
    assert (list(named.models), list(named.targets)) == (["vit"], ["cuda"])


def test_a_run_of_nothing_is_refused(tmp_path):
    (tmp_path / "mine.yaml").write_text('models: {"*": null}\n')
    files = [ROOT / "config.yaml", tmp_path / "mine.yaml"]
    declared, selections = settings.load({}, files, ROOT)
    with pytest.raises(ConfigError, match=r"^models: every one is left out .* --config models=…$"):
        expansion.expand(declared, selections, ROOT)


def test_null_on_the_command_line_is_that_of_a_file():
    declared, _ = settings.load({"targets": {"cuda": "null"}}, [ROOT / "config.yaml"], ROOT)
    assert declared["targets"]["cuda"]["default"] is False
