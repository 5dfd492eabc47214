"""Reads and checks ONNX files, by the package onnx."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from scripts.core.tensors import DTYPES, TensorType
from scripts.frontends.sources.source import (
    BRACES,
    MOST_ELEMENTS,
    Facts,
    Options,
    given_dims,
    has_braces,
    listed,
    option_file,
    require,
)
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError, first_line

OPTIONS = ("dims", "inputs", "seed")
"""Options of an entry. `dims`: sizes of dynamic dimensions, by their names or as `<input>.<index>`. `inputs`: an .npz file with an
array for each input, by name."""
TEST_DATA = "test_data_set_0"
"""The folder beside a file in which onnx's own tests and its model zoo have inputs, as input_0.pb, input_1.pb, …"""

# onnx's name of an element type: torch's.
TYPES = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "INT64": "int64", "INT32": "int32",
    "INT16": "int16", "INT8": "int8", "UINT64": "uint64", "UINT32": "uint32", "UINT16": "uint16", "UINT8": "uint8", "BOOL": "bool",
}  # fmt: skip


def check(path: Path, options: Options) -> None:
    """Raise BrokenModelFile for a file that is not valid ONNX, or whose external data is not there; ModelFileError for a wrong
    option."""
    require(path, options, OPTIONS, "an ONNX file", files=("inputs",))
    model = read(path)
    check_external(path, model)
    try:
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise BrokenModelFile(f"{path}: not valid ONNX: {first_line(error)}") from error
    input_types(path, model, options)


@functools.lru_cache(maxsize=4)
def _read(path: Path, *_: int) -> onnx.ModelProto:
    return onnx.load(str(path), load_external_data=False)


def read(path: Path) -> onnx.ModelProto:
    """The model of a file, without external data. Raises BrokenModelFile if it is none."""
    try:
        stat = path.stat()
        model = _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise BrokenModelFile(f"{path}: cannot be read ({error.strerror}); expected an ONNX file") from error  # fmt: skip
    except Exception as error:  # of protobuf, whose class depends on its implementation
        size = path.stat().st_size
        raise BrokenModelFile(f"{path}: no ONNX file, or cut ({size} bytes; {type(error).__name__}: {error})") from error  # fmt: skip
    if not model.graph.node:
        raise BrokenModelFile(f"{path}: {path.stat().st_size} bytes, no ONNX graph with operators in it")  # fmt: skip
    return model


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the graphs inside it, such as the branches of If."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.initializer or inner.output:
                    yield from graphs(inner)


def is_literal(node: onnx.NodeProto) -> bool:
    """Whether a node is a constant tensor."""
    return node.op_type == "Constant" and node.attribute[0].HasField("t")


def external_files(path: Path, model: onnx.ModelProto) -> list[Path]:
    """The files that hold external data. Raises BrokenModelFile for one outside of the folder of the file."""
    names: dict[str, None] = {}
    for tensor in tensors_of(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            names[dict(_entries(tensor)).get("location", "")] = None
    folder = path.parent.resolve()
    files = []
    for name in names:
        try:
            file = (folder / name).resolve(strict=True)
        # A name may have a NUL, or be bytes that are no UTF-8.
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise BrokenModelFile(f"{path}: its external data {name!r} is not there ({error})") from error  # fmt: skip
        if not file.is_relative_to(folder) or not file.is_file():
            raise BrokenModelFile(f"{path}: its external data {name!r} is no file in {folder}")
        if has_braces(name):
            raise BrokenModelFile(f"{path}: its external data {name!r} {BRACES}")
        files.append(file)
    return files


def check_external(path: Path, model: onnx.ModelProto) -> None:
    """Raise BrokenModelFile if external data is missing, outside of the folder, or shorter than its tensors."""
    external_files(path, model)
    for tensor in tensors_of(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = dict(_entries(tensor))
        file = path.parent / entries["location"]
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length") or max(file.stat().st_size - offset, 0))
        except ValueError as error:
            raise BrokenModelFile(f"{path}: external data of {tensor.name}: {error}") from error
        bits = math.prod(tensor.dims) * _bits(path, tensor)
        if min(offset, length, *tensor.dims, 0) < 0 or offset + length > file.stat().st_size or bits > 8 * length:  # fmt: skip
            raise BrokenModelFile(
                f"{path}: weight {tensor.name} of shape {[*tensor.dims]} needs {bits // 8} bytes at {offset} of {file.name}, "
                f"which has {file.stat().st_size}"
            )


def _bits(path: Path, tensor: onnx.TensorProto) -> int:
    """Bits of an element, at least; 0 for types whose elements have no fixed size (strings). Raises BrokenModelFile for no type."""
    name = type_name(tensor.data_type)
    if name == "STRING":
        return 0
    try:
        return {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4}.get(name) or 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize  # fmt: skip
    except KeyError as error:  # UNDEFINED, and numbers that onnx does not have
        raise BrokenModelFile(f"{path}: weight {tensor.name} has elements of type {name}, which is none of onnx {onnx.__version__}") from error  # fmt: skip


def type_name(data_type: int) -> str:
    """onnx's name of an element type; the number itself if onnx has no such type: files may have any."""
    known = onnx.TensorProto.DataType
    return known.Name(data_type) if data_type in known.values() else str(data_type)


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a model: initializers, and attributes of its operators."""
    for graph in graphs(model.graph):
        yield from graph.initializer
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _entries(tensor: onnx.TensorProto) -> Iterator[tuple[str, str]]:
    yield from ((entry.key, entry.value) for entry in tensor.external_data)


def opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators; the newest if the model does not use them."""
    versions = (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return next(versions, onnx.defs.onnx_opset_version())


def inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs of a model: older files list weights among them too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def input_types(path: Path, model: onnx.ModelProto, options: Options) -> list[TensorType]:
    """The types of a model's inputs, with the sizes of dynamic dimensions.

    Raises BrokenModelFile for an input that no program here can take, and ModelFileError for a name in `dims` that the file
    does not have.
    """
    sizes = given_dims(path, options)
    types: list[TensorType] = []
    known: dict[str, int] = {}
    for value in inputs(model):
        if value.type.WhichOneof("value") != "tensor_type":
            kind = value.type.WhichOneof("value") or "nothing"
            raise BrokenModelFile(f"{path}: input {value.name} is a {kind.removesuffix('_type')}, expected a tensor")  # fmt: skip
        tensor = value.type.tensor_type
        named = type_name(tensor.elem_type)
        if named not in TYPES:
            raise BrokenModelFile(f"{path}: input {value.name} has elements of type {named}, expected one of {', '.join(TYPES)}")  # fmt: skip
        if not tensor.HasField("shape"):
            raise BrokenModelFile(f"{path}: input {value.name} has no number of dimensions; give the file its shape")  # fmt: skip
        shape = []
        for index, dim in enumerate(tensor.shape.dim):
            size = dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None
            if size is None:
                names = [name for name in (dim.dim_param, f"{value.name}.{index}") if name]
                size = next((sizes[name] for name in names if name in sizes), 1)
                known |= dict.fromkeys(names, size)
            shape.append(size)
        if math.prod(shape) > MOST_ELEMENTS:
            raise BrokenModelFile(f"{path}: input {value.name} of shape {shape} has more than {MOST_ELEMENTS} elements")  # fmt: skip
        types.append(TensorType(value.name, tuple(shape), TYPES[named]))
    for name in sizes:
        if name not in known:
            raise ModelFileError(
                f"{path}: dims: it has no dynamic dimension {name!r}; {listed(known)}"
            )
    return types


def dynamic_dims(model: onnx.ModelProto) -> dict[str, str]:
    """The names of the dynamic dimensions of a model's inputs, each with the place where it is last."""
    places: dict[str, str] = {}
    for value in inputs(model):
        for index, dim in enumerate(value.type.tensor_type.shape.dim):
            if not (dim.HasField("dim_value") and dim.dim_value > 0):
                place = f"{value.name}.{index}"
                places[dim.dim_param or place] = place
    return places


def dims_not_given(model: onnx.ModelProto, options: Options) -> list[str]:
    """The names of the dynamic dimensions that the entry gives no size."""
    sizes = options.get("dims") or {}
    return [name for name, place in dynamic_dims(model).items() if not {name, place} & sizes.keys()]


def sizes_of_dynamic_dims(path: Path, options: Options) -> str:
    """The sizes of the dynamic dimensions, for rows: `batch = 8, seq = 1 (not given)`; "" if there are none."""
    sizes, said = options.get("dims") or {}, []
    for name, place in dynamic_dims(read(path)).items():
        size = sizes.get(name, sizes.get(place))
        said.append(f"{name} = {size}" if size else f"{name} = 1 (not given)")
    return ", ".join(said)


def facts(path: Path, options: Options) -> Facts:
    """The size of the first input's first dimension, and the dtype of most weights."""
    model = read(path)
    types = input_types(path, model, options)
    counts: dict[str, int] = {}
    for tensor in model.graph.initializer:
        kind = TYPES.get(type_name(tensor.data_type), "")
        if kind.startswith(("float", "bfloat")):
            counts[kind] = counts.get(kind, 0) + math.prod(tensor.dims)
    dtype = DTYPES[max(counts, key=lambda kind: counts[kind], default="float32")][0]
    first = next((kind.shape[0] for kind in types if kind.shape), 1)
    return Facts(first, dtype if dtype in ("f16", "bf16") else "f32")


def parts(path: Path, options: Options) -> list[Path]:
    given = option_file(options, "inputs")
    return [*external_files(path, read(path)), *([given] if given else test_inputs(path))]


def test_inputs(path: Path) -> list[Path]:
    """The inputs that onnx's test data beside a file has, in their order."""
    numbered = (path.parent / TEST_DATA / f"input_{number}.pb" for number in itertools.count())
    return [*itertools.takewhile(Path.is_file, numbered)]


@functools.cache
def digest(path: Path) -> str:
    digest: Any = hashlib.sha256(path.read_bytes())
    for file in external_files(path, read(path)):
        with file.open("rb") as data:
            digest.update(hashlib.file_digest(data, "sha256").digest())
    return digest.hexdigest()[:12]


USUAL = (2, 4, 8, 16, 32, 64, 128, 256, 512, 224, 3, 5, 7)
LARGEST = 4096
MOST_TRIES = 100
ALONE = 6
"""Dynamic dimensions of which each is tried alone."""
Runs = Callable[[dict[str, int]], bool]
"""Whether a graph runs with these sizes, by the names of the dimensions."""


def candidates(path: Path, model: onnx.ModelProto) -> list[int]:
    """Sizes to try, the likeliest first."""
    sizes = (*_of_metadata(model), *_of_test_data(path), *_of_shapes(model), *USUAL, *_of_weights(model))  # fmt: skip
    return [size for size in dict.fromkeys(sizes) if 1 < size <= LARGEST]


def proposed(names: Sequence[str], sizes: Sequence[int], runs: Runs) -> dict[str, int]:
    """Sizes other than 1 with which a graph runs: of one dimension, else of all, less those that may be 1; {} if none of
    MOST_TRIES was right."""
    tries = (
        dict.fromkeys(chosen, size)
        for size in sizes
        for chosen in (*((name,) for name in names[:ALONE]), *([tuple(names)] if len(names) > 1 else []))
    )  # fmt: skip
    right = next(filter(runs, itertools.islice(tries, MOST_TRIES)), {})
    for name in list(right) if len(right) <= ALONE else ():
        fewer = {other: size for other, size in right.items() if other != name}
        if fewer and runs(fewer):
            right = fewer
    return right


def _of_metadata(model: onnx.ModelProto) -> Iterator[int]:
    for entry in model.metadata_props:
        yield from map(int, re.findall(r"(?<![\d.])\d{1,4}(?![\d.])", entry.value))


def _of_test_data(path: Path) -> Iterator[int]:
    for file in test_inputs(path):
        yield from onnx.load_tensor(str(file)).dims


def _of_shapes(model: onnx.ModelProto) -> Iterator[int]:
    """The values of small integer constants, such as the shapes of Reshape, and the sizes of kernels."""
    for tensor in tensors_of(model):
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1 and tensor.dims[0] <= 8:  # fmt: skip
            yield from onnx.numpy_helper.to_array(tensor).tolist()
    for graph in graphs(model.graph):
        for node in graph.node:
            yield from (size for entry in node.attribute if entry.name == "kernel_shape" for size in entry.ints)  # fmt: skip


def _of_weights(model: onnx.ModelProto) -> Iterator[int]:
    for tensor in tensors_of(model):
        yield from tensor.dims
