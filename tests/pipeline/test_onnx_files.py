"""ONNX files, an exported program and programs of MLIR through the workflow: verified on IREE, or a reason that says what is not
supported."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.checkouts import ON_CPU, QUICK, ROOT, Checkout, is_compared, made_environments, shipped

FLOAT, LONG, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DRAW = np.random.default_rng(1)
FRONTENDS = shipped("frontends", "torchmlir-torch", "onnx-torch", "onnx-stablehlo", "mlir")
FRONTENDS["mlir-unchanged"] = FRONTENDS["mlir"] | {"options": {"rewrites": "none"}}
TARGETS = {
    "llvm-cpu": ON_CPU["llvm-cpu"] | {"frontends": ["torchmlir-torch", "onnx-torch", "mlir"], "models": ["!crashing-*"]},
    "cpu-stablehlo": ON_CPU["llvm-cpu"] | {"frontends": ["onnx-stablehlo"], "models": ["crashing-export"]},
    "cpu-unchanged": ON_CPU["llvm-cpu"] | {"frontends": ["mlir-unchanged"], "models": ["one-hot"]},
    "vulkan": {"backend": "vulkan", "arch": "ada", "frontends": ["onnx-torch"], "models": ["crashing-compile"], "remedies": False},
}  # fmt: skip
BASELINES = shipped("baselines", "onnxruntime", "xla-stablehlo")
BASELINES["xla-stablehlo"] |= {"program": "mlir"}

LITERAL = ", ".join(f"[{row[0]:f}, {row[1]:f}]" for row in DRAW.standard_normal((200, 2)))
STABLEHLO = f"""
module @jit_f {{
  func.func public @main(%arg0: tensor<4x200xf32>) -> (tensor<4x2xf32>) {{
    %0 = call @layer(%arg0) : (tensor<4x200xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }}
  func.func private @layer(%arg0: tensor<4x200xf32>) -> tensor<4x2xf32> {{
    %c = stablehlo.constant dense<[{LITERAL}]> : tensor<200x2xf32>
    %0 = stablehlo.dot_general %arg0, %c, contracting_dims = [1] x [0] : (tensor<4x200xf32>, tensor<200x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }}
}}
"""
PARAMETERS = """
module {
  util.global private @w = #flow.parameter.named<"scope"::"layer.w"> : tensor<64x64xf32>
  util.global private @b = #flow.parameter.named<"scope"::"layer.b"> : tensor<2x64xf32>
  func.func @forward(%arg0: tensor<2x64xf32>) -> tensor<2x64xf32> {
    %w = util.global.load @w : tensor<64x64xf32>
    %b = util.global.load @b : tensor<2x64xf32>
    %0 = linalg.matmul ins(%arg0, %w : tensor<2x64xf32>, tensor<64x64xf32>) outs(%b : tensor<2x64xf32>) -> tensor<2x64xf32>
    return %0 : tensor<2x64xf32>
  }
}
"""
BROKEN = "module { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.nothing %x : tensor<4xf32> return %0 : tensor<4xf32> } }"

SHARDED = """
module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %key: tensor<2xui32>) -> (tensor<4x8xf32> {jax.result_info = "result"}, tensor<2xui32>) {
    %0 = stablehlo.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<4x8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<4x8xf32>
    %c = stablehlo.constant dense<13> : tensor<2xui32>
    %2 = stablehlo.shift_right_logical %key, %c : tensor<2xui32>
    return %1, %2 : tensor<4x8xf32>, tensor<2xui32>
  }
}
"""
"""As jax.export writes a program with shardings for a mesh, and JAX's keys."""
DIVIDED = """
module @jit_f {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<2x8xf32>) {
      %1 = stablehlo.tanh %arg1 : tensor<2x8xf32>
      sdy.return %1 : tensor<2x8xf32>
    } : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
"""
"""As it writes shard_map."""
SCALAR = "func.func @main(%x: tensor<4xf32>) -> f32 { %c = arith.constant 1 : index %r = tensor.extract %x[%c] : tensor<4xf32> return %r : f32 }"
NOT_COMPILED = """
func.func @main() -> tensor<5xi8> {
  %0 = stablehlo.constant dense<[[1, 2, 3, 4, 5], [6, 7, -8, -3, -1]]> : tensor<2x5xi8>
  %1 = stablehlo.reshape %0 : (tensor<2x5xi8>) -> tensor<10xi8>
  %2 = stablehlo.convert %1 : (tensor<10xi8>) -> tensor<10xi4>
  %i = arith.constant 0 : index
  %3 = tensor.extract %2[%i] : tensor<10xi4>
  %4 = arith.index_cast %3 : i4 to index
  %5 = tensor.extract_slice %0[%4, 0] [1, 5] [1, 1] : tensor<2x5xi8> to tensor<5xi8>
  return %5 : tensor<5xi8>
}
"""
"""IREE fails on the size of an i4, at all levels."""
CRASHES = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%t: tensor<64xf32>, %i: tensor<16xi32>) -> tensor<16xf32> {
  %big = arith.constant 1000000000000 : index
  %e = tensor.empty() : tensor<16xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<16xi32>) outs(%e : tensor<16xf32>) {
  ^bb0(%in: i32, %out: f32):
    %a = arith.index_cast %in : i32 to index
    %b = arith.addi %a, %big : index
    %v = tensor.extract %t[%b] : tensor<64xf32>
    linalg.yield %v : f32
  } -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
"""
"""It reads far outside of its input."""


def value(name, *shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return numpy_helper.from_array(DRAW.standard_normal(shape).astype(np.float32), name)


def save(path: Path, nodes, inputs, outputs, weights=(), opset=17, ir=8, **how) -> None:
    graph = helper.make_graph(nodes, "Model from a tool.", inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.checker.check_model(model)
    onnx.save(model, path, **how)


def branches(path: Path) -> None:
    """A table, and a branch whose weights are inside it."""
    inner = [
        helper.make_graph(
            [helper.make_node("MatMul", ["e", f"w_{name}"], [f"y_{name}"])],
            name,
            [],
            [value(f"y_{name}", "n", 4, 16)],
            [weight(f"w_{name}", 16, 16)],
        )
        for name in ("then", "else")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=inner[0], else_branch=inner[1]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    inputs = [value("ids", "n", 4, kind=LONG), value("flag", kind=BOOL)]
    save(path, nodes, inputs, [value("y", "n", 4, 16)], [weight("table", 50, 16)])


def older(path: Path) -> None:
    """An opset that has to be raised, and weights in a file of their own."""
    nodes = [
        helper.make_node("MatMul", ["x", "fc.w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=1),
    ]
    save(path, nodes, [value("x", "batch", 64)], [value("y", "batch", 32)], [weight("fc.w", 64, 32)],
         opset=11, save_as_external_data=True, location="older.bin", size_threshold=0)  # fmt: skip


def oldest(path: Path) -> None:
    """An opset that ONNX Runtime does not have, a large literal, and inputs as onnx's tests have
    them."""
    nodes = [
        helper.make_node("MatMul", ["x", "fc.w"], ["a"]),
        helper.make_node("Constant", [], ["mix"], value=weight("", 32, 32)),
        helper.make_node("MatMul", ["a", "mix"], ["b"]),
        helper.make_node("Add", ["b", "bias"], ["y"], broadcast=1),
    ]
    inputs = [value("x", 4, 64), value("fc.w", 64, 32), value("bias", 32)]
    save(path, nodes, inputs, [value("y", 4, 32)], [weight("fc.w", 64, 32), weight("bias", 32)],
         opset=6, ir=3)  # fmt: skip
    (path.parent / "test_data_set_0").mkdir()
    onnx.save_tensor(weight("x", 4, 64), path.parent / "test_data_set_0" / "input_0.pb")


def refused(path: Path) -> None:
    """Two operators that torch-mlir does not convert, after one that it does."""
    nodes = [
        helper.make_node("Relu", ["image"], ["r"]),
        helper.make_node("GridSample", ["r", "grid"], ["y"], mode="bicubic"),
        helper.make_node("LpPool", ["r"], ["z"], kernel_shape=[2, 2], p=3),
    ]
    inputs = [value("image", 1, 1, 4, 4), value("grid", 1, 2, 2, 2)]
    save(path, nodes, inputs, [value("y", 1, 1, 2, 2), value("z", 1, 1, 3, 3)])


def sequence(path: Path) -> None:
    """An operator that torch-mlir leaves in the program without an error."""
    nodes = [
        helper.make_node("SequenceConstruct", ["a", "b"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    save(path, nodes, [value("a", 2, 3), value("b", 2, 3)], [value("y", 4, 3)])


def crashing_export(path: Path) -> None:
    """torch-mlir crashes on the pool in three dimensions, when it lowers to StableHLO."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("AveragePool", ["a"], ["b"], kernel_shape=[2, 2, 2]),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    save(path, nodes, [value("x", 1, 1, 4, 4, 4)], [value("y", 1, 1, 3, 3, 3)])


def crashing_compile(path: Path) -> None:
    """IREE crashes on the sort of the suppression, for Vulkan, in a function that computes the scores too."""
    nodes = [
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"]),
    ]  # fmt: skip
    limits = [
        numpy_helper.from_array(np.array([number], kind), name)
        for name, number, kind in (("most", 2, "i8"), ("overlap", 0.5, "f4"), ("least", 0.0, "f4"))
    ]
    inputs = [value("boxes", 1, 6, 4), value("logits", 1, 1, 6)]
    save(path, nodes, inputs, [value("y", "n", 3, kind=LONG)], limits)


def ceiling(path: Path) -> None:
    """torch-mlir's pool divides by too much at the end, where it rounds up."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1),
    ]  # fmt: skip
    save(path, nodes, [value("x", 1, 2, 8, 8)], [value("y", 1, 2, 4, 4)], opset=17)


def unsigned(path: Path) -> None:
    """Inputs and results of unsigned integers."""
    kinds = {"a": TensorProto.UINT32, "c": TensorProto.UINT64}
    nodes = [helper.make_node("Add", ["a", "a"], ["y"]), helper.make_node("Mul", ["c", "c"], ["z"])]
    inputs = [value(name, 5, kind=kind) for name, kind in kinds.items()]
    results = [value("y", 5, kind=kinds["a"]), value("z", 5, kind=kinds["c"])]
    save(path, nodes, inputs, results)


def sized(path: Path) -> None:
    """A dimension that the file leaves open, and that may not be 1."""
    shape = numpy_helper.from_array(np.array([48, -1]), "shape")
    inputs, results = [value("x", "batch", "seq", 8)], [value("y", None, None)]
    save(path, [helper.make_node("Reshape", ["x", "shape"], ["y"])], inputs, results, [shape])


@pytest.fixture(scope="module")
def made(make_checkout) -> Checkout:
    """A run of all these files."""
    python = made_environments("onnxruntime") / "torch-mlir/bin/python"
    made: Checkout = make_checkout(
        "programs",
        models={
            "older-2": {
                "file": "files/older.onnx",
                "dims": {"batch": 2},
                "dynamic": {"batch": {"values": [3]}},
            },
            "crashes-2": {"file": "files/crashes.mlir", "golden": "files/golden.npz"},
        },
        frontends=FRONTENDS,
        targets=TARGETS,
        baselines=BASELINES,
        measure=QUICK,
    )
    files = made.path / "files"
    files.mkdir()
    for make in (
        branches,
        older,
        oldest,
        refused,
        sequence,
        ceiling,
        unsigned,
        sized,
        crashing_export,
        crashing_compile,
    ):
        make(files / f"{make.__name__.replace('_', '-')}.onnx")
    texts = {
        "stablehlo": STABLEHLO,
        "parameters": PARAMETERS,
        "broken": BROKEN,
        "not-compiled": NOT_COMPILED,
        "crashes": CRASHES,
        "sharded": SHARDED,
        "divided": DIVIDED,
        "scalar": SCALAR,
    }
    np.savez(files / "golden.npz", np.ones(16, np.float32))
    for name, text in texts.items():
        (files / f"{name}.mlir").write_text(text)
    of_jax = made.path / "of-jax"
    subprocess.run([python, "-m", "benchmarks.jax_programs", of_jax], check=True, cwd=ROOT)
    shutil.copy(of_jax / "one-hot-artifact.stablehlo", files / "one-hot.stablehlo")
    python = ROOT / ".venvs/onnxruntime/bin/python"
    subprocess.run([python, "-m", "benchmarks.model_files", "models/conv.py", files], check=True, cwd=ROOT)  # fmt: skip
    made.snakemake(
        "--cores", "2", "results/latency.csv", "--config",
        "file=files/*.onnx,files/*.mlir,files/*.stablehlo,files/*.pt2,files/conv/model.onnx",
        "models=conv,conv-pt2,conv-onnx,branches,older,older-2,oldest,refused,sequence,stablehlo,parameters,broken,one-hot,crashing-export,crashing-compile,"
        "scalar,not-compiled,crashes,crashes-2,ceiling,unsigned,sized,sharded,divided",
    )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def rows(made) -> dict[tuple[str, str], dict[str, str]]:
    """The rows by model and frontend or runtime, each with its program and the folder of its reference."""
    found = {}
    for row in made.rows():
        program = made.path / f"results/export/{row['model']}/{row['frontend']}/program.mlir"
        text = program.read_text() if program.is_file() else ""
        of_iree = row["runtime"] == "iree"
        found[row["model"], row["frontend" if of_iree else "runtime"]] = row | {
            "program": text,
            "reference": made.path / "results/reference" / row["model"],
        }
    return found


def test_a_python_file_its_exported_program_and_its_onnx_file_have_the_same_results(rows):
    of_file, exported, onnx_file = (
        rows[model, frontend]
        for model, frontend in (("conv", "torchmlir-torch"), ("conv-pt2", "torchmlir-torch"), ("conv-onnx", "onnx-torch"))
    )  # fmt: skip
    for row in (of_file, exported, onnx_file):
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert of_file["program"] == exported["program"]
    assert of_file["max_abs_error"] == exported["max_abs_error"]
    for name, limit in (("inputs", 0), ("golden", 1e-5)):
        first, second, third = (
            next(iter(np.load(row["reference"] / f"{name}.npz").values()))
            for row in (of_file, exported, onnx_file)
        )
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, third, atol=limit, rtol=0)


@pytest.mark.parametrize("model", ["branches", "older", "older-2", "oldest"])
def test_an_onnx_file_is_verified_against_onnx_runtime_and_compared_with_it(rows, model):
    row = rows[model, "onnx-torch"]
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert row["verdict"] in ("faster", "slower", "same", "undecided")
    assert is_compared(row, "speedup_vs_onnxruntime")
    assert row["speedup_vs_eager"] == ""
    assert rows[model, "onnxruntime"]["status"] == "ok"


def test_a_program_for_all_sizes_of_a_dimension_that_the_file_leaves_open(rows):
    assert "@main(%arg0: tensor<?x64xf32>) -> tensor<?x32xf32>" in rows["older-2", "onnx-torch+dynamic"]["program"]  # fmt: skip
    for model in ("older-2", "older-2~3"):
        row = rows[model, "onnx-torch+dynamic"]
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
        assert is_compared(row, "dynamic_cost")


def test_inputs_are_those_of_the_test_data_beside_the_file_if_they_fit(rows):
    assert rows["oldest", "onnx-torch"]["inputs_from"].startswith("inputs of test_data_set_0; ")
    about = rows["older-2", "onnx-torch"]["inputs_from"]
    assert about.startswith("seeded inputs of the declared types, because"), about


def test_weights_are_parameters_also_those_of_branches_and_of_other_files(rows):
    for name in ("table", "w_then", "w_else"):
        assert (
            f'#flow.parameter.named<"model"::"{name}">' in rows["branches", "onnx-torch"]["program"]
        )
    assert '#flow.parameter.named<"model"::"fc.w">' in rows["older", "onnx-torch"]["program"]
    assert "@main(%arg0: tensor<2x64xf32>)" in rows["older-2", "onnx-torch"]["program"]


@pytest.mark.parametrize(
    ("model", "operators"),
    [
        ("refused", "onnx.GridSample, onnx.LpPool"),
        ("sequence", "onnx.ConcatFromSequence"),
    ],
)
def test_a_reason_names_all_operators_that_are_not_converted(rows, model, operators):
    row = rows[model, "onnx-torch"]
    assert (row["status"], row["stage"]) == ("unsupported", "export")
    assert row["detail"] == f"torch-mlir does not convert {operators}"


@pytest.mark.parametrize(
    ("model", "frontend", "known"),
    [
        ("crashing-export", "onnx-stablehlo", "; onnx.AveragePool alone crashes it too; "),
        ("crashing-compile", "onnx-torch", "_sort_6xf32_dispatch_tensor_store, which computes onnx.Sigmoid, onnx.NonMaxSuppression; "),
    ],
)  # fmt: skip
def test_a_crash_names_the_operator(rows, model, frontend, known):
    row = rows[model, frontend]
    assert (row["status"], row["reason"]) == ("crashed", "SIGSEGV")
    assert known in row["detail"]


def test_a_program_is_compared_with_xla_or_with_itself_at_o0_if_xla_does_not_take_it(rows):
    of_linalg = "linalg.matmul is no operation of StableHLO"
    expected = {"stablehlo": "xla", "parameters": f"iree-O0 (not xla: {of_linalg})"}
    for model, golden_from in expected.items():
        row = rows[model, "mlir"]
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
        assert row["golden_from"] == golden_from
    assert is_compared(rows["stablehlo", "mlir"], "speedup_vs_xla-stablehlo")
    assert rows["stablehlo", "mlir"]["verdict"]
    row = rows["parameters", "xla-stablehlo"]
    assert (row["status"], row["detail"]) == ("unsupported", f"{of_linalg}, which XLA compiles")
    assert "dense<[[" not in rows["stablehlo", "mlir"]["program"], "its literal is a parameter"
    row = rows["broken", "mlir"]
    assert (row["status"], row["reason"]) == ("error", "model-file")
    assert "custom op 'stablehlo.nothing' is unknown" in row["detail"]


def test_shardings_have_no_effect_on_one_device_and_unsigned_integers_are_taken(rows):
    for model, path in (("sharded", "mlir"), ("unsigned", "onnx-torch")):
        row = rows[model, path]
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert rows["sharded", "mlir"]["golden_from"] == "xla"
    assert rows["sharded", "xla-stablehlo"]["status"] == "ok"
    row = rows["divided", "mlir"]
    assert row["reason"] == "model-file"
    assert "sdy.manual_computation divides the program among the devices of a mesh; export it for one device" in row["detail"]  # fmt: skip


def test_sizes_are_proposed_for_open_dimensions_that_may_not_be_one(rows):
    row = rows["sized", "onnx-torch"]
    assert (row["stage"], row["reason"]) == ("reference", "model-inputs")
    assert "the size 1 was taken for batch, seq; ONNX Runtime runs it with this line in its entry: dims: {batch: 48} (ONNX Runtime: " in row["detail"]  # fmt: skip


def test_a_wrong_operator_of_an_onnx_file_is_found(made, rows):
    row = rows["ceiling", "onnx-torch"]
    assert (row["status"], row["reason"]) == ("error", "wrong-result"), row["detail"]
    said = made.vmfbench("reduce", "ceiling/onnx-torch/llvm-cpu", "--budget", "60")
    assert "ceiling: onnx.AveragePool (node 1) is wrong" in said
    text = (made.path / "results/bundles/ceiling__onnx-torch__llvm-cpu/ISSUE.md").read_text()
    assert text.startswith("<!-- Tracker: https://github.com/llvm/torch-mlir/issues -->")


def test_the_owner_of_a_wrong_result_is_iree_where_xla_is_right(made):
    said = made.vmfbench("bundle", "one-hot/mlir-unchanged/cpu-unchanged")
    assert "likely owner: IREE. XLA computes the golden result from the same StableHLO, so IREE's compiler is wrong, at O0 too. By other paths the model is right: mlir." in said  # fmt: skip


def test_a_program_whose_result_is_no_tensor_is_refused(rows):
    row = rows["scalar", "mlir"]
    assert (row["status"], row["reason"]) == ("error", "model-file")
    assert "result 0 has type f32, expected a tensor of " in row["detail"]


def test_where_iree_fails_on_the_golden_results_that_is_its_failure_and_has_a_reproducer(
    made, rows
):
    row = rows["not-compiled", "mlir"]
    assert (row["status"], row["stage"], row["reason"]) == ("error", "reference", "compiler-error")
    assert row["detail"].startswith(
        "'stream.tensor.sizeof' op failed to calculate total byte count"
    )
    assert "(golden results: iree-compile at O0 (not xla: tensor.extract is no operation of StableHLO))" in row["detail"]  # fmt: skip
    row = rows["crashes", "mlir"]
    assert (row["status"], row["stage"], row["reason"]) == ("crashed", "reference", "SIGSEGV")
    assert row["detail"] == "killed by SIGSEGV; golden results: a call of the program that IREE compiled at O0 (not xla: tensor.empty is no operation of StableHLO)"  # fmt: skip
    row = rows["crashes-2", "mlir"]
    assert (row["status"], row["stage"], row["reason"], row["verification_code"]) == ("crashed", "verify", "SIGSEGV", "EXCEPTION_RAISED")  # fmt: skip
    for model, said in (
        ("not-compiled", "Reduced from "),
        ("crashes", "--input=16xi32=@inputs/1.bin"),
    ):
        made.vmfbench("reduce", f"{model}/mlir/llvm-cpu", "--budget", "60")
        text = (made.path / f"results/bundles/{model}__mlir__llvm-cpu/ISSUE.md").read_text()
        assert said in text
        assert "/program.mlir:" not in text


def test_what_iree_computes_wrongly_is_rewritten_and_else_a_wrong_result(rows):
    """A portable artifact with products of booleans and of unsigned integers."""
    row = rows["one-hot", "mlir"]
    assert (row["status"], row["golden_from"]) == ("ok", "xla"), row["detail"]
    assert row["rewrites"] == "i1 converted before the product; ui8 converted before the product"
    assert float(row["max_abs_error"]) < 1e-4
    row = rows["one-hot", "mlir-unchanged"]
    assert (row["reason"], row["golden_from"], row["rewrites"]) == ("wrong-result", "xla", "")
    assert rows["one-hot", "xla-stablehlo"]["status"] == "ok"
