"""suites: entries of `suites:` to models, without the packages that have them."""

import copy
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.config import expansion, models, settings
from scripts.config.models import Entry, SuiteError
from scripts.core import checkout
from tests import declarations
from tests.declarations import CONFIG, MODEL

SUITE_FILE = "def get_model(name='x', size='s', path=''): ...\ndef get_dummy_input(batch_size=1, seq_len=8): ...\n"
NAMES = {
    "timm": "# of timm\nresnet18\nresnet18d\nresnet50\nvit_tiny\nold_net -> resnet50.new\n",
    "hf": "bert fill-mask=BertForMaskedLM question-answering=BertForQuestionAnswering\nt5 text2text-generation=T5ForConditionalGeneration\n",
    "torchvision": "alexnet\n",
}
LISTS = {
    "few": "# source: here\ntimm/resnet18\nhf/t5 {seq_len: 16}  # short\n",
    "gone": "timm/gone_net\nhf/OldName\n",
}
BENCH = "class Model:\n    DEFAULT_TRAIN_BSIZE = 16\n    DEFAULT_EVAL_BSIZE = 4\n"


@pytest.fixture
def root(tmp_path):
    """A folder of a Snakefile with the files of CONFIG, of the suites and of a checkout."""
    files = {
        "models/a.py": MODEL,
        **{f"models/suites/{suite}.py": SUITE_FILE for suite in models.SUITES},
        **{f"models/suites/names/{suite}.txt": text for suite, text in NAMES.items()},
        **{f"models/suites/{name}.txt": text for name, text in LISTS.items()},
        "bench/torchbenchmark/models/dcgan/__init__.py": BENCH,
        "bench/torchbenchmark/models/dcgan/metadata.yaml": "devices: {cpu: {eval_batch_size: 2}}\n",
        "bench/torchbenchmark/models/dlrm/__init__.py": BENCH,
        "bench/torchbenchmark/models/odd/__init__.py": "DEFAULT_EVAL_BSIZE = 1 << 3\n",
    }
    return declarations.write_project(tmp_path, files)


def named(root, *declared, **more) -> list[str]:
    return [entry.where for entry in models.suite_entries(declared, root, **more)]


def matrix(root, declared: list, selections: dict | None = None, **changes):
    config = copy.deepcopy(CONFIG) | {"suites": declared} | changes
    stages = ("env", "reference", "export", "compile", "verify", "baseline", "time")
    settings.check(config | {"limits": {stage: {"timeout_s": 1} for stage in stages}})
    return expansion.expand(config, selections or {}, root)


def problems_of(root, *declared, **more) -> list[str]:
    with pytest.raises(SuiteError) as problem:
        models.suite_entries(declared, root, **more)
    return str(problem.value).splitlines()


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("timm/resnet18", ["timm/resnet18"]),
        ("timm/resnet*", ["timm/resnet18", "timm/resnet18d", "timm/resnet50"]),
        ("timm/resnet[0-9][0-9]", ["timm/resnet18", "timm/resnet50"]),
        ("timm/*", ["timm/resnet18", "timm/resnet18d", "timm/resnet50", "timm/vit_tiny"]),  # no old names
        ("timm/old_net", ["timm/old_net"]),
        ("timm/resnet18.a1_in1k", ["timm/resnet18.a1_in1k"]),  # the tag of its weights
        ("timm/hf-hub:owner/net", ["timm/hf-hub:owner/net"]),
        ("hf/*", ["hf/bert", "hf/t5"]),  # a type once, not once a task
        ("hf/*:*", ["hf/bert:fill-mask", "hf/bert:question-answering", "hf/t5:text2text-generation"]),
        ("hf/bert:question-answering", ["hf/bert:question-answering"]),
        ("hf/BertForMaskedLM", ["hf/BertForMaskedLM"]),
        ("hf/google-bert/bert-base-uncased:fill-mask", ["hf/google-bert/bert-base-uncased:fill-mask"]),
        ("few", ["timm/resnet18", "hf/t5"]),
        ("gone", ["timm/gone_net", "hf/OldName"]),  # a row says that they are gone
        ("timm/gone_net", ["timm/gone_net"]),
    ],
)  # fmt: skip
def test_an_entry_names_models_by_name_by_glob_or_by_list(root, pattern, wanted):
    assert named(root, pattern) == wanted


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("timm/resnet19", "unknown model 'resnet19'; did you mean 'resnet18' or"),
        ("timm/zzz", "unknown model 'zzz'; there are: old_net, resnet18, resnet18d, resnet50, vit_tiny (models/suites/names/timm.txt)"),
        ("timm/nosuch.tag", "unknown model 'nosuch.tag'; there are: "),
        ("timm/zz*", "matches none of the 4 names in models/suites/names/timm.txt"),
        ("hf/bert:fil-mask", "unknown model 'bert:fil-mask'; did you mean 'bert:fill-mask'"),
        ("hf/brt", "unknown model 'brt'; did you mean 'bert'"),
        ("torchvision/alexnet.tag", "unknown model 'alexnet.tag'; did you mean 'alexnet'?"),
        ("tim/resnet18", "unknown suite 'tim'; did you mean 'timm'?"),
        ("fwe", "unknown list 'fwe'; did you mean 'few'?"),
        ("resnet18", "unknown list 'resnet18'; there are: few, gone (models/suites (a model is <suite>/<name>))"),
        ("torchbench/dlrm", "needs the checkout that the models are in; set torchbench.path"),
    ],
)  # fmt: skip
def test_what_names_nothing_is_refused_with_what_is_near(root, pattern, problem):
    [found] = problems_of(root, pattern)
    assert found.startswith(f"suites.{pattern}: {problem}")


def test_every_problem_is_said_at_once(root):
    assert [p.split(":")[0] for p in problems_of(root, "fwe", "timm/zzz", "timm/zz*")] == [
        "suites.fwe",
        "suites.timm/zzz",
        "suites.timm/zz*",
    ]


def test_a_later_mention_of_a_model_adds_to_its_options(root):
    declared = [
        {"timm/resnet*": {"size": "s", "batch_size": 2}},
        {"timm/resnet50": {"batch_size": 8}},
    ]
    found = {e.name: e.options for e in models.suite_entries(declared, root)}
    assert list(found) == ["resnet18", "resnet18d", "resnet50"]
    assert found["resnet18"] == {"size": "s", "batch_size": 2}
    assert found["resnet50"] == {"size": "s", "batch_size": 8}


def test_the_models_of_a_list_have_the_options_of_their_line_and_of_the_entry(root):
    found = {e.name: e.options for e in models.suite_entries([{"few": {"batch_size": 2}}], root)}
    assert found == {"resnet18": {"batch_size": 2}, "t5": {"seq_len": 16, "batch_size": 2}}
    [_, t5] = models.suite_entries([{"few": {"seq_len": 32}}], root)
    assert t5.options == {"seq_len": 32}  # the entry's, over the line's


@pytest.mark.parametrize("line", ["resnet18", "nosuite/x", "timm/resnet18 8", "timm/resnet18 [a]"])
def test_a_line_of_a_list_that_is_none_is_refused(root, line):
    (root / "models/suites/bad.txt").write_text(f"{line}\n")
    [problem] = problems_of(root, "bad")
    assert problem.startswith(f"suites.bad: bad.txt: found {line!r}; expected <suite>/<name>")


@pytest.mark.parametrize(
    ("where", "cell"),
    [
        ("timm/resnet18", "timm-resnet18"),
        ("timm/resnet50.a1_in1k", "timm-resnet50.a1_in1k"),
        ("timm/hf-hub:timm/vit_tiny", "timm-vit_tiny"),
        ("hf/bert:question-answering", "hf-bert-question-answering"),
        ("hf/google-bert/bert-base-uncased:fill-mask", "hf-bert-base-uncased-fill-mask"),
    ],
)
def test_a_model_is_named_after_its_suite_and_itself(where, cell):
    assert Entry(*where.split("/", 1)).cell == cell


@given(st.sampled_from(models.SUITES), st.text(min_size=1))
def test_any_name_makes_one_component_of_a_path(suite, name):
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", Entry(suite, name).cell)


def test_two_models_that_would_share_their_rows_are_refused(root):
    assert problems_of(root, "hf/one/bert", "hf/other/bert") == [
        "suites.hf/other/bert: its rows would be named hf-bert, as those of hf/one/bert; leave one of them out"
    ]


def test_a_model_of_a_suite_is_a_model_of_the_suites_file(root):
    found = matrix(root, ["timm/resnet18"]).models
    assert list(found) == ["a", "b", "b-again", "mine", "timm-resnet18"]
    model = found["timm-resnet18"]
    assert (model.file, model.suite, model.options) == ("models/suites/timm.py", "timm", {"name": "resnet18"})  # fmt: skip
    assert (model.torchbench, model.batch_size, model.dtype) == ("resnet18", 1, "f32")


def test_options_of_an_entry_expand_as_those_of_any_model(root):
    options = {"dtype": ["f32", "bf16"], "batch_size": [1, 8], "tolerance": {"tol": 0.5}, "size": 7}
    found = matrix(root, [{"timm/resnet18": options}], {"models": "timm-resnet18"}).models
    assert list(found) == [f"timm-resnet18-{d}-b{b}" for d in ("f32", "bf16") for b in (1, 8)]
    last = found["timm-resnet18-bf16-b8"]
    assert last.options == {"name": "resnet18", "dtype": "bf16", "batch_size": 8, "size": "7"}
    assert last.tolerance == {"tol": 0.5}


@pytest.mark.parametrize(
    ("selections", "changes", "models"),
    [
        ({"models": "timm-*"}, {}, ["timm-resnet18", "timm-resnet18d", "timm-resnet50"]),
        ({"models": "a,hf-t5"}, {}, ["a", "hf-t5"]),
        ({}, {"filter": "^(timm|hf)-", "exclude": "18"}, ["timm-resnet50", "hf-t5"]),
    ],
)
def test_models_of_suites_are_selected_as_any_model(root, selections, changes, models):
    assert list(matrix(root, ["timm/resnet*", "hf/t5"], selections, **changes).models) == models


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (["timm/zz*"], "suites.timm/zz*: matches none of the 4 names"),
        ([{"timm/resnet18": {"batchsize": 1}}], "suites.timm.timm-resnet18: "),
        ([{"timm/resnet18": {"file": "x.py"}}], "suites.timm/resnet18: a model of a suite has no file of its own"),
        (["timm/resnet18"], "suites.timm/resnet18: timm-resnet18 is the name of another model"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_a_problem_of_the_configuration(root, declared, problem):
    if "another" in problem:
        (root / "models/timm-resnet18.py").write_text(MODEL)
    with pytest.raises(settings.ConfigError) as found:
        matrix(root, declared)
    assert any(line.startswith(problem) for line in str(found.value).splitlines())


def test_the_command_line_adds_to_the_suites_that_are_declared(tmp_path):
    file = tmp_path / "config.yaml"
    config = yaml.safe_load((checkout.ROOT / "config.yaml").read_text())
    file.write_text(yaml.safe_dump(config | {"suites": ["few", {"hf/t5": {"seq_len": 16}}]}))
    given = config | {"suites": " timm/resnet*, hf/bert"}
    declared, selections = settings.load(given, [file])
    assert declared["suites"] == ["few", {"hf/t5": {"seq_len": 16}}, "timm/resnet*", "hf/bert"]
    assert selections == {}
    assert "suites" not in settings.load(config | {"suites": None}, [file])[0]


BENCHED = {"torchbench": {"path": "bench"}}


def test_torchbench_names_are_the_folders_of_the_checkout(root):
    assert named(root, "torchbench/d*", checkout="bench") == ["torchbench/dcgan", "torchbench/dlrm"]
    [problem] = problems_of(root, "torchbench/dlr", checkout="bench")
    assert "did you mean 'dlrm'?" in problem
    [problem] = problems_of(root, "torchbench/dlrm", checkout="nowhere")
    assert "torchbench.path: nowhere has no folder torchbenchmark/models" in problem


@pytest.mark.parametrize(
    ("name", "options", "size"),
    [
        ("dlrm", {}, 4),  # its class's
        ("dcgan", {}, 2),  # its metadata's, for this device
        ("odd", {}, 1),  # not to be read: as any model
        ("dlrm", {"batch_size": 3}, 3),
    ],
)
def test_a_torchbench_model_has_its_own_batch_size(root, name, options, size):
    found = matrix(root, [{f"torchbench/{name}": options}], **BENCHED).models[f"torchbench-{name}"]
    assert found.options == {"name": name, "path": "bench", "batch_size": size}
    assert (found.batch_size, found.suite) == (size, "torchbench")


def test_a_torchbench_file_says_the_batch_size_of_a_torchbench_model(root):
    (root / "bench.yaml").write_text("batch_size: {inference: {dlrm: 9}}")
    config = {"torchbench": {"path": "bench", "file": "bench.yaml"}}
    found = matrix(root, ["torchbench/*"], **config).models
    assert [found[f"torchbench-{n}"].batch_size for n in ("dcgan", "dlrm")] == [2, 9]


def test_the_lists_here_are_of_names_that_are_known_or_were():
    """The 67 and the 45 of PyTorch's runs, and a sample of thirty of all kinds."""
    here = checkout.ROOT
    sizes = {
        name: len(models.read_list(name, here)) for name in ("timm-dynamo", "hf-dynamo", "sample")
    }
    assert sizes == {"timm-dynamo": 67, "hf-dynamo": 45, "sample": 30}
    for model, _ in models.read_list("sample", here):
        suite, _, name = model.partition("/")
        known = models.suite_names(suite, here)
        assert name in {*known.globbed, *known.exact}
