"""Loads an ONNX file as a model whose calls are ONNX Runtime's, without its optimizations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from scripts.core import tensors
from scripts.core.tensors import OPEN, TensorType
from scripts.frontends.sources import onnx_graph
from scripts.frontends.sources.source import given_arrays, given_dims, option_file, require_types
from scripts.frontends.torch_model import footprint
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.errors import Fault, ModelError, first_line
from scripts.frontends.torch_model.loading import LoadedModel, OpaqueModule

LEAST_OPSET = 17
"""torch-mlir does not know some operators of earlier ones (BatchNormalization)."""
_LEAST_OPSET_OF_ONNX_RUNTIME = 7
_LEAST_IR_VERSION = 4
"""In earlier ones, all initializers have to be inputs too: onnx's shape inference and version converter take the others for
undefined."""
LEAST_ELEMENTS = 100
"""Of an initializer that is a weight. Smaller ones are often shapes and axes, which have to be literals of the program."""


class OnnxModule(OpaqueModule):
    """An ONNX graph. Its weights are its initializers, by name; a call is one of ONNX Runtime."""

    def __init__(
        self, runnable: Path | bytes, model: onnx.ModelProto, weights: dict[str, torch.Tensor]
    ) -> None:
        """`runnable`: what ONNX Runtime opens, a file or its content. `advise`: says what to change in the entry if a call fails."""
        super().__init__(weights, golden_from="onnxruntime")
        self.runnable, self.model = runnable, model
        self.advise: Callable[[OnnxModule], str] | None = None
        self._session: onnxruntime.InferenceSession | None = None

    @property
    def session(self) -> onnxruntime.InferenceSession:
        if self._session is None:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            self._session = open_session(self.runnable, options)
        return self._session

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The results by name, of the inputs by name."""
        results = {}
        try:
            values = self.values(inputs)
        except Exception as error:  # its classes have no common base
            if self.advise is None or isinstance(error, ModelError):
                raise
            raise ModelError(f"{self.advise(self)} (ONNX Runtime: {first_line(error)})", Fault.INPUTS) from error  # fmt: skip
        for name, value in values.items():
            if not value.is_tensor():
                raise ModelError(f"output {name} is a {value.data_type()}, expected a tensor", Fault.OUTPUTS)  # fmt: skip
            array = np.array(value.numpy())
            # ONNX Runtime's uint64 is `unsigned long long`, which torch takes for another type than numpy's own.
            results[name] = torch.from_numpy(array.view(array.dtype.str))
        return results

    def values(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, onnxruntime.OrtValue]:
        """The results by name, as ONNX Runtime has them."""
        given = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(tensor.detach().contiguous().numpy())
            for name, tensor in inputs.items()
        }
        outputs = [value.name for value in self.session.get_outputs()]
        return dict(zip(outputs, self.session.run_with_ort_values(outputs, given), strict=True))


def load(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The graph of a file with its weights, and seeded inputs of the declared types or those that the entry names.

    Raises BrokenModelFile for a file that is damaged, and ModelError for a graph that ONNX Runtime does not run.
    """
    path = choice.model_file.expanduser()
    onnx_graph.check(path, {k: v for k, v in choice.options.items() if k in onnx_graph.OPTIONS})
    size = sum(file.stat().st_size for file in (path, *onnx_graph.external_files(path, onnx_graph.read(path))))  # fmt: skip
    footprint.require(footprint.Weights(size // 4, size, size, "as saved"), stage, memory_factor)
    model = with_all_initializers_outside(onnx.load(str(path)))
    types = onnx_graph.input_types(path, model, choice.options)
    module = OnnxModule(_runnable(path, types), model, dict(_weights(model)))
    if stage == "reference" and onnx_graph.dims_not_given(model, choice.options):
        module.advise = functools.partial(_advice, path, choice)
    arrays, about = _inputs(path, model, types, choice)
    inputs = {kind.name: torch.from_numpy(array) for kind, array in zip(types, arrays, strict=True)}
    said = [about]
    if sizes := onnx_graph.sizes_of_dynamic_dims(path, choice.options):
        said.append(sizes)
    if (opset := onnx_graph.opset(model)) < _LEAST_OPSET_OF_ONNX_RUNTIME:
        said.append(f"ONNX Runtime runs it in opset {LEAST_OPSET}, because it has no opset {opset}")
    return LoadedModel(choice.name, module.eval(), (), inputs, None, about="; ".join(said))


def _advice(path: Path, choice: ModelChoice, module: OnnxModule) -> str:
    """The line of the entry that gives sizes to dynamic dimensions, which were 1, so that ONNX Runtime runs the graph."""
    names = onnx_graph.dims_not_given(module.model, choice.options)
    given = given_dims(path, choice.options)
    session = module.session

    def runs(sizes: dict[str, int]) -> bool:
        try:
            options = {**choice.options, "dims": {**given, **sizes}}
            types = onnx_graph.input_types(path, module.model, options)
            arrays = _seeded(module.model, types, choice.seed)
            session.run(None, {kind.name: array for kind, array in zip(types, arrays, strict=True)})
        except Exception:  # whatever ONNX Runtime raises: with these sizes it does not run
            return False
        return True

    sizes = onnx_graph.proposed(names, onnx_graph.candidates(path, module.model), runs)
    assumed = f"the size 1 was taken for {', '.join(names)}"
    wanted: Mapping[str, object] = sizes or dict.fromkeys(names, "<size>")
    shown = {**given, **wanted}
    line = f"dims: {{{', '.join(f'{name}: {size}' for name, size in shown.items())}}}"
    if not sizes:
        return f"{assumed}, and no other that was tried runs; add the sizes to its entry: {line}"
    return f"{assumed}; ONNX Runtime runs it with this line in its entry: {line}"


def open_session(
    runnable: Path | bytes, options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime on the CPU. Raises ModelError with what it does not support."""
    options.log_severity_level = 3
    source = runnable if isinstance(runnable, bytes) else str(runnable)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no common base
        version = onnxruntime.__version__
        raise ModelError(f"ONNX Runtime {version}: {first_line(error)}", Fault.FILE) from error


def _runnable(path: Path, types: list[TensorType]) -> Path | bytes:
    """A file, or its content in a later opset if ONNX Runtime does not have that of the file."""
    if onnx_graph.opset(onnx_graph.read(path)) >= _LEAST_OPSET_OF_ONNX_RUNTIME:
        return path
    model = onnx.load(str(path))
    for value, kind in zip(onnx_graph.inputs(model), types, strict=True):
        set_type(value, kind)
    return raised_opset(model).SerializeToString()


_ELEMENT = {dtype: onnx.TensorProto.DataType.Value(name) for name, dtype in onnx_graph.TYPES.items()}  # fmt: skip


def set_type(value: onnx.ValueInfoProto, kind: TensorType) -> None:
    """Give a value of a graph this type, in place."""
    shape = [None if size == OPEN else size for size in kind.shape]
    value.type.CopyFrom(onnx.helper.make_tensor_type_proto(_ELEMENT[kind.dtype], shape))


def _weights(model: onnx.ModelProto) -> Iterator[tuple[str, torch.Tensor]]:
    for tensor in model.graph.initializer:
        if is_weight(tensor):
            yield tensor.name, torch.from_numpy(np.array(onnx.numpy_helper.to_array(tensor)))


def is_weight(tensor: onnx.TensorProto) -> bool:
    """Whether an initializer is a weight, and no literal of the program."""
    kind = onnx_graph.TYPES.get(onnx_graph.type_name(tensor.data_type))
    # numpy has no bfloat16.
    return kind not in (None, "bfloat16") and int(np.prod(tensor.dims)) >= LEAST_ELEMENTS


def with_all_initializers_outside(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the large literals of its nodes and of the graphs inside it as initializers of its outermost graph, which
    inner graphs can read. A name that is already in use keeps its literal."""
    model.ir_version = max(model.ir_version, _LEAST_IR_VERSION)
    used = {tensor.name for tensor in model.graph.initializer} | {value.name for value in model.graph.input}  # fmt: skip

    def is_moved(tensor: onnx.TensorProto, name: str) -> bool:
        if not is_weight(tensor) or name in used:
            return False
        used.add(name)
        model.graph.initializer.add().CopyFrom(tensor)
        model.graph.initializer[-1].name = name
        return True

    for graph in onnx_graph.graphs(model.graph):
        for node in [*filter(onnx_graph.is_literal, graph.node)]:
            if is_moved(node.attribute[0].t, node.output[0]):
                graph.node.remove(node)
        for tensor in [] if graph is model.graph else [*graph.initializer]:
            if is_moved(tensor, tensor.name):
                graph.initializer.remove(tensor)
    return model


def raised_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an opset that torch-mlir knows. Its inputs have sizes, without which onnx does not convert all operators.
    Raises ModelError if onnx cannot convert it."""
    opset = onnx_graph.opset(model)
    if opset >= LEAST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, LEAST_OPSET)
    except Exception as error:  # ConvertError is a RuntimeError in some versions only
        raise ModelError(f"onnx {onnx.__version__} cannot convert opset {opset} to {LEAST_OPSET}: {first_line(error)}", Fault.FILE) from error  # fmt: skip


def _inputs(
    path: Path, model: onnx.ModelProto, types: list[TensorType], choice: ModelChoice
) -> tuple[list[np.ndarray], str]:
    """The inputs of a call, and where they are from: those of the entry, else those of onnx's test data beside the file if they
    are of the types of this call and not all zero, for which results may be too, else seeded ones."""
    if file := option_file(choice.options, "inputs"):
        given = given_arrays(file)
        require_types(file, given, types, by_name=True)
        return [given[kind.name] for kind in types], f"inputs of {choice.options['inputs']}"
    files = onnx_graph.test_inputs(path)
    try:
        arrays = [onnx.numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]
    except Exception as error:  # of protobuf, whose class depends on its implementation
        raise ModelError(f"{files[0].parent}: no tensors of ONNX: {error}", Fault.INPUTS) from error
    expected = [(tensors.DTYPES[kind.dtype][1], kind.shape) for kind in types]
    fit = [(str(array.dtype), array.shape) for array in arrays] == expected
    if fit and any(array.any() for array in arrays):
        return [np.array(array) for array in arrays], f"inputs of {onnx_graph.TEST_DATA}"
    about = "seeded inputs of the declared types"
    if arrays:
        about = f"{about}, because those of {onnx_graph.TEST_DATA} {'are zero' if fit else 'have others'}"
    return _seeded(model, types, choice.seed), about


def _seeded(model: onnx.ModelProto, types: list[TensorType], seed: int) -> list[np.ndarray]:
    """Inputs: standard normal, fair booleans, and integers below the size of the table that they index; 0 or 1 if they
    index none."""
    random = np.random.default_rng(seed)
    values = []
    for kind in types:
        dtype = np.dtype(tensors.DTYPES[kind.dtype][1])
        if dtype.kind == "f":
            values.append(random.standard_normal(kind.shape).astype(dtype))
        elif dtype.kind == "b":
            values.append(random.integers(0, 2, kind.shape).astype(dtype))
        else:
            most = min(table_size(model, kind.name) or 2, np.iinfo(dtype).max)
            values.append(random.integers(0, most, kind.shape).astype(dtype))
    return [np.asarray(value) for value in values]


_KEEPS_VALUES = ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose")


def table_size(model: onnx.ModelProto, name: str) -> int | None:
    """The smallest first dimension of a weight that an input indexes by Gather; None if it indexes none."""
    shapes = {tensor.name: [*tensor.dims] for tensor in model.graph.initializer}
    same, sizes = {name}, []
    for node in model.graph.node:
        if node.op_type in _KEEPS_VALUES and node.input[0] in same:
            same |= {*node.output}
        if node.op_type == "Gather" and node.input[1] in same and node.input[0] in shapes:
            axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
            sizes.append(shapes[node.input[0]][axis])
    return min(sizes, default=None)
