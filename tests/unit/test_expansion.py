"""expansion: a configuration and the files that it names give a matrix, or error messages."""

import copy
import dataclasses
import json
import re

import pytest

from scripts.config import expansion
from scripts.config.cell import of_axes
from scripts.config.entries import Baseline, Model
from scripts.config.rows import Matrix
from scripts.config.settings import ConfigError
from scripts.run import plan as plan_module
from scripts.run.plan import Plan
from tests import declarations
from tests.declarations import CONFIG, MODEL

EXPORTER = "import not_installed\n" + declarations.exporter(
    OPTIONS={"dialect": ("torch", "linalg")}
)
RUNTIMES = {
    "eager": {},
    "cpu_only": {"DEVICES": ("cpu",), "TAKES": ()},
    "programs": {"TAKES": ("program",)},
}


@pytest.fixture
def root(tmp_path):
    """A folder of a Snakefile with what CONFIG names."""
    files = {
        "models/a.py": MODEL,
        "models/_shared.py": MODEL,
        "scripts/frontends/exporters/x.py": EXPORTER,
    }
    files["scripts/frontends/exporters/__init__.py"] = ""
    for name, changes in RUNTIMES.items():
        files[f"scripts/baselines/{name}.py"] = declarations.runtime(**changes)
    return declarations.write_project(tmp_path, files)


def problems_of(config: dict, root, selections: dict | None = None) -> list[str]:
    with pytest.raises(ConfigError) as problem:
        expansion.expand(config, selections or {}, root)
    return str(problem.value).splitlines()


def with_entry(kind: str, name: str, **changes) -> dict:
    config = copy.deepcopy(CONFIG)
    config[kind][name] = config[kind].get(name, {}) | changes
    return config


def test_every_model_file_is_in_the_matrix_and_so_is_every_entry(root):
    found = expansion.expand(CONFIG, {}, root)
    assert [(m.name, m.file, m.suite) for m in found.models.values()] == [
        ("a", "models/a.py", "vmfbench"),
        ("b", "models/b.py", "vmfbench"),
        ("b-again", "models/b.py", "vmfbench"),
        ("mine", "elsewhere/mine.py", "user"),
    ]


def test_for_a_run_in_another_folder_every_path_is_absolute(root):
    found = expansion.expand(CONFIG, {}, root)
    bench = Model("x", "models/suites/torchbench.py", "torchbench", {"path": "bench", "name": "x"})
    models = found.models | {"x": bench}
    absolute = expansion.with_absolute_paths(dataclasses.replace(found, models=models), root)
    assert [model.file for model in absolute.models.values()] == [
        str(root / model.file) for model in models.values()
    ]
    assert absolute.models["x"].options == {"path": str(root / "bench"), "name": "x"}
    assert absolute.models["b"].options == found.models["b"].options


def test_options_go_to_the_model_and_the_pipelines_own_keys_do_not(root):
    found = expansion.expand(CONFIG, {}, root).models
    assert found["b"].options == {"batch_size": 2, "dtype": "f16", "size": "50"}
    assert (found["b"].tolerance, found["b"].dtype, found["b"].batch_size) == ({"tol": 0.1}, "f16", 2)  # fmt: skip
    assert (found["a"].options, found["a"].dtype, found["a"].batch_size) == ({}, "f32", 1)


def test_cells_are_the_product_in_the_order_declared(root):
    found = expansion.expand(CONFIG, {"models": "b,a", "targets": "gpu,cpu"}, root)
    cells = ["/".join(part.name for part in cell) for cell in found.cells()]
    assert cells == [f"{m}/{f}/{t}" for m in "ab" for f in "fg" for t in ("cpu", "gpu")]
    baselines = [(m.name, b.name, test) for m, b, test in found.baseline_cells()]
    assert baselines == [("a", "eager", "eval"), ("b", "eager", "eval")]


@pytest.mark.parametrize(
    ("target", "arch", "opt_level", "flags", "device", "kind"),
    [
        ("cpu", "host", "O2", ("--a", "--b"), "local-task", "cpu"),
        ("gpu", "sm_90", "O3", (), "cuda://1", "cuda"),
        ("amd", "gfx942", "O2", (), "hip", "rocm"),
    ],
)
def test_a_target_has_the_defaults_of_its_backend(
    root, target, arch, opt_level, flags, device, kind
):
    found = expansion.expand(CONFIG, {}, root).targets[target]
    assert (found.arch, found.opt_level, found.flags) == (arch, opt_level, flags)
    assert (found.device, found.device_kind) == (device, kind)


def test_everything_that_is_wrong_is_reported_at_once_with_the_nearest_name(root):
    config = with_entry("models", "b", btch_size=3)
    config["models"]["lost"] = None
    config["frontends"]["f"] |= {"exporter": "zz", "env": "torch"}
    config["baselines"]["eager"]["runtime"] = "eeger"
    lines = problems_of(config, root, {"targets": "cpuu"})
    assert lines[0] == "unknown target 'cpuu'; did you mean 'cpu'?"
    assert lines[1].startswith("models.b: ")
    assert lines[1].endswith("did you mean 'batch_size'?")
    assert lines[2].startswith("models.lost: ")
    assert "no such model file" in lines[2]
    assert sorted(lines[3:]) == [
        "baselines.eager.runtime: unknown runtime 'eeger'; did you mean 'eager'?",
        "frontends.f.env: unknown env 'torch'; there are: e",
        "frontends.f.exporter: unknown exporter 'zz'; there are: plain, x",
    ]


BROKEN = {
    "no function": (MODEL.replace("def get_model", "def get_modell"), "no function get_model()"),
    "no Python": ("def get_model(:", "not valid Python"),
    "no text": ("\udcff", "not valid Python"),
    "no default": (MODEL.replace("batch_size=1", "batch_size"), "without a default"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_model_file_stops_nothing_and_is_known_as_broken(root, monkeypatch, kind):
    monkeypatch.chdir(root)
    plan_module._parts.cache_clear()
    text, message = BROKEN[kind]
    (root / "models/b.py").write_text(text, encoding="utf-8", errors="surrogateescape")
    found = expansion.expand(CONFIG, {}, root)
    assert list(found.models) == ["a", "b", "b-again", "mine"]
    assert {name for name, model in found.models.items() if model.broken} == {"b", "b-again"}
    assert message in found.models["b"].broken
    assert str(root / "models/b.py") in found.models["b"].broken
    assert found.models["b"].batch_size == 2  # configured
    assert found.models["b-again"].batch_size == 1
    assert Plan(found, frozenset(), with_conda=False).broken_models() == [found.models["b"].broken]


def test_a_model_whose_helper_is_broken_is_warned_of_and_depends_on_its_own_file_alone(
    root, monkeypatch
):
    monkeypatch.chdir(root)
    plan_module._parts.cache_clear()
    (root / "models/a.py").write_text(MODEL + "\nimport helper\n")
    (root / "models/helper.py").write_text("def f(:")
    found = expansion.expand(CONFIG, {"models": "a,b"}, root)
    plan = Plan(found, frozenset(), with_conda=False)
    assert [line.split(":")[0] for line in plan.broken_models()] == ["models/a.py"]
    assert "a module that it imports is not valid Python" in plan.broken_models()[0]
    assert plan.model_parts(of_axes(model="a")) == []


def test_an_error_in_the_configuration_stops_whatever_is_broken_beside_it(root):
    (root / "models/a.py").write_text("def get_model(:")
    assert len(problems_of(with_entry("models", "b", btch_size=3), root)) == 1


def test_what_is_not_selected_is_not_looked_at(root):
    config = with_entry("models", "lost", file="nowhere.py")
    config["frontends"]["g"]["env"] = "nowhere"
    found = expansion.expand(config, {"models": "a", "frontends": "f"}, root)
    assert (list(found.models), list(found.frontends)) == (["a"], ["f"])


def test_the_batch_size_is_the_models_own_default_unless_configured(root):
    (root / "models/b.py").write_text(MODEL.replace("batch_size=1", "batch_size=8"))
    found = expansion.expand(CONFIG, {}, root).models
    assert {name: model.batch_size for name, model in found.items()} == {
        "a": 1,
        "b": 2,  # configured
        "b-again": 8,
        "mine": 1,
    }


def test_a_batch_size_that_cannot_be_read_is_refused_unless_the_entry_sets_one(root):
    (root / "models/a.py").write_text(MODEL.replace("batch_size=1", "batch_size=2 * 4"))
    [problem] = problems_of(CONFIG, root)
    assert "the default of batch_size is `2 * 4`" in problem
    config = CONFIG | {"models": CONFIG["models"] | {"a": {"batch_size": 8}}}
    assert expansion.expand(config, {}, root).models["a"].batch_size == 8


@pytest.mark.parametrize(
    ("globs", "frontends"),
    [
        (None, "fg"),
        (["*"], "fg"),
        (["g"], "g"),
        (["[fz]"], "f"),
        (["!g"], "f"),
        (["!g", "*"], "f"),
    ],
)
def test_a_target_leaves_out_the_frontends_that_it_does_not_name(root, globs, frontends):
    config = copy.deepcopy(CONFIG)
    if globs:
        config["targets"]["gpu"]["frontends"] = globs
    found = expansion.expand(config, {"models": "a", "targets": "cpu,gpu"}, root)
    cells = ["/".join(part.name for part in cell) for cell in found.cells()]
    assert [cell for cell in cells if cell.endswith("cpu")] == ["a/f/cpu", "a/g/cpu"]
    assert [cell for cell in cells if cell.endswith("gpu")] == [f"a/{f}/gpu" for f in frontends]


@pytest.mark.parametrize("name", ["my+train", "my+dynamic", "my+2-threads"])
@pytest.mark.parametrize("kind", ["models", "frontends", "targets", "baselines"])
def test_no_entry_has_a_name_that_is_made_of_another(root, kind, name):
    config = copy.deepcopy(CONFIG)
    config[kind][name] = [*config[kind].values()][-1]
    with pytest.raises(ConfigError, match=rf"{kind}\.{re.escape(name)}: found the end of a name"):
        expansion.expand(config, {}, root)


@pytest.mark.parametrize(
    ("frontend", "options", "problem"),
    [
        ("f", {"dialect": "torhc"}, "frontends.f.options.dialect: found 'torhc', allowed is one of torch, linalg"),
        ("f", {}, "frontends.f.options.dialect: missing, allowed is one of torch, linalg"),
        ("f", {"dialect": "torch", "dialct": "torch"}, "frontends.f.options.dialct: unknown option 'dialct'; did you mean 'dialect'?"),
        ("g", {"dialect": "torch"}, "frontends.g.options.dialect: unknown option 'dialect'; there are: none"),
    ],
)  # fmt: skip
def test_a_frontends_options_are_those_of_its_exporter(root, frontend, options, problem):
    config = with_entry("frontends", frontend, options=options)
    assert problems_of(config, root) == [problem]
    other = {"f": "g", "g": "f"}[frontend]
    assert list(expansion.expand(config, {"frontends": other}, root).frontends) == [other]


@pytest.mark.parametrize(
    "pattern", ["*/*/cpuu", "a/f", "z/*", "a/f/cpu/x", "a/f/gpu", "*/eager", "a/eager/training"]
)
def test_an_expectation_that_no_declared_cell_meets_is_refused(root, pattern):
    config = with_entry("targets", "gpu", frontends=["g"])
    config["expect"][pattern] = "ok"
    assert problems_of(config, root) == [f"expect.{pattern}: matches no cell of the matrix"]


@pytest.mark.parametrize(
    "pattern", ["*/*/amd", "b-again/g/cpu", "*/eager/*", "mine/eager/eval", "*/train"]
)
def test_an_expectation_of_what_is_declared_stands_whatever_is_selected(root, pattern):
    config = copy.deepcopy(CONFIG)
    config["expect"][pattern] = "ok"
    selections = {"models": "a", "targets": "cpu", "baselines": "eager"}
    assert expansion.expand(config, selections, root).expect == {"*": "ok", pattern: "ok"}


@pytest.mark.parametrize("kind", ["models", "frontends", "targets", "baselines", "tests"])
def test_a_selection_of_nothing_is_refused(root, kind):
    assert kind.removesuffix("s") in problems_of(CONFIG, root, {kind: ","})[0]


@pytest.mark.parametrize(
    ("wanted", "tests"),
    [
        (None, ("eval",)),  # as declared
        ("eval", ("eval",)),
        ("train", ("train",)),  # whether or not it is declared
        ("train,eval", ("eval", "train")),
        ("*", ("eval", "train")),
    ],
)
def test_tests_are_those_declared_or_those_selected_of_all_there_are(root, wanted, tests):
    selections = {} if wanted is None else {"tests": wanted}
    found = expansion.expand(CONFIG, selections, root)
    assert found.tests == tests
    assert [test for _, _, test in found.baseline_cells()][: len(tests)] == list(tests)


def test_tests_may_be_declared_in_any_order(root):
    found = expansion.expand(CONFIG | {"tests": ["train", "eval"]}, {}, root)
    assert found.tests == ("train", "eval")


def test_what_is_trained_and_dumped_goes_into_the_matrix_as_configured(root):
    config = CONFIG | {"train": {"lr": 0.5}, "dumps": {"kinds": ["ir"]}}
    found = expansion.expand(config, {}, root)
    assert (found.train, found.dumps) == ({"lr": 0.5}, {"kinds": ["ir"]})
    assert (expansion.expand(CONFIG, {}, root).train, found.overrides) == ({}, {})


@pytest.mark.parametrize(
    ("train", "problem"),
    [
        ({"name": "Adam", "momentum": 0.9}, "train.momentum: unknown argument of Adam 'momentum'; there are: amsgrad, betas, eps, lr, weight_decay"),
        ({"betas": [0.9, 0.99]}, "train.betas: unknown argument of SGD 'betas'; there are: lr, momentum, nesterov, weight_decay"),
        ({"nesterov": True}, "train.nesterov: found true, expected with a momentum above 0"),
    ],
)  # fmt: skip
def test_an_argument_that_the_optimizer_would_refuse_is_refused(root, train, problem):
    assert problems_of(CONFIG | {"train": train}, root) == [problem]


@pytest.mark.parametrize(
    ("changes", "models"),
    [
        ({"filter": "^B"}, ["b", "b-again"]),
        ({"exclude": "again|^a$"}, ["b", "mine"]),
        ({"filter": "^b", "exclude": "again"}, ["b"]),
        ({"filter": ""}, ["a", "b", "b-again", "mine"]),
    ],
)
def test_a_filter_and_an_exclusion_are_of_the_models_names(root, changes, models):
    assert list(expansion.expand(CONFIG | changes, {}, root).models) == models


def test_a_filter_is_of_the_models_that_are_selected(root):
    found = expansion.expand(CONFIG | {"filter": "a"}, {"models": "b*"}, root)
    assert list(found.models) == ["b-again"]
    assert problems_of(CONFIG | {"filter": "mine"}, root, {"models": "b*"}) == [
        "filter='mine' exclude=None leave no model of b, b-again"
    ]


@pytest.mark.parametrize("key", ["filter", "exclude"])
def test_a_filter_that_is_no_regular_expression_is_one_problem_among_others(root, key):
    lines = problems_of(CONFIG | {key: "b["}, root, {"targets": "cpuu"})
    assert lines[0] == "unknown target 'cpuu'; did you mean 'cpu'?"
    assert lines[1].startswith("filter/exclude: 'b[' is no regular expression: ")
    assert len(lines) == 2


def test_a_filter_of_models_that_are_not_there_is_not_said_twice(root):
    config = CONFIG | {"filter": "zz"}
    assert problems_of(config, root, {"models": "bb"}) == ["unknown model 'bb'; did you mean 'b'?"]


def test_a_model_that_is_filtered_out_is_not_looked_at(root):
    config = with_entry("models", "lost", file="nowhere.py") | {"exclude": "lost"}
    assert "lost" not in expansion.expand(config, {}, root).models


def test_a_device_that_a_runtime_does_not_run_on_is_refused_by_what_it_declares(root):
    config = with_entry("baselines", "gpu", runtime="cpu_only", device="cuda", env="e")
    assert problems_of(config, root) == ["baselines.gpu.device: found 'cuda', cpu_only runs on cpu"]
    assert list(expansion.expand(config, {"baselines": "eager"}, root).baselines) == ["eager"]
    config["baselines"]["gpu"]["device"] = "cpu"
    assert expansion.expand(config, {}, root).baselines["gpu"].device == "cpu"


def test_a_baseline_has_a_precision_and_flags_of_its_own_or_none(root):
    config = with_entry(
        "baselines", "odd", runtime="eager", device="cuda", env="e", precision="fp16", xla_flags="-a b"
    )  # fmt: skip
    assert problems_of(config, root) == [
        "baselines.odd.xla_flags: means nothing to eager; leave it out"
    ]
    runtime = root / "scripts/baselines/eager.py"
    runtime.write_text(declarations.runtime(TAKES=("precision", "xla_flags")))
    found = expansion.expand(config, {}, root).baselines
    assert found["odd"] == Baseline("odd", "eager", "cuda", "e", "fp16", "-a b")
    assert found["eager"] == Baseline("eager", "eager", "cpu", "e", "none", "")


def test_a_model_is_known_to_a_torchbench_file_by_its_own_name_or_the_one_given(root):
    found = expansion.expand(with_entry("models", "b", torchbench="BERT"), {}, root).models
    assert {name: model.torchbench for name, model in found.items()} == {
        "a": "a",
        "b": "BERT",
        "b-again": "b-again",
        "mine": "mine",
    }
    assert "torchbench" not in found["b"].options


@pytest.fixture
def with_file(root):
    """The matrix of CONFIG, changed, with a TorchBench file of this text."""

    def expanded(text: str, selections: dict | None = None, **changes) -> Matrix:
        (root / "bench.yaml").write_text(text)
        config = CONFIG | {"torchbench": {"file": "bench.yaml"}} | changes
        return expansion.expand(config, selections or {}, root)

    return expanded


GPU = {"eager": CONFIG["baselines"]["eager"], "gpu": {"runtime": "eager", "device": "cuda", "env": "e"}}  # fmt: skip
BOTH = ["eval", "train"]


def skipped(found: Matrix) -> dict[str, str]:
    """Cells to skip, with the key that says so."""
    skips = {cell: one.skip for cell, one in found.overrides.items() if one.skip}
    assert all(reason.endswith("bench.yaml") for reason in skips.values())
    return {cell: reason.split(" of ")[0] for cell, reason in skips.items()}


IREE = ["a/f/cpu", "a/f/gpu", "a/f/amd"]


@pytest.mark.parametrize(
    ("text", "key", "cells"),
    [
        ("skip: {all: [A]}", "skip.all", [*IREE, "a/eager/eval", "a/eager/train", "a/gpu/eval", "a/gpu/train"]),
        ("skip: {device: {cpu: [A]}}", "skip.device.cpu", ["a/f/cpu", "a/eager/eval", "a/eager/train"]),
        ("skip: {device: {cuda: [A]}}", "skip.device.cuda", ["a/f/gpu", "a/f/amd", "a/gpu/eval", "a/gpu/train"]),  # PyTorch calls ROCm's cuda
        ("skip: {device: {rocm: [A]}}", "", []),
        ("skip: {test: {training: [A]}}", "skip.test.training", ["a/eager/train", "a/gpu/train"]),
        ("skip: {test: {inference: [A]}}", "skip.test.inference", [*IREE, "a/eager/eval", "a/gpu/eval"]),
        ("only_training: [A]", "only_training", [*IREE, "a/eager/eval", "a/gpu/eval"]),
        ("skip: {all: [a]}", "", []),  # its name there is another one
    ],
)  # fmt: skip
def test_a_torchbench_file_skips_the_cells_of_a_device_and_a_test(with_file, text, key, cells):
    found = with_file(
        text, {"frontends": "f"}, models={"a": {"torchbench": "A"}}, baselines=GPU, tests=BOTH
    )
    assert skipped(found) == dict.fromkeys(cells, key)


@pytest.mark.parametrize(
    "key",
    ["accuracy.skip.large_models", "accuracy.skip.eager_not_deterministic", "non_deterministic"],
)
def test_a_model_that_cannot_be_verified_is_skipped_as_no_latency_could_stand(with_file, key):
    text = "[a]"
    for part in reversed(key.split(".")):
        text = f"{{{part}: {text}}}"
    found = with_file(text, {"models": "a", "frontends": "f", "targets": "cpu"})
    assert skipped(found) == {"a/f/cpu": key, "a/eager/eval": key}


def test_a_skip_comes_before_what_cannot_be_verified(with_file):
    found = with_file("{skip: {all: [a]}, non_deterministic: [a]}", {"models": "a"})
    assert set(skipped(found).values()) == {"skip.all"}


def test_cells_that_are_not_selected_are_not_overridden(with_file):
    found = with_file("skip: {all: [a, b]}", {"models": "a", "targets": "cpu", "tests": "train"})
    assert set(skipped(found)) == {"a/eager/train"}


@pytest.mark.parametrize(
    ("dtype", "precision", "test", "text", "tol"),
    [
        ("f32", "none", "eval", "even_higher: [a]", None),  # the file's lists are of training there
        ("f32", "none", "train", "higher: [a]", None),  # 1e-3 is less than our own 1e-2
        ("f32", "none", "train", "even_higher: [a]", 8e-2),
        ("f32", "bf16", "eval", "higher_bf16: [a]", None),  # 1e-2 both
        ("f32", "fp16", "eval", "higher_fp16: [a]", 1e-2),
        ("f32", "amp-bf16", "eval", "higher_fp16: [a]", None),
        ("bf16", "fp16", "eval", "higher_fp16: [a]", 1e-2),  # the cast replaces the model's dtype
        ("bf16", "amp-fp16", "eval", "higher_fp16: [a]", None),  # autocast leaves some of it
    ],
)
def test_a_tolerance_of_the_file_is_taken_where_it_is_looser_than_the_default(
    with_file, dtype, precision, test, text, tol
):
    found = with_file(
        f"{{tolerance: {{{text}}}}}",
        {"models": "a"},
        models={"a": {"dtype": dtype}},
        baselines={"gpu": GPU["gpu"] | {"precision": precision}},
        tests=[test],
    )
    wanted = {} if tol is None else {"tol": tol}
    assert found.override(f"a/gpu/{test}").tolerance == wanted
    assert found.tolerance(found.models["a"], f"a/gpu/{test}") == wanted


def test_how_to_compare_is_taken_for_programs_and_baselines_whatever_the_tolerance(with_file):
    text = (
        "{tolerance: {higher: [a], cosine: [a]}, require_larger_multiplier_for_smaller_tensor: [a]}"
    )
    found = with_file(text, {"models": "a,b", "frontends": "f", "targets": "cpu"}, tests=BOTH)
    asked = {"cosine": True, "small_tensor_multiplier": True}
    assert {cell: one.tolerance for cell, one in found.overrides.items() if one.tolerance} == {
        "a/f/cpu": asked,
        "a/eager/eval": asked,
        "a/eager/train": asked,
    }


@pytest.mark.parametrize(
    ("text", "tests", "sizes"),
    [
        ("batch_size: {inference: {b-again: 4}}", ["eval"], {"b-again": 4}),
        ("batch_size: {training: {b-again: 4}}", ["eval"], {}),
        ("batch_size: {training: {b-again: 4}}", ["train"], {"b-again": 4}),
        ("batch_size: {training: {b-again: 4}, inference: {b-again: 4}}", BOTH, {"b-again": 4}),
        ("batch_size: {inference: {b: 4}}", ["eval"], {}),  # its entry sets one
        ("batch_size: {divisors: {b-again: 3}}", BOTH, {"b-again": 2}),
        ("batch_size: {inference: {b-again: 4}, divisors: {b-again: 2}}", ["eval"], {"b-again": 4}),
        ("batch_size: {inference: {a: 1}}", ["eval"], {}),
        pytest.param("batch_size: {training: {b-again: 8}}", BOTH, {}),  # the same as its own
    ],
)  # fmt: skip
def test_a_batch_size_is_the_entrys_the_files_or_the_models_own(
    with_file, root, text, tests, sizes
):
    (root / "models/b.py").write_text(MODEL.replace("batch_size=1", "batch_size=8"))
    found = with_file(text, tests=tests).models
    own = {"a": 1, "b": 2, "b-again": 8, "mine": 1}
    assert {name: model.batch_size for name, model in found.items()} == own | sizes
    # What differs from the model file's own has to reach the stages.
    assert {n: m.options["batch_size"] for n, m in found.items() if "batch_size" in m.options} == {
        "b": 2
    } | {name: size for name, size in sizes.items() if size != own[name]}


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ("training: {a: 4}, inference: {a: 8}", "eval 8, train 4"),
        ("training: {a: 4}", "eval 1, train 4"),
        ("inference: {a: 2}, divisors: {a: 2}", "eval 2, train 1"),
    ],
)
def test_batch_sizes_that_differ_by_test_are_refused_where_both_run(with_file, sizes, shown):
    with pytest.raises(ConfigError) as problem:
        with_file(f"batch_size: {{{sizes}}}", tests=BOTH)
    assert str(problem.value) == (
        f"models.a: bench.yaml gives it batch sizes by test ({shown}), and its "
        "weights, inputs and rows have one: set batch_size, or run the tests one by one"
    )
    for test in BOTH:
        with_file(f"batch_size: {{{sizes}}}", {"tests": test}, tests=BOTH)
    with_file(f"batch_size: {{{sizes}}}", tests=BOTH, models={"a": {"batch_size": 3}})


def test_a_batch_size_of_the_file_for_a_model_that_takes_none_is_refused(with_file, root):
    (root / "models/a.py").write_text(MODEL.replace("batch_size=1", ""))
    with pytest.raises(ConfigError, match=r"models\.a: .* takes no option 'batch_size'"):
        with_file("batch_size: {inference: {a: 4}}")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("nowhere.yaml", "cannot be read as YAML: "),
        ("empty.yaml", "found nothing, expected a mapping"),
    ],
)
def test_a_torchbench_file_that_cannot_be_read_is_a_problem_of_its_key(root, file, problem):
    (root / "empty.yaml").touch()
    lines = problems_of(CONFIG | {"torchbench": {"file": file}}, root, {"targets": "cpuu"})
    assert lines[0].startswith("torchbench.file: ")
    assert file in lines[0]
    assert problem in lines[0]
    assert lines[1] == "unknown target 'cpuu'; did you mean 'cpu'?"


def test_a_torchbench_file_may_be_in_the_home_folder(with_file, root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home/other.yaml").write_text("skip: {all: [a]}")
    found = with_file("{}", torchbench={"file": "~/other.yaml"})
    assert found.override("a/f/cpu").skip == "skip.all of ~/other.yaml"


@pytest.mark.parametrize(
    "entries",
    [
        {"frontends": ("m", "m-n"), "targets": ("n-o", "o")},
        {"frontends": ("f",), "targets": ("eval",), "baselines": ("iree-f",)},
    ],
)
def test_every_cell_has_a_dump_of_its_own_whatever_the_names(root, entries):
    config = CONFIG | {
        kind: dict.fromkeys(names, next(iter(CONFIG[kind].values())))
        for kind, names in entries.items()
    }
    found = expansion.expand(config, {}, root)
    dumps = Plan(found, frozenset(), with_conda=False)["profile"].dumps()
    assert len(set(dumps)) == len(dumps)


def test_what_is_skipped_of_a_whole_model_does_not_depend_on_what_is_selected(with_file):
    text = "skip: {all: [a], test: {training: [b]}, device: {cpu: [mine]}}"
    for selections in ({}, {"tests": "train"}, {"targets": "cpu"}):
        models = with_file(text, selections, tests=["eval", "train"]).models
        assert {n: (bool(m.skip), bool(m.skip_train)) for n, m in models.items()} == {
            "a": (True, True), "b": (False, True), "b-again": (False, False), "mine": (False, False)
        }  # fmt: skip


def test_a_list_of_dtypes_or_batch_sizes_is_a_variant_each_named_by_what_it_varies(root):
    config = CONFIG | {"models": {"a": {"dtype": ["f32", "bf16"], "batch_size": [1, 8]}}}
    models = expansion.expand(config, {}, root).models
    assert list(models) == ["a-f32-b1", "a-f32-b8", "a-bf16-b1", "a-bf16-b8", "b"]
    one = models["a-bf16-b8"]
    assert (one.dtype, one.batch_size, one.file) == ("bf16", 8, "models/a.py")
    assert (one.family, one.torchbench) == ("a", "a")
    config = CONFIG | {"models": {"a": {"dtype": "bf16", "batch_size": [4]}}}
    assert list(expansion.expand(config, {}, root).models) == ["a-b4", "b"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("a", ["a-f32", "a-bf16"]),
        ("a,b", ["a-f32", "a-bf16", "b"]),
        ("a-bf16", ["a-bf16"]),
        ("*-f32", ["a-f32"]),
    ],
)
def test_the_name_of_an_entry_selects_all_of_its_variants(root, wanted, names):
    config = CONFIG | {"models": {"a": {"dtype": ["f32", "bf16"]}}}
    assert list(expansion.expand(config, {"models": wanted}, root).models) == names


def test_a_variant_that_has_the_name_of_another_model_is_refused(root):
    (root / "models/a-bf16.py").write_text(MODEL)
    config = CONFIG | {"models": {"a": {"dtype": ["f32", "bf16"]}}}
    with pytest.raises(ConfigError, match=r"variant a-bf16 is the name of another model|a-bf16"):
        expansion.expand(config, {}, root)


@pytest.mark.parametrize("kind", ["baselines", "targets", "frontends"])
def test_an_entry_that_is_no_default_is_in_a_run_that_selects_it_alone(kind, root):
    config = copy.deepcopy(CONFIG)
    config[kind]["asked-for"] = {**config[kind][next(iter(config[kind]))], "default": False}
    everything = getattr(expansion.expand(config, {}, root), kind)
    assert everything
    assert "asked-for" not in everything
    for wanted in ("asked-for", "*-for"):
        assert list(getattr(expansion.expand(config, {kind: wanted}, root), kind)) == ["asked-for"]
    assert "asked-for" in getattr(expansion.expand(config, {kind: "*"}, root), kind)


def test_a_target_takes_the_models_of_its_globs_and_a_family_is_all_of_its_variants(root):
    config = copy.deepcopy(CONFIG)
    config["models"]["b"] = {"dtype": ["f32", "bf16"]}
    config["targets"]["gpu"]["models"] = ["b", "m*"]
    cells = list(expansion.expand(config, {}, root).cells())
    taken = {target: {m.name for m, _, t in cells if t.name == target} for target in ("gpu", "amd")}
    assert taken["gpu"] == {"b-f32", "b-bf16", "mine"}
    assert taken["amd"] > taken["gpu"]


OVERRIDES = {
    "*": {"flags": ["--c"]},
    "b*": {"opt_level": "O0", "frontends": ["g"]},
    "b-again": {"flags": [], "frontends": ["f"]},
    "mine": None,
}


def test_overrides_replace_what_they_set_of_a_target_key_by_key_and_the_last_one_counts(root):
    config = with_entry("targets", "cpu", overrides=OVERRIDES)
    cells = expansion.expand(config, {"targets": "cpu,gpu"}, root).cells()
    found = {f"{m.name}/{f.name}/{t.name}": (t.opt_level, t.flags) for m, f, t in cells}
    assert {cell: of for cell, of in found.items() if cell.endswith("/cpu")} == {
        "a/f/cpu": ("O2", ("--c",)),
        "a/g/cpu": ("O2", ("--c",)),
        "b/g/cpu": ("O0", ("--c",)),
        "b-again/f/cpu": ("O0", ()),
        "mine/f/cpu": ("O2", ("--c",)),
        "mine/g/cpu": ("O2", ("--c",)),
    }
    assert {of for cell, of in found.items() if cell.endswith("/gpu")} == {("O3", ())}


def test_an_override_may_differ_for_training_steps(root):
    overrides = {"b*": {"flags": ["--x"], "train": {"flags": ["--y"]}}, "b-again": {"train": {"opt_level": "O0"}}}  # fmt: skip
    config = with_entry("targets", "cpu", overrides=overrides)
    matrix = expansion.expand(config, {"targets": "cpu"}, root)
    found = {
        (name, frontend): (of.opt_level, of.flags)
        for name in ("a", "b", "b-again")
        for frontend in ("f", "f+train")
        for of in [matrix.target(name, frontend, "cpu")]
    }
    assert found == {
        ("a", "f"): ("O2", ("--a", "--b")),
        ("a", "f+train"): ("O2", ("--a", "--b")),
        ("b", "f"): ("O2", ("--x",)),
        ("b", "f+train"): ("O2", ("--y",)),
        ("b-again", "f"): ("O2", ("--x",)),
        ("b-again", "f+train"): ("O0", ("--y",)),
    }


def test_an_override_of_a_family_is_one_of_all_of_its_variants_and_may_leave_models_out(root):
    config = with_entry("models", "b", dtype=["f32", "bf16"])
    config["targets"]["cpu"]["overrides"] = {"b": {"flags": ["--x"]}, "!b*": {"opt_level": "O1"}}
    cells = list(expansion.expand(config, {"targets": "cpu", "frontends": "f"}, root).cells())
    assert {m.name: (t.opt_level, t.flags) for m, _, t in cells} == {
        "a": ("O1", ("--a", "--b")),
        "b-f32": ("O2", ("--x",)),
        "b-bf16": ("O2", ("--x",)),
        "b-again": ("O2", ("--a", "--b")),
        "mine": ("O1", ("--a", "--b")),
    }


@pytest.mark.parametrize("overrides", [None, {}])
def test_a_later_file_may_take_all_overrides_away(root, overrides):
    config = with_entry("targets", "cpu", overrides=overrides)
    assert expansion.expand(config, {}, root) == expansion.expand(CONFIG, {}, root)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"mind": {"opt_level": "O0"}}, "targets.cpu.overrides: unknown model 'mind'; did you mean 'mine'?"),
        ({"b-deocde": {"opt_level": "O0"}}, "targets.cpu.overrides: unknown model 'b-deocde'; there are: a, b, b-again, mine"),
        ({"!mind": {"opt_level": "O0"}}, "targets.cpu.overrides: unknown model 'mind'; did you mean 'mine'?"),
        ({"a": {"frontends": ["ff"]}}, "targets.cpu.overrides.a.frontends: unknown frontend 'ff'; did you mean 'f'?"),
    ],
)  # fmt: skip
def test_an_override_of_nothing_that_is_declared_is_an_error(root, overrides, problem):
    config = with_entry("targets", "cpu", overrides=overrides)
    assert problems_of(config, root) == [problem]


def test_an_override_of_a_variant_stands_where_the_model_has_others(root):
    config = with_entry("targets", "cpu", overrides={"b-f16": {"opt_level": "O0"}})
    assert expansion.expand(config, {}, root).models == expansion.expand(CONFIG, {}, root).models


@pytest.mark.parametrize("name", ["b-decode", "a-f16", "b-f32-f16", "b-f16-"])
def test_an_override_of_a_variant_that_no_model_could_have_is_an_error(root, name):
    config = with_entry("targets", "cpu", overrides={name: {"opt_level": "O0"}})
    assert problems_of(config, root)[0].startswith(f"targets.cpu.overrides: unknown model '{name}'")
    config = with_entry("targets", "cpu", models=["b-f16"])
    assert problems_of(config, root)[0].startswith("targets.cpu.models: unknown model 'b-f16'")


def test_an_override_stands_whatever_models_and_targets_a_run_selects(root):
    config = with_entry("targets", "cpu", overrides=OVERRIDES)
    for selections in ({"models": "a"}, {"models": "a", "targets": "gpu"}):
        assert list(expansion.expand(config, selections, root).models) == ["a"]


def test_a_target_is_measured_on_the_kind_of_node_that_it_names(root):
    config = with_entry("targets", "gpu", node="big") | {"nodes": {"big": {"gpu": 2}}}
    found = expansion.expand(config, {}, root)
    assert (found.targets["gpu"].node, found.targets["cpu"].node) == ("big", "cpu")
    assert found.nodes == {"big": {"gpu": 2}}
    again = type(found).from_json(found.to_json())
    assert again.nodes == found.nodes


def test_a_baseline_that_runs_a_program_names_its_frontend_which_the_run_then_exports(root):
    config = with_entry("baselines", "p", runtime="programs", device="cpu", env="e", program="g")
    found = expansion.expand(config, {"frontends": "f"}, root)
    assert list(found.frontends) == ["f"]
    assert list(found.programs) == ["g"]
    assert Matrix.from_json(json.loads(json.dumps(found.to_json()))) == found
    plan = Plan(found, frozenset(), with_conda=False)
    cell = of_axes(model="a", baseline="p", test="eval")
    assert plan.frontend(of_axes(model="a", frontend="g")).exporter == "plain"
    assert plan.program(cell, "status.json") == ["results/export/a/g/status.json"]
    program = json.loads(plan.requests.baseline(cell))["program"]
    assert program == "results/export/a/g/program.mlir"
    assert "results/export/a/g/report.json" in plan.aggregation.results()
    cell = of_axes(model="a", baseline="eager", test="eval")
    assert plan.program(cell, "status.json") == []
    assert "program" not in json.loads(plan.requests.baseline(cell))


def test_a_program_of_no_frontend_and_keys_that_mean_nothing_to_a_runtime_are_refused(root):
    entry = {"runtime": "programs", "device": "cpu", "env": "e"}
    config = with_entry("baselines", "p", **entry)
    assert problems_of(config, root) == [
        "baselines.p.program: unknown frontend ''; there are: f, g"
    ]
    config = with_entry("baselines", "p", **entry, program="g", precision="fp16")
    assert problems_of(config, root) == [
        "baselines.p.precision: means nothing to programs; leave it out"
    ]
    config = with_entry("baselines", "eager", program="g")
    assert problems_of(config, root) == [
        "baselines.eager.program: means nothing to eager; leave it out"
    ]


def test_a_file_that_does_not_declare_what_it_must_is_a_problem_of_the_configuration(root):
    path = root / "scripts/baselines/eager.py"
    path.write_text(declarations.runtime(TESTS=None))
    assert problems_of(CONFIG, root) == [
        f"{path}: TESTS: found nothing, expected tuple[Literal['eval', 'train'], ...], as a plain literal"
    ]
