"""ONNX files: what is refused before any work, and what the driver reads of them."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from scripts.core.dimensions import Sizes
from scripts.frontends.sources import onnx_graph, registry
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError

FLOAT = TensorProto.FLOAT


def model(shape=("batch", 4), initializers=None, nodes=None, **given):
    """x @ w, by default of a dynamic batch."""
    weights = initializers or [numpy_helper.from_array(np.ones((4, 3), np.float32), "w")]
    graph = helper.make_graph(
        nodes or [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "Model from a tool.",
        given.pop("inputs", [helper.make_tensor_value_info("x", FLOAT, shape)]),
        [helper.make_tensor_value_info("y", FLOAT, (shape[0], 3))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], **given)


@pytest.fixture
def saved(tmp_path):
    def save(proto, name="m.onnx", **how):
        path = tmp_path / name
        onnx.save(proto, path, **how)
        return path

    return save


def refused(path, options=None):
    with pytest.raises((BrokenModelFile, ModelFileError)) as caught:
        registry.ONNX.check(path, options or {})
    return str(caught.value)


def test_open_dimensions_are_one_or_what_the_entry_says(saved):
    path = saved(model())
    registry.ONNX.check(path, {})
    assert registry.ONNX.facts(path, {}).batch_size == 1
    assert registry.ONNX.facts(path, {"dims": {"batch": 8}}).batch_size == 8
    assert onnx_graph.sizes_of_dynamic_dims(path, {}) == "batch = 1 (not given)"
    assert onnx_graph.sizes_of_dynamic_dims(path, {"dims": {"batch": 8}}) == "batch = 8"


def test_sizes_are_of_dimensions_that_the_file_leaves_open(saved):
    source = registry.ONNX
    source.check_dynamic(saved(model()), {}, {"batch": Sizes((1, 8))})
    for options, message in (({}, r"dynamic: it has no dynamic dimension 'rows'; it has batch"), ({"inputs": "x.npz"}, "x.npz has inputs of one size")):  # fmt: skip
        with pytest.raises(ModelFileError, match=message):
            source.check_dynamic(saved(model()), options, {"rows": Sizes((1, 8))})


def test_open_dimensions_of_mlir_are_named_by_argument_and_axis(tmp_path):
    program = tmp_path / "m.mlir"
    program.write_text("func.func @main() { return }")
    registry.MLIR.check_dynamic(program, {}, {"arg0.0=arg2.1": Sizes((1, 8))})
    assert registry.places_of_dim(program, "arg0.0=arg2.1") == [(0, 0), (2, 1)]
    for name in ("batch", "arg0", "arg0.x", "arg0.0=", "0.0"):
        with pytest.raises(
            ModelFileError, match=r"m\.mlir: dims: found the name .* such as arg0\.1"
        ):
            registry.MLIR.check_dynamic(program, {}, {name: Sizes((1, 8))})
    with pytest.raises(ModelFileError, match=r"g\.npz has results of one size; leave `golden` out"):
        registry.MLIR.check_dynamic(program, {"golden": "g.npz"}, {"arg0.0": Sizes((1, 8))})


@pytest.mark.parametrize("size", [None, -1, 0])
def test_a_dimension_without_name_or_size_is_named_by_its_place(saved, size):
    path = saved(model((size, 4)))
    kinds = onnx_graph.input_types(path, onnx_graph.read(path), {"dims": {"x.0": 5}})
    assert kinds[0].shape == (5, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"bach": 8}}, "it has no dynamic dimension 'bach'; it has batch, x.0"),
        ({"dims": {"batch": 0}}, "expected the size of each dynamic dimension"),
        ({"dim": {"batch": 8}}, "takes no option 'dim' .*did you mean 'dims'"),
        ({"inputs": "nowhere.npz"}, "no file nowhere.npz"),
    ],
)
def test_a_wrong_option_is_named(saved, options, message):
    path = saved(model())
    with pytest.raises(ModelFileError, match=message):
        registry.ONNX.check(path, options)


@pytest.mark.parametrize("source", [registry.ONNX, registry.MLIR])
def test_a_file_that_is_missing_stops_the_run_and_is_no_row(tmp_path, source):
    with pytest.raises(ModelFileError, match=r"no such file; expected an? .+ there") as caught:
        source.check(tmp_path / "nowhere", {})
    assert not isinstance(caught.value, BrokenModelFile)


@pytest.mark.parametrize("content", [b"", b"no onnx", b"\x08\x08", b"PK\x03\x04" + b"x" * 100])
def test_what_is_no_onnx_file_is_said_to_be_none(tmp_path, content):
    (path := tmp_path / "m.onnx").write_bytes(content)
    assert str(path) in refused(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_file_that_was_cut_is_refused(saved, share):
    path = saved(model())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert str(path) in refused(path)


def external(saved, tmp_path, location="w.bin", size=48, **entries):
    path = saved(model())
    (tmp_path / "w.bin").write_bytes(b"\0" * size)
    proto = onnx.load(path)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": location} | entries).items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data_is_a_part_of_the_model(saved, tmp_path):
    path = external(saved, tmp_path)
    registry.ONNX.check(path, {})
    assert registry.ONNX.parts(path, {}) == [tmp_path / "w.bin"]
    before = onnx_graph.digest.__wrapped__(path)
    (tmp_path / "w.bin").write_bytes(b"\1" * 48)
    assert onnx_graph.digest.__wrapped__(path) != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"location": "../w.bin"}, "is not there|no file in"),
        ({"location": "/etc/passwd"}, "no file in"),
        ({"location": "nowhere.bin"}, "is not there"),
        ({"location": ""}, "no file in"),
        ({"location": "loop.bin"}, "is not there"),
        ({"size": 47}, "needs 48 bytes at 0 of w.bin, which has 47"),
        ({"offset": 40}, "needs 48 bytes at 40"),
        ({"offset": -8}, "needs 48 bytes at -8"),
        ({"length": 4}, "needs 48 bytes"),
        ({"length": "many"}, "external data of w"),
    ],
)
def test_external_data_that_is_not_whole_or_not_beside_it_is_refused(saved, tmp_path, change, message):  # fmt: skip
    os.symlink("loop.bin", tmp_path / "loop.bin")
    path = external(saved, tmp_path, **change)
    with pytest.raises(BrokenModelFile, match=message):
        registry.ONNX.check(path, {})


def test_an_input_that_is_no_tensor_or_far_too_large_is_refused(saved):
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, None)
    nodes = [helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)]
    path = saved(model(inputs=[sequence], nodes=nodes))
    assert "input x is a sequence, expected a tensor" in refused(path)
    text = helper.make_tensor_value_info("x", TensorProto.STRING, (1,))
    path = saved(model(inputs=[text], nodes=[helper.make_node("Cast", ["x"], ["y"], to=FLOAT)]))
    assert "input x has elements of type STRING" in refused(path)
    path = saved(model((2**30, 4)))
    assert f"has more than {2**28} elements" in refused(path)


def test_weights_decide_the_dtype(saved):
    half = numpy_helper.from_array(np.ones((4, 3), np.float16), "w")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT16, (2, 4))
    proto = model(initializers=[half], inputs=[value])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    facts = registry.ONNX.facts(saved(proto), {})
    assert (facts.dtype, facts.batch_size) == ("f16", 2)


def test_a_weight_among_the_inputs_of_an_older_file_is_no_input(saved):
    values = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", (2, 4)), ("w", (4, 3)))]
    path = saved(model(inputs=values))
    assert [value.name for value in onnx_graph.inputs(onnx_graph.read(path))] == ["x"]


def test_inputs_of_test_data_are_parts_of_the_model_unless_the_entry_names_others(saved, tmp_path):
    path = saved(model())
    (tmp_path / "test_data_set_0").mkdir()
    files = [tmp_path / "test_data_set_0" / f"input_{number}.pb" for number in (0, 1)]
    for file in files:
        onnx.save_tensor(numpy_helper.from_array(np.ones((1, 4), np.float32)), file)
    assert registry.ONNX.parts(path, {}) == files
    given = tmp_path / "given.npz"
    assert registry.ONNX.parts(path, {"inputs": str(given)}) == [given]
