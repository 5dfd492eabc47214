"""matrix: models × frontends × targets and models × baselines, as configured and on disk."""

import copy
import json

import pytest
import yaml

from scripts.lib import matrix
from scripts.lib.matrix import Matrix
from scripts.lib.settings import ConfigError

MODEL = "def get_model(size='s'): ...\ndef get_dummy_input(batch_size=1): ...\n"
EXPORTER = "import not_installed\nOPTIONS = {'dialect': ('torch', 'linalg')}\n"
CONFIG = yaml.safe_load("""
models:
  b: {batch_size: 2, dtype: f16, size: 50, tolerance: {atol: 0.1}}
  b-again: {file: models/b.py}
  mine: {file: elsewhere/mine.py}
reference: {env: e}
frontends:
  f: {exporter: x, env: e, options: {dialect: torch}}
  g: {exporter: plain, env: e, ir_format: bytecode}
targets:
  cpu: {backend: llvm-cpu, flags: [--a, --b]}
  gpu: {backend: cuda, arch: sm_90, opt_level: O3, device: "cuda://1"}
  amd: {backend: rocm}
baselines:
  eager: {runtime: eager, device: cpu, env: e}
measure: {repetitions: 5}
limits: {compile: {timeout_s: 10}}
expect: {"*": ok}
""")


@pytest.fixture
def root(tmp_path):
    """A folder of a Snakefile with what CONFIG names."""
    files = ("models/a.py", "models/b.py", "models/_shared.py", "elsewhere/mine.py")
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(MODEL)
    for file in ("envs/e.yaml", "scripts/exporters/x.py", "scripts/exporters/plain.py", "scripts/exporters/__init__.py", "scripts/baselines/eager.py"):  # fmt: skip
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "scripts/exporters/x.py").write_text(EXPORTER)
    return tmp_path


def problems_of(config: dict, root, selections: dict | None = None) -> list[str]:
    with pytest.raises(ConfigError) as problem:
        matrix.expand(config, selections or {}, root)
    return str(problem.value).splitlines()


def with_entry(kind: str, name: str, **changes) -> dict:
    config = copy.deepcopy(CONFIG)
    config[kind][name] = config[kind].get(name, {}) | changes
    return config


def test_every_model_file_is_in_the_matrix_and_so_is_every_entry(root):
    found = matrix.expand(CONFIG, {}, root)
    assert [(m.name, m.file, m.suite) for m in found.models.values()] == [
        ("a", "models/a.py", "vmfbench"),
        ("b", "models/b.py", "vmfbench"),
        ("b-again", "models/b.py", "vmfbench"),
        ("mine", "elsewhere/mine.py", "user"),
    ]


def test_options_go_to_the_model_and_the_pipelines_own_keys_do_not(root):
    found = matrix.expand(CONFIG, {}, root).models
    assert found["b"].options == {"batch_size": 2, "dtype": "f16", "size": "50"}
    assert (found["b"].tolerance, found["b"].dtype, found["b"].batch_size) == ({"atol": 0.1}, "f16", 2)  # fmt: skip
    assert (found["a"].options, found["a"].dtype, found["a"].batch_size) == ({}, "f32", 1)


def test_cells_are_the_product_in_the_order_declared(root):
    found = matrix.expand(CONFIG, {"models": "b,a", "targets": "gpu,cpu"}, root)
    cells = ["/".join(part.name for part in cell) for cell in found.cells()]
    assert cells == [f"{m}/{f}/{t}" for m in "ab" for f in "fg" for t in ("cpu", "gpu")]
    assert [(m.name, b.name) for m, b in found.baseline_cells()] == [("a", "eager"), ("b", "eager")]


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
    found = matrix.expand(CONFIG, {}, root).targets[target]
    assert (found.arch, found.opt_level, found.flags) == (arch, opt_level, flags)
    assert (found.device, found.device_kind) == (device, kind)


def test_a_matrix_comes_back_from_json_as_it_was(root):
    found = matrix.expand(CONFIG, {}, root)
    again = Matrix.from_json(json.loads(json.dumps(found.to_json())))
    assert matrix.compact(again.to_json()) == matrix.compact(found.to_json())
    assert again == found


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


def test_what_is_not_selected_is_not_looked_at(root):
    config = with_entry("models", "lost", file="nowhere.py")
    config["frontends"]["g"]["env"] = "nowhere"
    found = matrix.expand(config, {"models": "a", "frontends": "f"}, root)
    assert (list(found.models), list(found.frontends)) == (["a"], ["f"])


def test_references_are_made_in_the_environment_configured_or_in_torch_mlirs(root):
    assert matrix.expand(CONFIG, {}, root).reference_env == "e"
    assert Matrix({}, {}, {}, {}, {}, {}, {}).reference_env == "torch-mlir"


def test_the_batch_size_is_the_models_own_default_unless_configured(root):
    (root / "models/b.py").write_text(MODEL.replace("batch_size=1", "batch_size=8"))
    found = matrix.expand(CONFIG, {}, root).models
    assert {name: model.batch_size for name, model in found.items()} == {
        "a": 1,
        "b": 2,  # configured
        "b-again": 8,
        "mine": 1,
    }


def test_an_environment_for_references_that_is_not_there_is_refused(root):
    config = CONFIG | {"reference": {"env": "ee"}}
    assert problems_of(config, root) == ["reference.env: unknown env 'ee'; did you mean 'e'?"]


def test_a_batch_size_that_is_no_number_by_default_counts_as_one(root):
    (root / "models/a.py").write_text(MODEL.replace("batch_size=1", "batch_size=None"))
    assert matrix.expand(CONFIG, {}, root).models["a"].batch_size == 1


@pytest.mark.parametrize(
    ("globs", "frontends"), [(None, "fg"), (["*"], "fg"), (["g"], "g"), (["[fz]"], "f")]
)
def test_a_target_leaves_out_the_frontends_that_it_does_not_name(root, globs, frontends):
    config = copy.deepcopy(CONFIG)
    if globs:
        config["targets"]["gpu"]["frontends"] = globs
    found = matrix.expand(config, {"models": "a", "targets": "cpu,gpu"}, root)
    cells = ["/".join(part.name for part in cell) for cell in found.cells()]
    assert [cell for cell in cells if cell.endswith("cpu")] == ["a/f/cpu", "a/g/cpu"]
    assert [cell for cell in cells if cell.endswith("gpu")] == [f"a/{f}/gpu" for f in frontends]
    assert Matrix.from_json(json.loads(json.dumps(found.to_json()))) == found


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
    assert list(matrix.expand(config, {"frontends": other}, root).frontends) == [other]


@pytest.mark.parametrize("pattern", ["*/*/cpuu", "a/f", "z/*", "a/f/cpu/x", "a/f/gpu"])
def test_an_expectation_that_no_declared_cell_meets_is_refused(root, pattern):
    config = with_entry("targets", "gpu", frontends=["g"])
    config["expect"][pattern] = "ok"
    assert problems_of(config, root) == [f"expect.{pattern}: matches no cell of the matrix"]


@pytest.mark.parametrize("pattern", ["*/*/amd", "b-again/g/cpu", "*/eager", "mine/eager"])
def test_an_expectation_of_what_is_declared_stands_whatever_is_selected(root, pattern):
    config = copy.deepcopy(CONFIG)
    config["expect"][pattern] = "ok"
    selections = {"models": "a", "targets": "cpu", "baselines": "eager"}
    assert matrix.expand(config, selections, root).expect == {"*": "ok", pattern: "ok"}


@pytest.mark.parametrize("kind", ["models", "frontends", "targets"])
def test_a_selection_of_nothing_is_refused(root, kind):
    assert kind.removesuffix("s") in problems_of(CONFIG, root, {kind: ","})[0]


def test_equal_values_make_equal_text_for_a_command_line():
    assert matrix.compact({"b": 1, "a": (2,)}) == matrix.compact({"a": [2], "b": 1})
    assert matrix.compact({"b": 1, "a": (2,)}) == '{"a":[2],"b":1}'
