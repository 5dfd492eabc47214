"""source: the options of a model file, and its errors, without importing it."""

import re

import pytest

from scripts.core.python_source import literal
from scripts.frontends.torch_model.source import (
    BrokenModelFile,
    Function,
    ModelFileError,
    check_options,
    chosen_options,
    default_batch_size,
    functions,
    own_imports,
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
    found = functions(file(GOOD))
    assert found["get_model"] == Function(frozenset({"size", "pretrained"}))
    assert found["get_dummy_input"] == Function(frozenset({"batch_size"}))


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
        (GOOD + "\ndef get_dummy_input(a, /): ...", r"get_dummy_input\(\) has the positional-only parameter 'a'; .* take the '/' away"),
        ("def get_models(): ...\ndef get_dummy_input(): ...", r"no function get_model\(\) .*did you mean 'get_models'\? rename it to get_model"),
        ("from x import get_model\ndef get_dummy_input(): ...", r"get_model is imported on line 1; expected `def get_model\(\.\.\.\)`"),
        (GOOD + "\nget_model = other", r"get_model is assigned on line 7; expected `def get_model"),
        (GOOD + "\nasync def get_model(): ...", r"get_model is an async def on line 7"),
        (GOOD + "\ndef get_model(model=1): ...", r"get_model\(\) has the parameter 'model', which is what get_model\(\) returned"),
        (GOOD + "\ndef describe_inputs(x): ...", r"describe_inputs\(\) has the parameter 'x' without a default"),
        ("def get_model(:", "not valid Python"),
        (b"\xff\xfe", "not valid Python"),
        ("x = 1\0", "not valid Python"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_work_is_named_with_what_is_wrong(file, text, message):
    with pytest.raises(BrokenModelFile, match=rf"m\.py: .*{message}"):
        functions(file(text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"gone\.py: no such model file") as wrong:
        check_options(tmp_path / "gone.py", {})
    assert not isinstance(wrong.value, BrokenModelFile), "the configuration names it"


@pytest.mark.parametrize("name", ["m.txt", "m"])
def test_a_file_that_python_would_not_import_is_named(file, name):
    path = file(GOOD)
    with pytest.raises(ModelFileError, match=rf"{name}: .* does not end in \.py"):
        functions(path.rename(path.with_name(name)))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("def get_model(): ...\ndef get_dummy_input(): ...", 1),
        (GOOD, 1),
        (GOOD.replace("batch_size=1", "batch_size=8"), 8),
        (GOOD.replace("size: str", "batch_size: int = 4, size: str"), 4),
        ("SIZE: int = 16\n" + GOOD.replace("batch_size=1", "*, batch_size=SIZE"), 16),
    ],
)
def test_the_batch_size_is_the_default_of_either_function(file, text, size):
    assert default_batch_size(file(text)) == size


@pytest.mark.parametrize("value", ["2 * 4", "len(SIZES)", "None", "True", "'8'", "SIZE", "CHANGED"])
def test_a_batch_size_that_cannot_be_read_is_refused_and_not_taken_for_one(file, value):
    text = "CHANGED = 1\nCHANGED = 2\n" + GOOD.replace("batch_size=1", f"batch_size={value}")
    said = rf"m\.py: the default of batch_size is `{re.escape(value)}`, .*; write a number, or set"
    with pytest.raises(ModelFileError, match=said):
        default_batch_size(file(text))


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


def test_the_model_is_no_option_and_optional_functions_are_found(file):
    path = file(
        "def get_model(size='s'): ...\n"
        "def get_dummy_input(model, batch_size=1): ...\n"
        "def get_float_model(**options): ...\n"
        "def describe_inputs(*, model=None): ...\n"
        "def other(needs): ...\n"
    )
    assert functions(path) == {
        "get_model": Function(frozenset({"size"})),
        "get_dummy_input": Function(frozenset({"batch_size"}), takes_model=True),
        "get_float_model": Function(frozenset(), takes_any=True),
        "describe_inputs": Function(frozenset(), takes_model=True),
    }


def test_a_function_is_called_with_the_options_it_names_and_with_all_where_it_takes_any():
    options = {"size": "s", "width": 3, "dtype": "f16", "seed": 1}
    assert chosen_options(Function(frozenset({"size"})), options) == {"size": "s"}
    assert chosen_options(Function(frozenset({"dtype"})), options) == {"dtype": "f16"}
    taken = chosen_options(Function(frozenset({"size"}), takes_any=True), options)
    assert taken == {"size": "s", "width": 3}


def test_a_function_that_takes_any_option_has_none_refused(file):
    path = file("def get_model(**options): ...\ndef get_dummy_input(): ...\n")
    check_options(path, {"anything": 1})


def test_own_imports_are_what_lies_beside_and_what_models_share(tmp_path):
    files = {
        "user/mine.py": "import torch, helper\n" + GOOD,
        "user/helper.py": "from models.parts import shared",
        "user/unrelated.py": "",
        "project/models/parts/shared.py": "import torch\nfrom models.parts.deep import x\nfrom scripts.lib import y",
        "project/models/parts/deep.py": "",
        "project/models/other.py": "",
        "project/scripts/lib/y.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = own_imports(tmp_path / "user/mine.py", tmp_path / "project")
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        "project/models/parts/deep.py",
        "project/models/parts/shared.py",
        "user/helper.py",
    ]


def test_an_own_import_that_does_not_parse_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("import helper\n" + GOOD)
    (tmp_path / "helper.py").write_text("def (")
    with pytest.raises(ModelFileError, match=r"mine\.py: a module that it imports .*helper\.py"):
        own_imports(tmp_path / "mine.py", tmp_path)
