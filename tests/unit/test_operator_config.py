"""`operators:` of the configuration: what it may say, what it takes from the matrix, and its batches."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.config import expansion, settings
from scripts.config.cell import Kind, of_axes
from scripts.config.rows import Matrix
from scripts.config.settings import ConfigError
from scripts.core.checkout import ROOT
from scripts.run.plan import Plan
from scripts.tools.operators.operators_plan import OPERATOR_RULE, Operators
from scripts.tools.operators.problems.problem import Selection

SHIPPED = ROOT / "config.yaml"


def expanded(**asked) -> Operators:
    """Return the operators of the shipped configuration with these values of --config."""
    declared, selections = settings.load(copy.deepcopy(asked), [SHIPPED], ROOT)
    return expansion.expand(declared, selections, ROOT).parts["operators"]


def test_the_shipped_configuration_takes_the_traces_of_the_models_by_one_path_on_the_cpu():
    found = expanded()
    assert found.of_models
    assert (list(found.frontends), list(found.targets)) == (["torchmlir-stablehlo"], ["llvm-cpu"])
    assert (list(found.baselines), found.compile_only) == (["eager"], ())
    assert found.selection.max_elements
    assert found.targets["llvm-cpu"].overrides == ()
    assert found.rule == OPERATOR_RULE


def test_a_mapping_of_the_command_line_is_merged_with_that_of_the_file():
    """Snakemake gives the numbers of a mapping as text."""
    found = expanded(operators={"smallest": "2", "select": "all", "measure": {"budget_s": "0.1"}})
    assert (found.selection.smallest, found.selection.select) == (2, "all")
    assert found.selection.largest == expanded().selection.largest
    assert (found.rule.budget_s, found.rule.slice_s) == (0.1, expanded().rule.slice_s)
    assert expanded(operators={"largest": "null"}).selection.largest is None
    globs = {"operators": ["aten.add*"], "source_models": ["bert"], "dtype": "f32"}
    found = expanded(operators=globs).selection
    assert (found.operators, found.source_models, found.dtype) == (("aten.add*",), ("bert",), "f32")


def test_entries_are_named_by_globs_also_those_that_no_run_takes_by_default():
    found = expanded(operators={"frontends": ["torchmlir-*"], "targets": ["llvm-cpu", "cuda", "rocm"], "compile_only": ["[cr]*"], "baselines": []})  # fmt: skip
    assert list(found.frontends) == ["torchmlir-torch", "torchmlir-stablehlo", "torchmlir-linalg"]
    assert found.compile_only == ("cuda", "rocm")
    assert found.baselines == {}


def test_a_selection_of_the_command_line_is_one_for_operators_too():
    found = expanded(
        frontends="torchxla-*", targets="llvm-cpu,cuda", baselines="eager,xla,inductor"
    )
    assert list(found.frontends) == ["torchxla-stablehlo"]
    assert list(found.targets) == ["llvm-cpu", "cuda"]
    assert list(found.baselines) == ["eager", "inductor"]


def test_a_configuration_without_operators_or_the_preferred_entries_takes_those_of_the_models():
    declared, _ = settings.load({}, [SHIPPED], ROOT)
    del declared["operators"]
    declared["targets"] = {"mac": declared["targets"]["cuda"]}
    declared["expect"] = {}
    settings.check(declared)
    matrix = expansion.expand(declared, {}, ROOT)
    assert list(matrix.parts["operators"].frontends) == ["torchmlir-stablehlo"]
    assert list(matrix.parts["operators"].targets) == ["mac"]
    assert list(matrix.parts["operators"].baselines) == ["eager"]
    assert matrix.limits["operators"]["timeout_s"] > 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"selct": "all"}, "operators.selct: unknown key 'selct'; did you mean 'select'?"),
        ({"select": "included "}, "operators.select: found 'included ', allowed is one of included"),
        ({"smallest": "0"}, 'operators.smallest: found "0", which should be greater'),
        ({"max_elements": "many"}, 'operators.max_elements: found "many", which should be a valid integer'),
        ({"dtype": "f8"}, "operators.dtype: found 'f8', allowed is one of f64, f32, f16, bf16"),
        ({"batches": "0"}, 'operators.batches: found "0", which should be greater'),
        ({"frontends": ["torch-mlir"]}, "operators.frontends: unknown frontend 'torch-mlir'; did you"),
        ({"targets": ["cuba"]}, "operators.targets: unknown target 'cuba'; did you mean 'cuda'?"),
        ({"compile_only": ["cuda"]}, "operators.compile_only: unknown target of operators 'cuda'"),
        ({"baselines": ["xla"]}, "operators.baselines: xla is of runtime xla, precision none; single"),
        ({"select": "overhead"}, "operators.select: found 'overhead', which only a dataset marks"),
        ({"dataset": "no/such/file.parquet"}, "operators.dataset: no file no/such/file.parquet"),
        ({"mapping": "config.yaml"}, "operators.mapping: belongs to a dataset"),
        ({"traces": ["nowhere.txt"]}, "operators.traces: no file nowhere.txt"),
        ({"traces": ["config.yaml"], "dataset": "a/b"}, "operators.traces: found next to operators.dataset"),
        ({"source_models": ["bort"]}, "operators.source_models: unknown model 'bort'; did you mean 'bert'"),
        ({"measure": {"rounds": "2"}}, "operators.measure.rounds: unknown key 'rounds'"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_before_anything_runs(asked, said):
    with pytest.raises(ConfigError) as problem:
        expanded(operators=asked)
    assert said in str(problem.value)


def test_a_path_is_found_from_where_the_command_was_typed(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    declared, _ = settings.load({"operators": {"traces": ["mine.txt"]}}, [SHIPPED], ROOT, tmp_path)
    assert declared["operators"]["traces"] == [str(tmp_path / "mine.txt")]


def test_a_run_in_another_folder_has_absolute_paths():
    declared, _ = settings.load({"operators": {"traces": ["config.yaml"]}}, [SHIPPED], ROOT)
    found = expansion.with_absolute_paths(expansion.expand(declared, {}, ROOT), ROOT)
    assert found.parts["operators"].traces == (str(SHIPPED),)


@given(st.integers(1, 10_000), st.integers(0, 2**32 - 1))
def test_a_problem_belongs_to_one_of_the_batches_whatever_else_is_selected(batches, number):
    uuid = f"{number:08x}" + 56 * "0"
    names = Operators(batches=batches).batch_names()
    assert len(set(names)) == batches
    assert names == sorted(names)
    other = Operators(batches=batches, selection=Selection(operators=("aten.add*",)))
    assert Operators(batches=batches).batch_of(uuid) == other.batch_of(uuid)
    assert other.batch_of(uuid) in names


def test_the_cells_of_batches_and_their_stages(results):
    mlir, cpu, gpu = results.matrix.frontends["mlir"], *results.matrix.targets.values()
    operators = Operators(
        batches=2,
        frontends={"mlir": mlir},
        targets={"llvm-cpu": cpu, "vulkan": gpu},
        baselines=results.matrix.baselines,
        compile_only=("vulkan",),
    )
    matrix = Matrix.from_json(
        results.matrix.to_json() | {"parts": {"operators": _plain(operators)}}
    )
    assert [str(row) for row in matrix.parts["operators"].rows()] == [
        *(
            "0/mlir/llvm-cpu",
            "0/mlir/vulkan",
            "1/mlir/llvm-cpu",
            "1/mlir/vulkan",
            "0/eager",
            "1/eager",
        ),
    ]
    chains = {
        str(row): [stage.name for stage, _ in matrix.chain(row)]
        for row in matrix.parts["operators"].rows()
    }
    built = ["operator_reference", "operator_export", "operator_compile"]
    assert chains["0/mlir/llvm-cpu"] == [*built, "operator_verify"]
    assert chains["0/mlir/vulkan"] == built
    assert chains["1/eager"] == ["operator_reference", "operator_baseline"]
    assert [str(cell) for cell in matrix.of_kind(Kind.BATCH_PROGRAM)] == ["0/mlir", "1/mlir"]
    assert [str(cell) for cell in matrix.of_kind(Kind.BATCH)] == ["0", "1"]
    # The rows of models do not depend on operators, and neither does the aggregation of them.
    assert list(matrix.rows()) == list(results.matrix.rows())
    plans = [Plan(one, frozenset(), with_conda=False) for one in (matrix, results.matrix)]
    assert plans[0].aggregation.digest() == plans[1].aggregation.digest()
    files = plans[0]["operators"].results()
    assert "results/operator_verify/0/mlir/llvm-cpu/outcomes.jsonl" in files
    assert not [file for file in files if file.startswith("results/operator_verify/0/mlir/vulkan")]
    timed = [file for file in files if file.startswith("results/operator_time/")]
    assert timed == [f"results/operator_time/{batch}/cpu/{file}" for batch in (0, 1) for file in ("status.json", "outcomes.jsonl")]  # fmt: skip
    assert [str(cell) for cell in matrix.of_kind(Kind.BATCH_GROUP)] == ["0/cpu", "1/cpu"]
    asked = json.loads(plans[0]["operators"].groups.request(of_axes(batch="1", device="cpu")))
    assert asked["members"] == {"1/mlir/llvm-cpu": "results/operator_verify/1/mlir/llvm-cpu", "1/eager": "results/operator_baseline/1/eager"}  # fmt: skip
    assert (asked["anchor"], asked["rule"]["slice_s"]) == ("1/eager", 0.005)


def _plain(operators: Operators) -> dict:
    import msgspec

    return msgspec.to_builtins(operators)
