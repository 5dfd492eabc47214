"""The rewrites of StableHLO: exact, named, and nothing else changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.checkouts import Answering

ERF = """
module @m {
  func.func @main(%arg0: tensor<5xf32>) -> tensor<5xf32> {
    %0 = stablehlo.custom_call @mhlo.erf(%arg0) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<5xf32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }
}
"""
WINDOW = """
module @m {{
  func.func @main(%arg0: tensor<1x6x{kind}>) -> tensor<1x6x{kind}> {{
    %c = stablehlo.constant dense<0> : tensor<{kind}>
    %0 = "stablehlo.reduce_window"(%arg0, %c) <{{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 6>, window_strides = array<i64: 1, 1>}}> ({{
    ^bb0(%arg1: tensor<{kind}>, %arg2: tensor<{kind}>):
      %1 = stablehlo.{op} %arg1, %arg2 : tensor<{kind}>
      stablehlo.return %1 : tensor<{kind}>
    }}) : (tensor<1x6x{kind}>, tensor<{kind}>) -> tensor<1x6x{kind}>
    return %0 : tensor<1x6x{kind}>
  }}
}}
"""
PLAIN = """
module @m {
  func.func @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""


SORT = """
    %{name}:2 = "stablehlo.sort"(%arg0, %iota) <{{dimension = 1 : i64, is_stable = false}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i64>, %d: tensor<i64>):
      %1 = stablehlo.compare {order}, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }}) : (tensor<2x8xf32>, tensor<2x8xi64>) -> (tensor<2x8xf32>, tensor<2x8xi64>)
    %{name}_first = stablehlo.slice %{name}#1 [0:2, 0:{count}] : (tensor<2x8xi64>) -> tensor<2x{count}xi64>
"""
SORTS = f"""
module @m {{
  func.func @main(%arg0: tensor<2x8xf32>) -> tensor<2x11xi64> {{
    %iota = stablehlo.iota dim = 1 : tensor<2x8xi64>
    {SORT.format(name="up", order="LT", count=8)}
    {SORT.format(name="down", order="GT", count=3)}
    %0 = stablehlo.concatenate %up_first, %down_first, dim = 1 : (tensor<2x8xi64>, tensor<2x3xi64>) -> tensor<2x11xi64>
    return %0 : tensor<2x11xi64>
  }}
}}
"""


CONVOLUTION = """
module @m {{
  func.func @main(%x: tensor<1x{inputs}x5x6xf32>, %weight: tensor<{shape}xf32>) -> tensor<1x4x{height}x{width}xf32> {{
    %twice = stablehlo.add %x, %x : tensor<1x{inputs}x5x6xf32>
    %kernel = stablehlo.{move} : tensor<{shape}xf32>
    %0 = stablehlo.convolution(%twice, %kernel) dim_numbers = [b, f, 0, 1]x[{order}]->[b, f, 0, 1], window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : (tensor<1x{inputs}x5x6xf32>, tensor<{shape}xf32>) -> tensor<1x4x{height}x{width}xf32>
    return %0 : tensor<1x4x{height}x{width}xf32>
  }}
}}
"""
SIZES = {"o": 4, "i": 2, "0": 3, "1": 2}
REVERSED = "reverse %weight, dims = [2, 3]"
# The gradient of the input of a convolution with strides.
DILATED = "stride = [2, 1], pad = [[1, 2], [0, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1]"


@pytest.fixture(scope="module")
def iree(environments):
    """Rewrites, compiles and calls programs in the iree environment."""
    with Answering(environments / "iree/bin/python", "rewrites_in_iree") as answers:
        yield answers


def run(
    iree,
    text: str,
    *values: np.ndarray,
    flags: tuple[str, ...] = (),
    changing: tuple[int, ...] = (),
    compiles: bool = True,
) -> dict:
    """Rewrite, compile (if `compiles`) and call a program. `changing`: arguments that are weights and change."""
    inputs = [{"values": value.tolist(), "dtype": str(value.dtype)} for value in values]
    return iree({"text": text, "inputs": inputs, "flags": flags, "changing": changing, "compiles": compiles})  # fmt: skip


def test_the_error_function_is_chlos(iree):
    x = np.array([-3.0, -0.5, 0.0, 0.5, 3.0], np.float32)
    found = run(iree, ERF, x)
    assert found["rewrites"] == ["mhlo.erf to chlo.erf"]
    assert found["values"] == pytest.approx([math.erf(v) for v in x], abs=1e-6)


@pytest.mark.parametrize(("kind", "dtype"), [("ui8", np.uint8), ("ui16", np.uint16), ("ui32", np.uint32)])  # fmt: skip
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_a_window_over_unsigned_integers_keeps_their_values_and_their_wrap(iree, kind, dtype, op):
    top = np.iinfo(dtype).max
    values = np.array([[1, top, 3, top // 2 + 1, 0, top]], dtype)
    found = run(iree, WINDOW.format(kind=kind, op=op), values)
    bits = np.iinfo(dtype).bits
    assert found["rewrites"] == [f"reduce_window over ui{bits} in i{2 * bits}"]
    with np.errstate(over="ignore"):
        expected = {"add": np.add, "maximum": np.maximum}[op].accumulate(
            values, axis=1, dtype=dtype
        )
    got = np.array(found["values"], np.int64) % (1 << bits)  # IREE's ABI has no signs
    assert got.tolist() == expected.astype(np.int64).tolist()


def test_a_window_over_signed_integers_is_left_alone(iree):
    values = np.array([[1, 127, 3, -5, 0, 9]], np.int8)
    assert run(iree, WINDOW.format(kind="i8", op="add"), values)["rewrites"] == []


def test_sorts_of_one_tensor_do_not_share_the_positions_that_they_carry(iree):
    values = np.array([[3, 1, 4, 1.5, 9, 2.6, 5, 3.5], [8, 7, 6, 5, 4, 3, 2, 1]], np.float32)
    found = run(iree, SORTS, values, flags=("--iree-dispatch-creation-data-tiling",))
    assert found["rewrites"] == ["sort positions i64 to i32", "sort with positions of its own"]
    up = np.argsort(values, axis=1)
    assert found["values"] == np.concatenate([up, up[:, :-4:-1]], axis=1).tolist()


ONE_HOT = """
module @m {{
  func.func @main(%labels: tensor<4xi32>, %table: tensor<3x2xi32>) -> tensor<4x2xf32> {{
    %classes = stablehlo.iota dim = 1 : tensor<4x3xi32>
    %wide = stablehlo.broadcast_in_dim %labels, dims = [0] : (tensor<4xi32>) -> tensor<4x3xi32>
    %hit = stablehlo.compare EQ, %wide, %classes : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi1>
    %one_hot = stablehlo.convert %hit : (tensor<4x3xi1>) -> tensor<4x3x{kind}>
    %w = stablehlo.convert %table : (tensor<3x2xi32>) -> tensor<3x2x{kind}>
    %0 = stablehlo.dot_general %one_hot, %w, contracting_dims = [1] x [0] : (tensor<4x3x{kind}>, tensor<3x2x{kind}>) -> tensor<4x2x{kind}>
    %1 = stablehlo.convert %0 : (tensor<4x2x{kind}>) -> tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }}
}}
"""
BYTES = """
module @m {
  func.func @main(%bytes: tensor<4x3xi8>, %w: tensor<2x4xf32>) -> tensor<2x3xf32> {
    %unsigned = stablehlo.bitcast_convert %bytes : (tensor<4x3xi8>) -> tensor<4x3xui8>
    %x = stablehlo.convert %unsigned : (tensor<4x3xui8>) -> tensor<4x3xf32>
    %0 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""
LEVELS = pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])


@LEVELS
@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_a_product_with_converted_booleans_is_right_at_every_level(iree, level, kind):
    labels, table = np.array([2, 0, 1, 2], np.int32), np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    text, flag = ONE_HOT.format(kind=kind), f"--iree-opt-level={level}"
    found = run(iree, text, labels, table, flags=(flag,))
    assert found["rewrites"] == ["i1 converted before the product"]
    assert found["values"] == table[labels].tolist()


@pytest.mark.parametrize(
    "product",
    [
        "stablehlo.dot %one_hot, %w",
        '"stablehlo.einsum"(%one_hot, %w) <{einsum_config = "ab,bc->ac"}>',
    ],
)
def test_so_are_other_forms_of_a_product(iree, product):
    labels, table = np.array([2, 0, 1, 2], np.int32), np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    text = ONE_HOT.format(kind="f32").replace("stablehlo.dot_general %one_hot, %w, contracting_dims = [1] x [0]", product)  # fmt: skip
    found = run(iree, text, labels, table, flags=("--iree-opt-level=O3",))
    assert found["rewrites"] == ["i1 converted before the product"]
    assert found["values"] == table[labels].tolist()


@LEVELS
def test_a_product_with_converted_unsigned_integers_is_right_at_every_level(iree, level):
    values = np.array([[255, 128, 127], [3, 200, 0], [1, 2, 129], [254, 0, 9]], np.uint8)
    w = np.array([[1, -2, 3, 4], [0, 5, -6, 7]], np.float32)
    flag = f"--iree-opt-level={level}"
    found = run(iree, BYTES, values.view(np.int8), w, flags=(flag,))
    assert found["rewrites"] == ["ui8 converted before the product"]
    assert found["values"] == (w @ values).tolist()


@pytest.mark.parametrize(
    ("before", "after", "rewritten"),
    [
        ("i1", "f32", True),
        ("i1", "i64", True),
        ("ui8", "f16", True),
        ("ui16", "i32", True),
        ("i8", "f32", False),
        ("f16", "f32", False),
        ("i1", "ui32", False),
    ],
)
@pytest.mark.parametrize("use", ["dot_general", "multiply"])
def test_only_booleans_and_unsigned_operands_of_products_have_an_absolute_value(
    iree, before, after, rewritten, use
):
    kind = f"tensor<2x2x{after}>"
    product = {"dot_general": f"%c, %c, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}", "multiply": f"%c, %c : {kind}"}  # fmt: skip
    text = f"""
    func.func @main(%a: tensor<2x2x{before}>) -> ({kind}, {kind}) {{
      %c = stablehlo.convert %a : (tensor<2x2x{before}>) -> {kind}
      %0 = stablehlo.{use} {product[use]}
      return %0, %c : {kind}, {kind}
    }}"""
    found = run(iree, text, compiles=False)
    names = [f"{before} converted before the product"]
    assert found["rewrites"] == (names if rewritten and use == "dot_general" else [])
    assert found["text"].count("stablehlo.abs") == len(found["rewrites"])


def test_a_program_that_needs_none_has_no_rewrite(iree):
    found = run(iree, PLAIN, np.array([1, 2, 3], np.float32))
    assert (found["rewrites"], found["values"]) == ([], [2.0, 4.0, 6.0])


def convolved(iree, order: str, changing=(1,), sizes=SIZES, groups=1, move=REVERSED, window="") -> dict:  # fmt: skip
    """A convolution with a kernel in this order, after the rewrites."""
    x = np.random.default_rng(0).random((1, groups * sizes["i"], 5, 6), np.float32)
    weight = np.random.default_rng(1).random([sizes[n] for n in order], np.float32)
    height, width = (5, 11) if window else (6 - sizes["0"], 7 - sizes["1"])
    text = CONVOLUTION.format(
        inputs=x.shape[1], shape="x".join(map(str, weight.shape)), order=", ".join(order),
        height=height, width=width, groups=groups, move=move, window=window,
    )  # fmt: skip
    return run(iree, text, x, weight, changing=changing)


@pytest.mark.parametrize("window", ["", DILATED])
@pytest.mark.parametrize("order", ["oi01", "01oi", "io01"])
def test_kernels_that_change_are_transposed_at_the_start_behind_a_barrier(iree, order, window):
    found, plain = (convolved(iree, order, c, window=window) for c in [(1,), ()])
    assert (found["rewrites"], plain["rewrites"]) == (["kernels-transposed-first"], [])
    np.testing.assert_allclose(found["values"], plain["values"], rtol=1e-5)
    *_, transposed, kept, _ = found["text"].partition("stablehlo.add")[0].splitlines()
    assert "stablehlo.transpose" in transposed
    assert "util.optimization_barrier" in kept
    assert found["text"].count("util.optimization_barrier") == 1
    assert "x[0, 1, i, o]->[b, f, 0, 1]" in found["text"]
    assert "optimization_barrier" not in plain["text"]


def test_kernels_of_the_public_function_alone_are_transposed(iree):
    convolution = "%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>"
    arguments = "(%x: tensor<1x1x3x3xf32>, %w: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>"
    functions = "".join(
        f"func.func {name}{arguments} {{ {convolution}\n return %0 : tensor<1x1x2x2xf32> }}\n"
        for name in ("@main", "private @other")
    )
    x, weight = np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 2, 2), np.float32)
    found = run(iree, f"module @m {{\n{functions}}}", x, weight, changing=(1,))
    assert found["text"].count("util.optimization_barrier") == 1
    assert found["values"] == np.full((1, 1, 2, 2), 4.0).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"order": "01io"},
        {"changing": (0,)},
        {"sizes": SIZES | {"0": 1, "1": 1}},
        {"sizes": SIZES | {"i": 1}, "groups": 2},
        {"move": "sqrt %weight"},
    ],
    ids=["in IREE's order", "another argument", "one value", "groups", "computed"],
)
def test_other_kernels_are_left_alone(iree, options):
    options = {"order": "oi01"} | options
    found = convolved(iree, **options)
    assert found["rewrites"] == []
    assert "optimization_barrier" not in found["text"]
