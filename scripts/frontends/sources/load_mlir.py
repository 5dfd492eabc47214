"""Loads a program of MLIR as a model whose calls are XLA's on the CPU, or IREE's without optimization (O0) if XLA does not take it."""

from __future__ import annotations

import faulthandler
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from iree import runtime as rt
from iree.compiler import ir

from scripts.core import exits, process, tensors
from scripts.core.tensors import DTYPES, OPEN, TensorType
from scripts.frontends.sources import registry
from scripts.frontends.sources.source import (
    MOST_ELEMENTS,
    TRUST,
    given_arrays,
    given_dims,
    option_file,
    require_types,
)
from scripts.frontends.torch_model import convert, footprint
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.errors import Fault, ModelError, first_line
from scripts.frontends.torch_model.loading import LoadedModel, OpaqueModule
from scripts.frontends.xla_client import Client, UnlinkError, call, unlink, within
from scripts.iree.backends import compile_flags
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool

# What a program may consist of: operations that compute with tensors, and values of attributes that describe these. Other dialects run
# code of the file: llvm.inline_asm has machine instructions, hal.executable may have object code or name a file that has some,
# transform.sequence rewrites the compiler's other programs, a function without a body or a custom call names a function of the process
# that runs the program. So all is refused but what is listed here, in nested regions too. From IREE 3.13.
_DIALECTS = (
    r"affine|arith|builtin|cf|chlo|complex|func|index|linalg|math|ml_program|scf|sdy|shape|stablehlo|tensor"
    r"|tm_tensor|torch|torch_c|tosa|ub"
)
_OPERATIONS = re.compile(
    rf"(?!tosa\.custom$)(?:{_DIALECTS})\..+|util\.(?:global(?:\.load|\.store)?|optimization_barrier)", re.DOTALL
)  # fmt: skip
"""Those of `util` are of parameters, and what IREE makes of optimization barriers."""
_TARGETS = re.compile(
    r"(?:chlo|mhlo|stablehlo)\.\w+|Sharding|SPMDFullToShardShape|SPMDShardToFullShape|shape_assertion",
    re.ASCII,
)
"""Targets of custom calls that IREE or XLA replaces by operations. Others are functions of the process."""

_PARAMETER_START = re.compile(r"#(?:flow|stream)\.parameter\.named<")
_ATTRIBUTE_NAMES = re.compile(
    r"[^.]+|(?:chlo|jax|mhlo|ml_program|sdy|stablehlo|tf|torch)\..+|iree\.(?:abi\..+|identifier|reflection)"
)
"""Names with a dot are notes of a dialect to an operation of another. Those of others choose devices and kernels."""
_OF_EACH = ("arg_attrs", "res_attrs")
_LIBRARY = "library_call"
"""The attribute of linalg that names a function to call in the place of an operation."""
_LINE = re.compile(r'^loc\("-":(\d+):')
_OTHER_DIALECT = re.compile(rf"[#!](?!(?:{_DIALECTS}|mhlo)[.<])(\w+)[.<]")
"""Of an attribute: one of a dialect that is not allowed."""


def refused(module: ir.Module) -> str:
    """The first part of a program that is not allowed, and where it is; "" if there is none."""
    for operation in within(ir, module.operation):
        if problem := _problem(operation):
            return f"{problem}{_place(operation)}"
    return ""


def _problem(operation: ir.Operation) -> str:
    name = operation.name
    if not _OPERATIONS.fullmatch(name):
        return f"{name} is none of the operations that a program may have"
    attributes = operation.attributes
    if name == "func.func" and not len(operation.regions[0].blocks):
        return f"@{attributes['sym_name'].value} is a function without a body"
    if name == "stablehlo.custom_call":
        target = attributes["call_target_name"].value
        if not _TARGETS.fullmatch(target):
            return f"stablehlo.custom_call to {target!r}, which is none of the functions that a program may call"
    for key, attribute in _attributes(operation):
        if key == _LIBRARY or not _ATTRIBUTE_NAMES.fullmatch(key):
            return f"{name} has the attribute {key}, which is none that a program may have"
        for value in _attribute_values(attribute):
            dialect = _OTHER_DIALECT.match(text := str(value))
            if dialect and not _PARAMETER_START.match(text):
                return f"{name} has the attribute {key} of the dialect {dialect[1]}, of which a program may have none"
    return ""


def _attributes(operation: ir.Operation) -> Iterator[tuple[str, ir.Attribute]]:
    """The attributes of an operation, and those of the arguments and results of a function."""
    for key, attribute in operation.attributes.items():
        yield key, attribute
        if key in _OF_EACH and isinstance(attribute, ir.ArrayAttr):
            yield from ((named.name, named.attr) for notes in attribute for named in notes)


def _attribute_values(attribute: ir.Attribute) -> Iterator[ir.Attribute]:
    """The attribute, or those inside if it is a list or a dictionary, without arrays of numbers, whose text is long."""
    todo = [attribute]
    while todo:
        value = todo.pop()
        if isinstance(value, ir.ArrayAttr):
            todo += list(value)
        elif isinstance(value, ir.DictAttr):
            todo += [named.attr for named in value]
        elif not isinstance(value, (ir.DenseElementsAttr, ir.DenseResourceElementsAttr)):
            yield value


def _place(operation: ir.Operation) -> str:
    """The function that has the operation, and its line in a file of text, in brackets."""
    outer = operation
    while outer is not None and outer.name != "func.func":
        outer = outer.parent
    places = [f"@{outer.attributes['sym_name'].value}"] if outer is not None else []
    if line := _LINE.search(str(operation.location)):
        places.append(f"line {line[1]}")
    return f" ({', '.join(places)})" if places else ""


LEAST_BYTES = 1024
"""Of a literal that becomes a parameter."""
Call = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""A call of a compiled program, with its inputs in their order."""

_TORCH = {mlir: name for name, (mlir, _) in reversed(DTYPES.items())} | {"ui64": "uint64", "ui32": "uint32", "ui16": "uint16", "ui8": "uint8", "si64": "int64", "si32": "int32", "si16": "int16", "si8": "int8"}  # fmt: skip
_TENSOR = re.compile(
    r"(?:tensor<(?P<shape>(?:[\d?]+x)*)|!torch\.v?tensor<\[(?P<list>[\d,?]*)\],)(?P<element>\w+)>"
)
_PARAMETER = re.compile(
    r'#(?:flow|stream)\.parameter\.named<(?:"(?P<scope>[^"]*)"::)?"(?P<key>[^"]*)">'
)
_SDY = "sdy."
"""The dialect of shardings, with which jax.export writes programs for a mesh of devices."""
_LITERALS = ("stablehlo.constant", "arith.constant", "torch.vtensor.literal")


@dataclass(frozen=True)
class Program:
    """A parsed program with one function to call. `text` names its parameters by the scope and keys of archives.

    `inputs`: their types, with OPEN for a dimension without a size. `parameters`: their types; the name is the key.
    `literals`: those that were literals, by key.
    """

    text: str
    function: str
    inputs: tuple[TensorType, ...]
    parameters: tuple[TensorType, ...]
    literals: dict[str, np.ndarray]

    @property
    def dynamic_dims(self) -> list[tuple[int, int]]:
        """(input, axis) of each dimension of the inputs that has no size."""
        return [(n, axis) for n, kind in enumerate(self.inputs) for axis, size in enumerate(kind.shape) if size == OPEN]  # fmt: skip


class MlirModule(OpaqueModule):
    """A program and its weights. A call returns the given results; without these, it compiles the program once, by XLA or
    else by IREE at O0, and runs it on the CPU."""

    def __init__(
        self,
        program: Program,
        weights: dict[str, torch.Tensor],
        results: list[torch.Tensor] | None,
        golden_from: str,
    ) -> None:
        super().__init__(weights, golden_from)
        self.program, self._results = program, results
        self._call: Call | None = None

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The results, of the inputs in their order."""
        if self._results is not None:
            return [result.clone() for result in self._results]
        if self._call is None:
            self._call, self.golden_from = _compiled(self.program, self._weights)
        return [_tensor(output) for output in self._call([_array(tensor) for tensor in inputs])]


def load(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The program of a file, with the parameters of the files that its entry names; seeded values for what these lack.

    Raises ModelError for a file that IREE's compiler cannot parse, and for what no program here can take or return.
    """
    path, options = choice.model_file.expanduser(), choice.options
    program = read(path, str(options.get("function") or ""), bool(options.get("trust")))
    files = registry.parameter_files(options)
    size = sum(file.stat().st_size for file in files)
    footprint.require(footprint.Weights(size // 4, size, size, "as saved"), stage, memory_factor)
    random = np.random.default_rng(choice.seed)
    stored = _stored(files)
    weights, seeded = {}, []
    for kind in program.parameters:
        if (literal := program.literals.get(kind.name)) is not None:
            weights[kind.name] = torch.from_numpy(literal)
        elif kind.name in stored:
            weights[kind.name] = _of_bytes(path, kind, stored[kind.name])
        else:
            seeded.append(kind.name)
            weights[kind.name] = _of_type(_values(random, kind) * np.asarray(0.05, _numpy(kind)), kind)  # fmt: skip
    file = option_file(options, "inputs")
    given = given_arrays(file) if file else {}
    stored_inputs = list(given.values()) if file else None
    kinds, defaults = _with_sizes(path, program, given_dims(path, options), stored_inputs)
    arrays = [_values(random, kind) for kind in kinds] if stored_inputs is None else stored_inputs
    if file:
        require_types(file, given, kinds)
    about = [f"inputs of {options['inputs']}" if file else "seeded inputs"]
    if defaults:
        about.append(f"dimensions without a size in `dims` are 1: {', '.join(defaults)}")
    if seeded:
        about.append(f"{len(seeded)} of {len(weights)} parameters are in no file and have seeded values")  # fmt: skip
    results = None
    if golden := option_file(options, "golden"):
        results = [torch.from_numpy(array) for array in given_arrays(golden).values()]
    module = MlirModule(program, weights, results, str(options.get("golden") or ""))
    inputs = tuple(_of_type(array, kind) for array, kind in zip(arrays, kinds, strict=True))
    return LoadedModel(choice.name, module.eval(), inputs, {}, None, about="; ".join(about))  # fmt: skip


def read(path: Path, function: str = "", trust: bool = False) -> Program:
    """Parse a file. Raises ModelError with the first diagnostic, for a program without a function that can be called, and,
    without `trust`, for one that may run code of the file."""
    with ir.Context(), ir.Location.unknown():
        try:
            module = _parsed(path, path.read_bytes())
        except ModelError:
            raise
        except Exception as error:  # MLIRError is no subclass of a public class
            lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
            raise ModelError(f"{path}: IREE's compiler cannot parse it: {lines[0].strip()}", Fault.FILE) from error  # fmt: skip
        if not trust and (problem := refused(module)):
            raise ModelError(f"{path}: {problem}; {TRUST}", Fault.FILE)
        entry, kinds = _entry(path, module, function)
        literals = _externalised(module)
        parameters = _named_parameters(path, module)
        return Program(f"{module}", entry, kinds, parameters, literals)


def _parsed(path: Path, data: bytes) -> ir.Module:
    """A module of text or bytecode, also a portable artifact, whose dialect (VHLO) IREE parses and has no way out of, and one with
    shardings (the dialect sdy), which IREE does not parse."""
    try:
        module = ir.Module.parse(data)
    except Exception:
        if _SDY.encode() not in data:
            raise
        return ir.Module.parse(_for_one_device(path, data))
    if not any(operation.operation.name.startswith("vhlo.") for operation in module.body.operations):  # fmt: skip
        return module
    return ir.Module.parse(_for_one_device(path, data))


def _for_one_device(path: Path, data: bytes) -> str:
    """A program that jax.export has written, as text of StableHLO without the shardings of the dialect sdy: on one device they have no
    effect. Raises ModelError for operations that divide the program among devices."""
    from jax.interpreters import mlir
    from jaxlib.mlir import ir as jaxlib_ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context() as context:
        if b"StableHLO_v" in data[:100]:  # who has written the bytecode
            module = stablehlo.deserialize_portable_artifact(context, data)
        else:
            module = jaxlib_ir.Module.parse(data)
        for operation in within(jaxlib_ir, module.operation):
            _strip_sharding(path, operation, jaxlib_ir)
        return str(module)


def _strip_sharding(path: Path, operation: Any, jaxlib_ir: Any) -> None:
    """Remove an operation of sdy that has no effect on one device, or the shardings of another one, in place."""
    attributes, name = operation.attributes, str(operation.name)
    if name in ("sdy.mesh", "sdy.sharding_group"):
        operation.erase()
        return
    if name in ("sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier"):
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()
        return
    if name.startswith("sdy."):
        raise ModelError(f"{path}: {name} divides the program among the devices of a mesh; export it for one device, without shard_map", Fault.FILE)  # fmt: skip
    for key in [key for key in _keys(attributes) if key.startswith(_SDY) or key == "mhlo.num_partitions"]:  # fmt: skip
        del attributes[key]
    for key in ("arg_attrs", "res_attrs"):
        if key in attributes:
            without_shardings = [
                {k: entry[k] for k in _keys(entry) if not k.startswith(_SDY)}
                for entry in map(jaxlib_ir.DictAttr, attributes[key])
            ]
            attributes[key] = jaxlib_ir.ArrayAttr.get(
                list(map(jaxlib_ir.DictAttr.get, without_shardings))
            )


def _keys(attributes: Any) -> list[str]:
    return [getattr(attribute, "name", attribute) for attribute in attributes]


def _entry(path: Path, module: ir.Module, wanted: str) -> tuple[str, tuple[TensorType, ...]]:
    """The function to call, and the types of its inputs."""
    functions = {}
    for operation in module.body.operations:
        attributes = operation.operation.attributes
        if operation.operation.name != "func.func":
            continue
        hidden = "sym_visibility" in attributes and attributes["sym_visibility"].value == "private"
        if not hidden and len(operation.operation.regions[0].blocks):
            functions[attributes["sym_name"].value] = operation.operation
    names = [wanted] if wanted else ["main"] if "main" in functions else list(functions)
    if len(names) != 1 or names[0] not in functions:
        raise ModelError(f"{path}: found the functions {', '.join(functions) or 'none'}; set `function` to the one to call", Fault.FILE)  # fmt: skip
    kind = ir.FunctionType(ir.TypeAttr(functions[names[0]].attributes["function_type"]).value)
    inputs = tuple(_type(path, f"argument {n}", t, True) for n, t in enumerate(kind.inputs))
    for number, result in enumerate(kind.results):
        _type(path, f"result {number}", result, True)
    return names[0], inputs


def _with_sizes(
    path: Path, program: Program, dims: dict[str, int], arrays: list[np.ndarray] | None
) -> tuple[tuple[TensorType, ...], list[str]]:
    """The types of the inputs of a call, and the names of the dynamic dimensions that got the size 1. A size is that of `dims`, else
    that of the given array. Raises ModelError for a size of a dimension that is not open."""
    shapes = [list(kind.shape) for kind in program.inputs]
    dynamic_dims = program.dynamic_dims
    for name, size in dims.items():
        for number, axis in registry.places_of_dim(path, name):
            if (number, axis) not in dynamic_dims:
                known = ", ".join(f"arg{n}.{a}" for n, a in dynamic_dims) or "none"
                raise ModelError(f"{path}: dims: arg{number}.{axis} is no dynamic dimension of @{program.function}; it has {known}", Fault.INPUTS)  # fmt: skip
            shapes[number][axis] = size
    defaults = []
    for number, axis in dynamic_dims:
        if shapes[number][axis] != OPEN:
            continue
        array = arrays[number] if arrays is not None and number < len(arrays) else None
        if array is not None and array.ndim == len(shapes[number]):
            shapes[number][axis] = array.shape[axis]
        else:
            shapes[number][axis] = 1
            defaults.append(f"arg{number}.{axis}")
    for number, shape in enumerate(shapes):
        if math.prod(shape) > MOST_ELEMENTS:
            raise ModelError(f"{path}: arg{number} of shape {shape} has more than {MOST_ELEMENTS} elements", Fault.FILE)  # fmt: skip
    sized = (replace(kind, shape=tuple(shape)) for kind, shape in zip(program.inputs, shapes, strict=True))  # fmt: skip
    return tuple(sized), defaults


def _type(path: Path, name: str, kind: Any, may_be_open: bool = False) -> TensorType:
    if isinstance(kind, ir.UnrankedTensorType):
        raise ModelError(f"{path}: {name} has no rank ({kind}); give it a shape, such as tensor<?x?x{kind.element_type}>", Fault.FILE)  # fmt: skip
    match = _TENSOR.fullmatch(str(kind))
    element = _TORCH.get(match["element"]) if match else None
    if match is None or element is None:
        raise ModelError(f"{path}: {name} has type {kind}, expected a tensor of {', '.join(_TORCH)}", Fault.FILE)  # fmt: skip
    text = match["list"].split(",") if match["list"] is not None else match["shape"].split("x")
    sizes = [size for size in text if size]
    if "?" in sizes and not may_be_open:
        raise ModelError(f"{path}: {name} has type {kind}, with a dimension of no size; give it one", Fault.FILE)  # fmt: skip
    return TensorType(name, tuple(OPEN if size == "?" else int(size) for size in sizes), element)


def _externalised(module: ir.Module) -> dict[str, np.ndarray]:
    """Make large literals parameters, in place; return their values by key."""
    values: dict[str, np.ndarray] = {}
    top = ir.InsertionPoint.at_block_begin(module.body)
    for operation in within(ir, module.operation):
        if operation.name not in _LITERALS:
            continue
        value = operation.attributes["value"]
        if not isinstance(value, ir.DenseElementsAttr) or value.is_splat:
            continue
        try:
            array = np.array(value)
        except (ValueError, TypeError, RuntimeError):
            continue  # of elements that numpy does not have
        if array.nbytes < LEAST_BYTES or array.dtype.kind not in "fiub":
            continue
        key = f"literal.{len(values)}"
        builtin = value.type
        ir.Operation.create(
            "util.global",
            attributes={
                "sym_name": ir.StringAttr.get(key),
                "sym_visibility": ir.StringAttr.get("private"),
                "type": ir.TypeAttr.get(builtin),
                "initial_value": ir.Attribute.parse(f'#flow.parameter.named<"{tensors.PARAMETER_SCOPE}"::"{key}"> : {builtin}'),
            },
            ip=top,
        )  # fmt: skip
        with ir.InsertionPoint(operation):
            result = ir.Operation.create(
                "util.global.load",
                results=[builtin],
                attributes={"global": ir.FlatSymbolRefAttr.get(key)},
            ).result
            if result.type != operation.results[0].type:
                result = ir.Operation.create(
                    "torch_c.from_builtin_tensor",
                    results=[operation.results[0].type],
                    operands=[result],
                ).result
        operation.results[0].replace_all_uses_with(result)
        operation.erase()
        values[key] = array
    return values


def _named_parameters(path: Path, module: ir.Module) -> tuple[TensorType, ...]:
    """The parameters of a program, whose scopes become that of archives, in place."""
    parameters: dict[str, TensorType] = {}
    scopes: dict[str, str] = {}
    for operation in module.body.operations:
        attributes = operation.operation.attributes
        if operation.operation.name != "util.global" or "initial_value" not in attributes:
            continue
        match = _PARAMETER.search(str(attributes["initial_value"]))
        if match is None:
            continue
        key, scope = match["key"], match["scope"] or ""
        if scopes.setdefault(key, scope) != scope:
            raise ModelError(f"{path}: parameter {key!r} is in the scopes {scopes[key]!r} and {scope!r}, expected one", Fault.FILE)  # fmt: skip
        kind = ir.TypeAttr(attributes["type"]).value
        parameters[key] = _type(path, key, kind)
        attributes["initial_value"] = ir.Attribute.parse(f'#flow.parameter.named<"{tensors.PARAMETER_SCOPE}"::"{key}"> : {kind}')  # fmt: skip
    return tuple(parameters.values())


def _compiled(program: Program, weights: dict[str, torch.Tensor]) -> tuple[Call, str]:
    """The program on XLA or else on IREE at O0, and the name of what it runs on. IREE has faults that all of its levels and
    targets share; XLA does not have these. If IREE fails, this process ends as its compiler, or as a call of its module, did."""
    try:
        if program.dynamic_dims:
            raise UnlinkError("it has dynamic dimensions")
        return _on_xla(program, weights), "xla"
    except (UnlinkError, RuntimeError, ValueError) as error:
        reason = f"not xla: {first_line(error)}"
    return _on_iree(program, weights, reason), f"iree-O0 ({reason})"


def _on_xla(program: Program, weights: dict[str, torch.Tensor]) -> Call:
    unlinked = unlink(program.text, program.function)
    client = Client(threads=1)
    executable = client.compile(unlinked.text)
    placed = client.place(_array(weights[name]) for name in unlinked.weights)
    return lambda arrays: [np.asarray(result) for result in call(executable, [*client.place(arrays), *placed])]  # fmt: skip


def _on_iree(program: Program, weights: dict[str, torch.Tensor], reason: str) -> Call:
    """The program on IREE at O0. Each call is one of a forked process, because it may crash."""
    folder = tempfile.TemporaryDirectory(prefix="mlir-")

    def file(name: str) -> Path:
        return Path(folder.name, name)

    file("program.mlir").write_text(program.text, encoding="utf-8")
    command = [tool("iree-compile"), *compile_flags("llvm-cpu", None, "O0", ()), str(file("program.mlir")), "-o", str(file("module.vmfb"))]  # fmt: skip
    _say(registry.COMPILES)
    if code := process.run_tool(command).returncode:
        _end_like(code, f"{registry.COMPILES} ({reason})")
    tensors.write_archive(
        file("weights.irpa"), ((name, convert.to_bytes(w)) for name, w in weights.items())
    )

    def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        def work() -> bytes:
            faulthandler.disable()  # it would show the Python code that makes the call
            archive = file("weights.irpa") if weights else None
            module = Module(file("module.vmfb"), archive, "local-sync", program.function)
            tensors.save_results(file("results.npz"), Session(module, 1).call(arrays)[0])
            return b""

        _say(registry.CALLS)
        if code := process.forked(work)[0]:
            _end_like(code, f"{registry.CALLS} ({reason})")
        return tensors.load_results(file("results.npz"))

    return call


def _say(what: str) -> None:
    """Print what this process does next, so that the log says it if it does not end."""
    print(what, file=sys.stderr, flush=True)


def _end_like(code: int, where: str) -> NoReturn:
    """End as a tool that has printed why it failed."""
    print(f"{exits.CAUSE}{where}", file=sys.stderr, flush=True)
    process.exit_like(code)


def _stored(files: list[Path]) -> dict[str, np.ndarray]:
    """The bytes of each parameter of these files, by key."""
    index = rt.ParameterIndex()
    for file in files:
        try:
            index.load(str(file))
        except Exception as error:  # of the bindings
            raise ModelError(f"{file}: IREE cannot read its parameters: {first_line(error)}", Fault.FILE) from error  # fmt: skip
    return {key: np.frombuffer(entry.file_view, np.uint8) for key, entry in index.items()}


def _of_bytes(path: Path, kind: TensorType, data: np.ndarray) -> torch.Tensor:
    dtype = getattr(torch, kind.dtype)
    needed = int(np.prod(kind.shape)) * dtype.itemsize
    if data.nbytes != needed:
        raise ModelError(f"{path}: parameter {kind.name} has {data.nbytes} bytes in its file, expected {needed} for {kind.mlir}", Fault.FILE)  # fmt: skip
    return torch.from_numpy(data.copy()).view(dtype).reshape(kind.shape)


def _of_type(array: np.ndarray, kind: TensorType) -> torch.Tensor:
    """The array as a tensor of a type: numpy has no bfloat16."""
    return torch.from_numpy(array).to(getattr(torch, kind.dtype))


def _array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as a runtime takes it."""
    kind = convert.tensor_type("", tensor)
    return convert.to_bytes(tensor).view(tensors.native(kind.dtype)).reshape(kind.shape)


def _tensor(array: np.ndarray) -> torch.Tensor:
    """What a runtime has returned. Torch does not take bfloat16 from numpy."""
    array = np.array(array)
    if array.dtype.name != "bfloat16":
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def _numpy(kind: TensorType) -> np.dtype:
    return np.dtype(DTYPES[kind.dtype][1])


def _values(random: np.random.Generator, kind: TensorType) -> np.ndarray:
    """Seeded values of a type: standard normal, booleans, unsigned and 8-bit integers over their full range, and 0 and 1 for wider
    signed ones, which may be indices."""
    dtype = _numpy(kind)
    if dtype.kind == "f":
        return np.asarray(random.standard_normal(kind.shape)).astype(dtype)
    if dtype.kind == "u" or (dtype.kind == "i" and dtype.itemsize == 1):
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, kind.shape, dtype, endpoint=True)
    return np.asarray(random.integers(0, 2, kind.shape)).astype(dtype)
