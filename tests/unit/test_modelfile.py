"""modelfile: what a model file takes, and what is wrong with it, without importing it."""

import pytest

from scripts.lib.modelfile import (
    ModelFileError,
    accepted_options,
    check_options,
    default,
    literal,
)

GOOD = """
import torch_that_is_not_installed

def get_model(size: str = "50", *, pretrained=False): ...
def get_dummy_input(batch_size=1): ...
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        path = tmp_path / "m.py"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_options_are_the_parameters_of_each_function(file):
    assert accepted_options(file(GOOD)) == {
        "get_model": {"size", "pretrained"},
        "get_dummy_input": {"batch_size"},
    }


def test_options_of_either_function_and_of_the_pipeline_are_taken(file):
    options = {"size": "18", "pretrained": True, "batch_size": 2, "dtype": "f16", "seed": 1}
    check_options(file(GOOD), options)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("batchsize", r"takes no option 'batchsize' \(it takes batch_size, dtype, pretrained, seed, size\); did you mean 'batch_size'\?"),
        ("zzz", r"m\.py: takes no option 'zzz' \(it takes .*\)$"),
    ],
)  # fmt: skip
def test_an_option_that_no_one_takes_is_refused(file, option, message):
    with pytest.raises(ModelFileError, match=message):
        check_options(file(GOOD), {option: 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_model(): ...", r"no function get_dummy_input\(\) at the top level"),
        ("class A:\n    def get_model(): ...", r"no function get_model\(\) at the top level"),
        ("", r"no function get_model\(\)"),
        (GOOD + "\ndef get_model(a, b=1): ...", r"get_model\(\) has the parameter 'a' without a default"),
        (GOOD + "\ndef get_model(*, a=1, b): ...", r"get_model\(\) has the parameter 'b' without a default"),
        (GOOD + "\ndef get_dummy_input(a, /): ...", r"get_dummy_input\(\) has the parameter 'a'"),
        ("def get_model(:", "not valid Python"),
        (b"\xff\xfe", "not valid Python"),
        ("x = 1\0", "not valid Python"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_work_is_named_with_what_is_wrong(file, text, message):
    with pytest.raises(ModelFileError, match=rf"m\.py: .*{message}"):
        accepted_options(file(text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"gone\.py: no such model file"):
        check_options(tmp_path / "gone.py", {})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("size", "50"),
        ("pretrained", False),
        ("batch_size", 1),
        ("seq_len", "none"),
        ("zzz", "none"),
    ],
)
def test_a_default_is_the_literal_in_either_function(file, option, value):
    path = file(GOOD + "\ndef other(zzz=1): ...\ndef get_model(seq_len=LONG): ...\n")
    assert default(path, option, "none") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("import not_installed\nOPTIONS = {'dialect': ('a', 'b')}", {"dialect": ("a", "b")}),
        ("def f():\n    OPTIONS = {'inner': ()}", None),
        ("OTHER = 1", None),
        ("", None),
    ],
)
def test_a_literal_is_read_at_the_top_level_without_importing(file, text, value):
    assert literal(file(text), "OPTIONS", None) == value
