"""Tensors in files: the key of a weight is its name, except for characters that programs cannot contain; results keep their types."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core import tensors


@pytest.mark.parametrize("name", ["layer1.0.conv.weight", "it's", "x y", "größe", "a/b:c@d"])
def test_the_key_of_a_usual_name_is_the_name(name):
    assert tensors.archive_key(name) == name


@pytest.mark.parametrize(
    ("name", "key"),
    [('it"s', "it%22s"), ("a\\b", "a%5Cb"), ("50%", "50%25"), ("two\nlines", "two%0Alines")],
)
def test_what_a_program_cannot_quote_is_encoded(name, key):
    assert tensors.archive_key(name) == key


@given(st.text(min_size=1))
def test_every_name_has_a_key_of_its_own_that_needs_no_escape(name):
    key = tensors.archive_key(name)
    assert tensors.weight_name(key) == name
    assert not re.search(r'["\\\x00-\x1f]', key)


def test_results_keep_their_order_types_and_shapes(tmp_path):
    shapes = [(2, 3), (), (0, 4)]
    results = [
        np.ones(shape, tensors.native(dtype)) for dtype in tensors.DTYPES for shape in shapes
    ]
    tensors.save_results(tmp_path / "results.npz", results)
    loaded = tensors.load_results(tmp_path / "results.npz")
    assert [(a.dtype, a.shape) for a in loaded] == [(a.dtype, a.shape) for a in results]
    assert all(np.array_equal(a, b) for a, b in zip(loaded, results, strict=True))
