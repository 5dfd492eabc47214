"""values: the argument format of operator traces is read without evaluation, and printed again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.tools.operators.problems import argument_values
from scripts.tools.operators.problems.argument_values import (
    ArgumentsError,
    Device,
    Name,
    SparseTensor,
    Tensor,
)

SIZES = st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
DTYPES = st.sampled_from(list(argument_values.DTYPES))
TENSORS = st.builds(Tensor, SIZES, DTYPES) | SIZES.flatmap(
    lambda shape: st.builds(
        Tensor,
        st.just(shape),
        DTYPES,
        st.tuples(*(st.integers(0, 2**40) for _ in shape)),
    )
)
SPARSE = st.builds(
    SparseTensor,
    SIZES,
    DTYPES,
    st.just("torch.sparse_coo"),
    st.booleans(),
    st.none() | st.integers(0, 9),
)
NAMES = st.sampled_from(["torch.strided", "torch.float16", "torch.channels_last"])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    TENSORS,
    SPARSE,
    st.builds(Name, DTYPES),
    st.builds(Name, NAMES),
    st.builds(Device, st.sampled_from(["cpu", "cuda"]), st.none() | st.integers(0, 9)),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
ARGUMENTS = st.tuples(
    st.lists(VALUES, max_size=5).map(tuple), st.dictionaries(st.text(max_size=8), VALUES)
)

# Lines of PyTorch's traces and of BackendBench's dataset, as they are printed again.
LINES = [
    "((T([1024, 50265], f16), 1, False), {})",
    "((T([1, 1024, 12, 513], f16, stride=(6303744, 513, 525312, 1)), -1, True), {})",
    "((T([1, 1024], i64),), {'dtype': i32, 'layout': torch.strided, 'device': 'cuda'})",
    "((T([], f32),), {'dtype': f16, 'device': \"torch.device('cpu')\"})",
    "((T([1, 256, 1, 257], f16), T([1, 256, 1, 257], b8), -inf), {})",
    "((T([9, 8], f16), [None, T([3], i64)]), {})",
    "((T([768], f16), 1e-05, 0.0, -65504.0, 9223372036854775807), {'a': [], 'b': {'c': nan}})",
    "((1, 1, [965, 192], T([1, 54687], i64), T([54687, 192], f16)), {'dtype': f16, 'layout': torch.sparse_coo, 'device': 'cuda', 'pin_memory': None})",
    "((T([2], c64), T([2], c128), T([2], c32), bf16), {})",
    "((device(type='cuda', index=0), ()), {})",
    "((ST([20, 3], f16, torch.sparse_coo, True, 7),), {})",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_lines_of_traces_are_printed_as_they_were(line):
    assert argument_values.show(argument_values.read_arguments(line)) == line


@given(ARGUMENTS)
def test_what_is_printed_is_read_back(arguments):
    text = argument_values.show(arguments)
    found = argument_values.read_arguments(text)
    assert argument_values.show(found) == text
    if "nan" not in text:
        assert found == arguments


def test_a_tensor_is_read_with_its_stride_in_every_way_of_writing_it():
    expected = Tensor((2, 3), "f16", (1, 2))
    for text in ("T([2, 3], f16, stride=(1, 2))", "T([2, 3], f16, [1, 2])", "T((2,3),f16,(1,2),)"):
        assert argument_values.read(text) == expected
    assert argument_values.read("T([2, 3], f16)").elements == 6


def test_devices_are_read_by_call_and_by_name():
    assert argument_values.read("device(type='cuda', index=1)") == Device("cuda", 1)
    assert argument_values.read("torch.device('cuda:2')") == Device("cuda", 2)
    assert argument_values.read("torch.device('cpu')") == Device("cpu")


def test_numbers_are_those_of_python():
    assert argument_values.read("-9223372036854775808") == -(2**63)
    assert argument_values.read("[1e-05, .5, 2., -0.0]") == [1e-05, 0.5, 2.0, 0.0]
    assert math.copysign(1, argument_values.read("-0.0")) == -1
    assert isinstance(argument_values.read("1"), int)
    assert isinstance(argument_values.read("1.0"), float)
    assert math.isnan(argument_values.read("-nan"))


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("((T([2, 3], f16)), {})", 1, "expected ((arguments), {'name': value})"),
        ("((1 2), {})", 3, "invalid syntax"),
        ("((T([2, -3], f16),), {})", 3, "T: a shape [2, -3], expected a list of numbers from 0 up"),
        ("((T([2], f17),), {})", 10, "unknown name 'f17'"),
        ("((T([2], 16),), {})", 3, "T: a dtype 16, expected one of f64, f32"),
        ("((T([2], f16, [1, 1]),), {})", 3, "T: a stride of 2 numbers for a shape of 1"),
        ("((T([2]),), {})", 3, "T: missing 1 required positional argument: 'dtype'"),
        ("((__import__('os'),), {})", 3, "unknown call '__import__', expected T, ST"),
        ("((torch.load('x'),), {})", 3, "unknown call 'torch.load'"),
        ("((lambda: 1,), {})", 3, "unexpected 'lambda: 1'"),
        ("((*[1],), {})", 3, "unexpected '*[1]'"),
        ("((1j, b'x'), {})", 3, "unexpected '1j'"),
        ("((1 + 1,), {})", 3, "unexpected '1 + 1'"),
        ("((1,), {**{}})", 1, "unexpected '**'"),
        ("((- True,), {})", 5, "expected a number, found 'True'"),
        ("((1,), {[]: 2})", 9, "expected a name as key"),
        ("", 1, "invalid syntax"),
        ("(" * 300, 201, "too many nested parentheses"),
        ("((" + "9" * 5000 + ",), {})", 1, "Exceeds the limit"),
    ],
)
def test_a_malformed_line_is_reported_with_its_column(text, column, problem):
    with pytest.raises(ArgumentsError) as raised:
        argument_values.read_arguments(text)
    assert str(raised.value).startswith(f"column {column}: {problem}")


@given(st.text(alphabet="T([{}]), f16'\"-.:=1einstrd\\\n", max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        shown = argument_values.show(argument_values.read_arguments(text))
    except ArgumentsError:
        return
    assert argument_values.show(argument_values.read_arguments(shown)) == shown


def test_values_that_the_format_lacks_are_not_printed():
    with pytest.raises(TypeError, match="the format has no complex: 1j"):
        argument_values.show([1j])


def test_floating_dtypes_are_replaced_wherever_they_stand():
    line = "((T([2, 3], f16, stride=(1, 2)), T([2], i64), [T([1], bf16)], f16, i32), {'dtype': torch.float16, 'layout': torch.strided})"  # fmt: skip
    changed = argument_values.with_float_dtype(argument_values.read_arguments(line), "f32")
    assert argument_values.show(changed) == (
        "((T([2, 3], f32, stride=(1, 2)), T([2], i64), [T([1], f32)], f32, i32),"
        " {'dtype': f32, 'layout': torch.strided})"
    )
