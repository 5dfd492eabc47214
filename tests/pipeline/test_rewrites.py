"""The rewrites of StableHLO: exact, named, and nothing else changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.checkouts import in_environment

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
    {before}
    %0 = stablehlo.convolution(%x, %kernel) dim_numbers = [b, f, 0, 1]x[{order}]->[b, f, 0, 1], window = {{}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : (tensor<1x{inputs}x5x6xf32>, tensor<{shape}xf32>) -> tensor<1x4x{height}x{width}xf32>
    return %0 : tensor<1x4x{height}x{width}xf32>
  }}
}}
"""
SIZES = {"o": 4, "i": 2, "0": 3, "1": 2}


def run(
    environments, text: str, *values: np.ndarray, flags: tuple[str, ...] = (), **options
) -> dict:
    """Rewrite, compile and call a program in the iree environment. `options`: of the rewrites."""
    inputs = [{"values": value.tolist(), "dtype": str(value.dtype)} for value in values]
    case = {"text": text, "inputs": inputs, "flags": flags, "options": options}
    return in_environment(environments / "iree/bin/python", "rewrites_in_iree", case=case)


def test_the_error_function_is_chlos(environments):
    x = np.array([-3.0, -0.5, 0.0, 0.5, 3.0], np.float32)
    found = run(environments, ERF, x)
    assert found["rewrites"] == ["mhlo.erf to chlo.erf"]
    assert found["values"] == pytest.approx([math.erf(v) for v in x], abs=1e-6)


@pytest.mark.parametrize(("kind", "dtype"), [("ui8", np.uint8), ("ui16", np.uint16), ("ui32", np.uint32)])  # fmt: skip
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_a_window_over_unsigned_integers_keeps_their_values_and_their_wrap(
    environments, kind, dtype, op
):
    top = np.iinfo(dtype).max
    values = np.array([[1, top, 3, top // 2 + 1, 0, top]], dtype)
    found = run(environments, WINDOW.format(kind=kind, op=op), values)
    bits = np.iinfo(dtype).bits
    assert found["rewrites"] == [f"reduce_window over ui{bits} in i{2 * bits}"]
    with np.errstate(over="ignore"):
        expected = {"add": np.add, "maximum": np.maximum}[op].accumulate(
            values, axis=1, dtype=dtype
        )
    got = np.array(found["values"], np.int64) % (1 << bits)  # IREE's ABI has no signs
    assert got.tolist() == expected.astype(np.int64).tolist()


def test_a_window_over_signed_integers_is_left_alone(environments):
    values = np.array([[1, 127, 3, -5, 0, 9]], np.int8)
    assert run(environments, WINDOW.format(kind="i8", op="add"), values)["rewrites"] == []


def test_sorts_of_one_tensor_do_not_share_the_positions_that_they_carry(environments):
    values = np.array([[3, 1, 4, 1.5, 9, 2.6, 5, 3.5], [8, 7, 6, 5, 4, 3, 2, 1]], np.float32)
    found = run(environments, SORTS, values, flags=("--iree-dispatch-creation-data-tiling",))
    assert found["rewrites"] == ["sort positions i64 to i32", "sort with positions of its own"]
    up = np.argsort(values, axis=1)
    assert found["values"] == np.concatenate([up, up[:, :-4:-1]], axis=1).tolist()


def test_a_program_that_needs_none_has_no_rewrite(environments):
    found = run(environments, PLAIN, np.array([1, 2, 3], np.float32))
    assert (found["rewrites"], found["values"]) == ([], [2.0, 4.0, 6.0])


def convolved(environments, order: str, before: str = "", sizes=SIZES, groups=1, **options):
    """A convolution with a kernel in this order, after the rewrites, and what numpy computes."""
    x = np.random.default_rng(0).random((1, groups * sizes["i"], 5, 6), np.float32)
    weight = np.random.default_rng(1).random([sizes[n] for n in order], np.float32)
    height, width = 6 - sizes["0"], 7 - sizes["1"]
    shape = "x".join(map(str, weight.shape))
    before = before or f"%kernel = stablehlo.reverse %weight, dims = [] : tensor<{shape}xf32>"
    text = CONVOLUTION.format(
        inputs=x.shape[1], shape=shape, order=", ".join(order), height=height, width=width,
        before=before.format(shape=shape), groups=groups,
    )  # fmt: skip
    found = run(environments, text, x, weight, **options)
    kernel = weight.transpose([order.index(n) for n in "oi01"])
    windows = np.lib.stride_tricks.sliding_window_view(x[0], kernel.shape[2:], (1, 2))
    parts = zip(np.split(windows, groups), np.split(kernel, groups), strict=True)
    return found, np.concatenate([np.einsum("ihwkl,oikl->ohw", w, k) for w, k in parts])[None]


@pytest.mark.parametrize("order", ["oi01", "01oi", "01io", "io01"])
def test_where_weights_change_kernels_are_transposed_before_they_are_used(environments, order):
    found, expected = convolved(environments, order, weights_change=True)
    assert found["rewrites"] == ([] if order == "01io" else ["kernels-transposed-first"])
    np.testing.assert_allclose(found["values"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("weights that are constants", {}),
        ("a kernel of one value", {"sizes": SIZES | {"0": 1, "1": 1}, "weights_change": True}),
        ("groups", {"sizes": SIZES | {"i": 1}, "groups": 2, "weights_change": True}),
        ("a kernel that is computed", {"before": "%kernel = stablehlo.sqrt %weight : tensor<{shape}xf32>", "weights_change": True}),
    ],
)  # fmt: skip
def test_other_kernels_are_left_alone(environments, case, options):
    found, expected = convolved(environments, "oi01", **options)
    assert found["rewrites"] == []
    if case != "a kernel that is computed":
        np.testing.assert_allclose(found["values"], expected, rtol=1e-5)
