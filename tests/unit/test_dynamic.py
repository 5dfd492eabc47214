"""Programs for all sizes: the models, cells and files of an entry with `dynamic`, and what they cost."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest

from scripts.config import entries, expansion
from scripts.config.cell import Cell, Kind
from scripts.config.compile_tables import Remedy
from scripts.config.entries import Baseline, Frontend, Model
from scripts.config.reading import ConfigError
from scripts.config.rows import Matrix
from scripts.core.dimensions import Sizes
from scripts.results import record
from scripts.run import params
from scripts.run.plan import Plan
from tests import declarations
from tests.declarations import CONFIG, MODEL
from tests.unit.conftest import MATRIX

SIZES = Sizes((1, 8), min=1, max=64)
ROW = "conv~8/mlir+dynamic/llvm-cpu"


def of_sizes(matrix: Matrix = MATRIX, **sizes: Sizes) -> Matrix:
    """The matrix in which conv has programs for all of these sizes."""
    conv = dataclasses.replace(matrix.models["conv"], dynamic=sizes or {"batch_size": SIZES})
    models = {one.name: one for one in (conv, *entries.variants_of_sizes(conv))} | {
        "tiny": matrix.models["tiny"]
    }
    return dataclasses.replace(
        matrix,
        models=models,
        frontends=entries.variants_of_frontends(matrix.frontends, ["eval"], models.values()),
    )


def iree(name: str) -> Cell:
    return Cell.parse(name, Kind.IREE)


# Cells


def test_all_sizes_share_a_program_and_a_module_and_nothing_else():
    row = iree(ROW)
    assert str(row.to(Kind.PROGRAM)) == "conv/mlir+dynamic"
    assert str(row.to(Kind.MODULE)) == "conv/mlir+dynamic/llvm-cpu"
    assert str(row.to(Kind.MODEL)) == "conv~8"
    assert (str(row), row.test) == (ROW, "eval")
    static = iree("conv~8/mlir/llvm-cpu")
    assert str(static.to(Kind.MODULE)) == "conv~8/mlir/llvm-cpu"


def test_the_name_of_a_frontend_for_all_sizes_keeps_its_toolchain():
    assert str(iree("c~8/mlir+dynamic@new/cpu@new").to(Kind.PROGRAM)) == "c/mlir+dynamic@new"


def test_a_model_has_its_own_rows_and_those_of_each_size():
    names = [str(row) for row in of_sizes().rows() if row.target == "llvm-cpu"]
    assert names == [
        *("conv/mlir/llvm-cpu", "conv/mlir+dynamic/llvm-cpu"),
        *("conv~1/mlir/llvm-cpu", "conv~1/mlir+dynamic/llvm-cpu"),
        *("conv~8/mlir/llvm-cpu", ROW),
        "tiny/mlir/llvm-cpu",
    ]


def test_a_program_for_all_sizes_and_one_for_this_size_are_timed_in_one_group():
    matrix = of_sizes()
    both = {str(matrix.group(iree(name))) for name in (ROW, "conv~8/mlir/llvm-cpu")}
    assert both == {"conv~8/cpu/eval"}
    rows = ["conv~8/mlir/llvm-cpu", ROW, "conv~8/inductor/eval", "conv~8/mlir+dynamic/cuda"]
    cells = [Cell.parse(row, Kind.BASELINE, Kind.IREE) for row in rows]
    assert params._pairs(cells) == (("conv~8/mlir/llvm-cpu", ROW),)


def test_a_row_depends_on_the_reference_of_the_model_and_on_its_own():
    chain = [(stage.name, str(cell)) for stage, cell in of_sizes().chain(iree(ROW))]
    assert chain == [
        ("reference", "conv"),
        ("reference", "conv~8"),
        ("export", "conv/mlir+dynamic"),
        ("compile", "conv/mlir+dynamic/llvm-cpu"),
        ("verify", ROW),
    ]
    own = [str(cell) for _, cell in of_sizes().chain(iree("conv/mlir+dynamic/llvm-cpu"))]
    assert own[:2] == ["conv", "conv/mlir+dynamic"]


def test_there_is_one_export_and_one_compilation_for_all_sizes():
    matrix = of_sizes()
    for kind in (Kind.PROGRAM, Kind.MODULE):
        cells = [str(cell) for cell in matrix.of_kind(kind) if "+dynamic" in cell.frontend]
        assert {cell.split("/")[0] for cell in cells} == {"conv"}
        assert len(cells) == len(set(cells))


def test_combinations_of_several_options_are_variants():
    model = Model("m", "m.py", dynamic={"batch_size": Sizes((1, 2)), "seq_len": Sizes((16, 32))})
    found = {one.name: one.options for one in entries.variants_of_sizes(model)}
    assert list(found) == ["m~1-16", "m~1-32", "m~2-16", "m~2-32"]
    assert found["m~2-16"] == {"batch_size": 2, "seq_len": 16}
    assert list(entries.variants_of_sizes(Model("m", "m.py"))) == []


def test_the_sizes_of_dimensions_that_a_file_declares_are_dims():
    batch = Sizes((1, 8), max=64)
    for file in ("m.onnx", "m.pt2"):
        model = Model("m", file, options={"dims": {"rows": 3}}, dynamic={"batch": batch})
        assert [one.options for one in entries.variants_of_sizes(model)] == [
            {"dims": {"rows": 3, "batch": 1}},
            {"dims": {"rows": 3, "batch": 8}},
        ]


def test_only_exporters_that_declare_it_have_frontends_for_all_sizes(tmp_path):
    folder = tmp_path / "scripts/frontends/exporters"
    folder.mkdir(parents=True)
    (folder / "sizes.py").write_text(declarations.exporter(DYNAMIC=True))
    (folder / "plain.py").write_text(declarations.exporter())
    own = {
        "sizes": Frontend("sizes", "sizes", "e"),
        "plain": Frontend("plain", "plain", "e"),
    }
    models = of_sizes().models.values()
    found = entries.variants_of_frontends(own, ["eval"], models, tmp_path)
    assert [name for name in found if name not in own] == ["sizes+dynamic"]
    assert entries.variants_of_frontends(own, ["train"], models, tmp_path) == {}
    assert entries.variants_of_frontends(own, ["eval"], MATRIX.models.values(), tmp_path) == own


def test_a_runtime_that_compiles_has_a_baseline_for_any_size():
    own = {
        "inductor": Baseline("inductor", "inductor", "cpu", "e"),
        "tuned": Baseline("tuned", "inductor", "cpu", "e", compile={"mode": "default"}),
        "eager": Baseline("eager", "eager", "cpu", "e"),
    }
    found = entries.with_dynamic_baselines(own, of_sizes().models.values())
    assert [name for name in found if name not in own] == ["inductor+dynamic"]
    assert found["inductor+dynamic"].compile == {"dynamic": True}
    matrix = dataclasses.replace(of_sizes(), baselines=found, tests=("eval", "train"))
    rows = [str(row) for row in matrix.rows() if row.baseline == "inductor+dynamic"]
    assert rows == [f"{name}/inductor+dynamic/eval" for name in ("conv", "conv~1", "conv~8")]


def test_a_remedy_by_another_path_takes_its_program_for_all_sizes():
    by_xla = Remedy(name="x", does="", frontend="xla", reasons=("*",), why="", seen="", versions={})
    target = dataclasses.replace(MATRIX.targets["llvm-cpu"], remedies=(by_xla,))
    both = {name: Frontend(name, "torch_xla", "e") for name in ("xla", "xla+dynamic")}
    matrix = dataclasses.replace(of_sizes(), programs=both, remedied_by=tuple(both))
    found = {
        name: [one.variant.frontend for one in matrix.attempts(name, target)]
        for name in ("mlir", "mlir+dynamic")
    }
    assert found == {"mlir": ["xla"], "mlir+dynamic": ["xla+dynamic"]}


def test_a_matrix_with_sizes_is_read_as_it_was_written():
    matrix = dataclasses.replace(of_sizes(), exported={"conv": MATRIX.models["conv"]})
    assert Matrix.from_json(json.loads(json.dumps(matrix.to_json()))) == matrix


# Jobs


def plan(matrix: Matrix | None = None) -> Plan:
    return Plan(matrix or of_sizes(), frozenset(), with_conda=False)


def test_an_export_is_told_its_sizes_but_not_which_are_measured():
    exported = Cell.of_kind(Kind.PROGRAM, model="conv~8", frontend="mlir+dynamic")
    dynamic = json.loads(plan().requests.export(exported))["dynamic"]
    sizes = {"values": [8, 2], "min": 1, "max": 64, "multiple_of": 1}
    assert dynamic == {"batch_size": sizes}
    more = plan(of_sizes(batch_size=Sizes((2, 1, 8), max=64)))
    assert more.requests.export(exported) == plan().requests.export(exported)
    other = plan(of_sizes(batch_size=Sizes((1, 8), max=32)))
    assert other.requests.export(exported) != plan().requests.export(exported)
    of_one_size = Cell.of_kind(Kind.PROGRAM, model="conv", frontend="mlir")
    assert not {"dynamic", "test"} & json.loads(plan().requests.export(of_one_size)).keys()


def test_a_verification_reads_the_sizes_of_its_program_and_the_weights_of_its_export():
    assert plan().exported(iree(ROW)) == [
        "results/export/conv/mlir+dynamic/report.json",
        "results/reference/conv/weights.irpa",
    ]
    assert plan().exported(iree("conv~8/mlir/llvm-cpu")) == []
    assert plan().reference(iree(ROW), "golden.npz") == "results/reference/conv~8/golden.npz"
    [module] = plan().modules.files(iree(ROW), "module.vmfb")[:1]
    assert module == "results/compile/conv/mlir+dynamic/llvm-cpu/module.vmfb"


# Configuration


@pytest.fixture
def root(tmp_path):
    exporter = declarations.exporter(OPTIONS={"dialect": ("torch",)}, DYNAMIC=True)
    runtime = declarations.runtime(TAKES=("precision", "compile"))
    files = {
        "models/a.py": MODEL,
        "scripts/frontends/exporters/x.py": exporter,
        "scripts/baselines/eager.py": runtime,
    }
    return declarations.write_project(tmp_path, files)


def expanded(root, selections=None, **sizes) -> Matrix:
    config = copy.deepcopy(CONFIG)
    config["models"]["a"] = {"dynamic": {"batch_size": {"values": [1, 8], "max": 64} | sizes}}
    return expansion.expand(config, selections or {}, root)


def test_an_entry_with_sizes_gives_the_model_and_a_variant_of_each(root):
    found = expanded(root)
    assert list(found.models)[:3] == ["a", "a~1", "a~8"]
    assert [found.models[name].batch_size for name in ("a", "a~8")] == [1, 8]
    assert found.models["a~8"].options == {"batch_size": 8}
    assert (list(found.frontends), list(found.baselines)) == (
        ["f", "g", "f+dynamic"],
        ["eager", "eager+dynamic"],
    )


def test_a_model_is_selected_with_its_sizes_and_a_size_alone(root):
    assert list(expanded(root, {"models": "a"}).models) == ["a", "a~1", "a~8"]
    alone = expanded(root, {"models": "a~8"})
    assert (list(alone.models), list(alone.exported)) == (["a~8"], ["a"])
    assert alone.every().models["a"].dynamic
    rows = {str(row).split("/")[0] for row in alone.rows()}
    assert rows == {"a~8"}
    assert list(expanded(root, {"models": "b"}).frontends) == ["f", "g"]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"max": 4}, "models.a.dynamic.batch_size.values: found 8, expected 1 to 4"),
        ({"min": 2}, "models.a.dynamic.batch_size.values: found 1, expected 2 to 64"),
        (
            {"multiple_of": 8},
            "models.a.dynamic.batch_size.values: found 1, expected 1 to 64, multiples of 8",
        ),
        (
            {"values": [1], "max": 1},
            "models.a.dynamic.batch_size: found 1 to 1, expected two sizes or more; set the option itself to a single one",
        ),
    ],
)
def test_sizes_that_do_not_fit_stop_a_run_before_it_starts(root, sizes, said):
    with pytest.raises(ConfigError) as problem:
        expanded(root, **sizes)
    assert str(problem.value).splitlines() == [said]


def test_an_option_that_the_file_does_not_take_is_one_error(root):
    config = copy.deepcopy(CONFIG)
    config["models"]["a"] = {"dynamic": {"batch": {"values": [1, 8]}}}
    with pytest.raises(ConfigError) as problem:
        expansion.expand(config, {}, root)
    [said] = str(problem.value).splitlines()
    assert said.startswith("models.a: ")
    assert "takes no option 'batch'" in said
    assert "did you mean 'batch_size'?" in said


# What it costs


def test_the_cost_is_the_latency_for_all_sizes_over_that_for_one(results):
    results.matrix = of_sizes(
        dataclasses.replace(MATRIX, targets={"llvm-cpu": MATRIX.targets["llvm-cpu"]})
    )
    results.values_ms[ROW] = (8.0, 10.0, 12.5, 10.0, 10.0)
    results.write()
    found = {str(record.cell_of(one)): one for one in record.records(results.matrix)}
    latency = found[ROW]["latency"]
    assert latency["dynamic_cost"] == pytest.approx(2.0)
    assert latency["dynamic_cost_low"] <= 2.0 <= latency["dynamic_cost_high"]
    assert "dynamic_cost" not in found["conv~8/mlir/llvm-cpu"]["latency"]


def test_without_a_program_for_one_size_there_is_no_cost(results):
    results.matrix = of_sizes(
        dataclasses.replace(MATRIX, targets={"llvm-cpu": MATRIX.targets["llvm-cpu"]})
    )
    results.write()
    found = record.records(results.matrix)
    left = [one for one in found if str(record.cell_of(one)) != "conv~8/mlir/llvm-cpu"]
    record.add_dynamic_costs(left)
    [row] = [one for one in left if str(record.cell_of(one)) == ROW]
    assert row["latency"]["dynamic_cost"] is None
