"""Kernels: what their files declare, and the matrix that a configuration makes of them."""

import shutil
from pathlib import Path

import pytest

from scripts.config import expansion, settings
from scripts.config.rows import Matrix
from scripts.run.plan import Plan
from scripts.tools.kernels import kernel_matrix, kernels
from scripts.tools.kernels.kernels import KernelError

ROOT = Path(__file__).parents[2]
GENAI_LAYERS = [
    f"{kind}_{way}"
    for kind in ("cross_entropy", "softmax", "rms_norm", "layer_norm")
    for way in ("forward", "backward")
]
KERNEL = """
import torch

DIMENSIONS = ("rows", "columns")
SHAPES = ("4x8", "16x8")
READS = {"x": "rows columns", "index": "rows: i64", "packed": "rows columns /4: i4"}
WRITES = {"y": "rows"}
FLOPS = {"rows columns": 2, "rows": 1}


def get_model(): ...
def get_dummy_input(shape="4x8"): ...
"""


@pytest.fixture
def project(tmp_path):
    """A project with one kernel."""
    (tmp_path / kernels.FOLDER).mkdir(parents=True)
    (tmp_path / kernels.FOLDER / "own.py").write_text(KERNEL)
    return tmp_path


def shipped(selections: dict | None = None, **config) -> Matrix:
    declared, _ = settings.load(config, [ROOT / "config.yaml"], ROOT)
    return expansion.expand(declared, selections or {}, ROOT)


def test_the_kernels_of_genai_layers_are_there_at_its_shapes():
    names = kernels.names(ROOT)
    assert set(GENAI_LAYERS) <= set(names)
    for name in GENAI_LAYERS:
        shapes = kernels.read(name, ROOT).shapes
        assert shapes[:2] == ("32768x256", "32768x512")
        assert shapes[-3:] == ("32768x65536", "16384x131072", "8192x262144")
        assert len(shapes) == 11


@pytest.mark.parametrize("name", kernels.names(ROOT))
def test_every_shape_of_a_kernel_has_bytes_and_flop(name):
    kernel = kernels.read(name, ROOT)
    for shape in kernel.shapes:
        assert kernel.memory_bytes(shape, "bf16") > 0
        assert kernel.flop(shape) > 0
        assert kernel.memory_bytes(shape, "f32") > kernel.memory_bytes(shape, "bf16")


def test_sizes_types_and_divisors_are_read(project):
    kernel = kernels.read("own", project)
    assert kernel.tensor_bytes("4x8", "f32") == {"x": 128, "index": 32, "packed": 4, "y": 16}
    assert kernel.flop("4x8") == 2 * 32 + 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'DIMENSIONS = ("rows", "columns")\n',
            "",
            "DIMENSIONS: found nothing, expected tuple[str, ...]",
        ),
        ('("4x8", "16x8")', "make()", "SHAPES: found an expression, expected tuple[str, ...]"),
        ('("4x8", "16x8")', "()", "SHAPES: found none"),
        ('"4x8", "16x8"', '"4x8x2", ""', "found shape '4x8x2', expected <rows>x<columns>"),
        ('"4x8", "16x8"', '"4x0", ""', "found shape '4x0'"),
        ('{"y": "rows"}', '{"y": "row"}', "y: found 'row', allowed is one of rows, columns"),
        ("rows: i64", "rows: i46", "index: found type 'i46', allowed is one of f64, i64"),
        ("import torch", "import (", "line 2"),
    ],
)
def test_a_declaration_that_is_wrong_is_named(project, old, new, said):
    file = project / kernels.FOLDER / "own.py"
    file.write_text(KERNEL.replace(old, new))
    with pytest.raises(KernelError) as problem:
        kernels.read("own", project)
    assert "own.py" in str(problem.value)
    assert said in str(problem.value)


def test_latency_csv_has_no_kernel_and_kernels_csv_no_model():
    matrix = shipped()
    assert not any(model.suite == "kernels" for model in matrix.models.values())
    assert {model.suite for model in matrix.parts["kernels"].models.values()} == {"kernels"}
    plan = Plan(matrix, frozenset(), with_conda=False)
    assert not any("/kernels-" in file for file in plan.aggregation.results())
    limits = ["results/machine_limits/cpu/limits.json"]
    assert plan["kernels"].results()[-1:] == limits
    assert all("/kernels-" in file for file in plan["kernels"].results()[:-1])
    assert "results/kernels/softmax_forward.svg" in plan["kernels"].plots()
    assert (
        plan.aggregation.digest()
        == Plan(shipped(kernels={"max_bytes": 1e12}), frozenset(), False).aggregation.digest()
    )


def test_every_kernel_has_a_shape_in_the_default_run():
    found = shipped().parts["kernels"].models.values()
    assert {model.torchbench for model in found} == set(kernels.names(ROOT))
    assert all(model.dtype == "bf16" for model in found)


def test_max_bytes_selects_the_shapes_that_fit():
    def shapes(**section) -> list[str]:
        found = shipped(kernels={"select": ["softmax_forward"], **section}).parts["kernels"].models
        return [model.options["shape"] for model in found.values()]

    moved = 2 * 32768 * 256 * 2
    assert shapes(max_bytes=moved) == ["32768x256"]
    assert shapes(max_bytes=2 * moved) == ["32768x256", "32768x512"]
    assert shapes(max_bytes=2 * moved, dtype="f32") == ["32768x256"]
    assert (
        shipped(kernels={"select": ["softmax_forward"], "max_bytes": moved - 1}).parts.get(
            "kernels"
        )
        is None
    )
    assert len(shapes(max_bytes=1e12)) == 11


def test_an_entry_has_options_and_a_later_one_adds_to_it():
    select = [
        {"softmax_*": {"dtype": ["f32", "bf16"], "shape": "16x32"}},
        {"softmax_forward": {"shape": ["8x8", "4x4"], "tolerance": {"tol": 0.5}}},
    ]
    found = shipped(kernels={"select": select}).parts["kernels"].models
    assert list(found) == [
        *("kernels-softmax_backward-f32-16x32", "kernels-softmax_backward-bf16-16x32"),
        *("kernels-softmax_forward-f32-8x8", "kernels-softmax_forward-f32-4x4"),
        *("kernels-softmax_forward-bf16-8x8", "kernels-softmax_forward-bf16-4x4"),
    ]
    one = found["kernels-softmax_forward-f32-8x8"]
    assert one.options == {"dtype": "f32", "shape": "8x8"}
    assert one.tolerance == {"tol": 0.5}
    assert one.file == "models/kernels/softmax_forward.py"


def test_kernels_are_selected_by_name_and_by_suite():
    def selected(wanted: str) -> set[str]:
        return {m.torchbench for m in shipped({"kernels": wanted}).parts["kernels"].models.values()}

    assert selected("softmax*,swiglu") == {"softmax_forward", "softmax_backward", "swiglu"}
    assert selected("kernels-softmax_forward-32768x256") == {"softmax_forward"}
    with pytest.raises(settings.ConfigError, match="unknown kernel 'softmx'"):
        shipped({"kernels": "softmx"})
    by_suite = shipped(kernels={"select": []}, suites=["kernels/swiglu"])
    assert {m.torchbench for m in by_suite.parts["kernels"].models.values()} == {"swiglu"}
    assert not any(model.suite == "kernels" for model in by_suite.models.values())


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ([], r"kernels.select: found \[\], expected kernels or globs"),
        (["sofmax_forward"], "kernels.select: unknown kernel 'sofmax_forward'; did you mean"),
        ([{"swiglu": {"shape": "4"}}], "found shape '4', expected <tokens>x<features>"),
        ([{"swiglu": {"rows": 4}}], "takes no option 'rows'"),
    ],
)
def test_an_entry_that_is_wrong_is_named(select, said):
    with pytest.raises(settings.ConfigError, match=said):
        shipped(kernels={"select": select})


def test_kernels_have_their_own_targets_baselines_and_stopping_rule():
    matrix = shipped(kernels={"targets": ["llvm-cpu*"], "baselines": ["xla"]})
    assert list(matrix.parts["kernels"].targets) == ["llvm-cpu", "llvm-cpu-o3"]
    assert list(matrix.parts["kernels"].baselines) == ["xla"]
    assert "xla" not in matrix.baselines
    selected = shipped({"targets": "vulkan-ada", "baselines": "eager"})
    assert list(selected.parts["kernels"].targets) == ["vulkan-ada"]
    assert list(selected.parts["kernels"].baselines) == ["eager"]
    changed = shipped(
        measure={"generations": 4, "slice_s": 0.1}, kernels={"measure": {"generations": 8}}
    )
    rule = Plan(changed, frozenset(), with_conda=False).groups.rule
    own = next(iter(shipped().parts["kernels"].models))
    assert (rule(own).generations, rule(own).slice_s) == (8, 0.1)
    assert rule("resnet").generations == 4


def test_a_project_without_kernels_has_no_matrix_of_them(tmp_path):
    problems: list[str] = []
    assert kernel_matrix.listed({"kernels": {}}, tmp_path, problems) == {}
    assert kernel_matrix.listed({}, ROOT, problems) == {}
    assert problems == []


def test_a_kernel_in_the_project_of_a_user_is_found(project):
    shutil.copy2(ROOT / "models/kernels/_shapes.py", project / kernels.FOLDER)
    assert kernels.names(project) == ["own"]
    found = kernel_matrix.listed({"kernels": {"max_bytes": 1e3}}, project, [])
    assert list(found) == ["kernels-own-4x8", "kernels-own-16x8"]
