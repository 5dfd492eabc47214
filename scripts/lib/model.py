"""Load a model file as the reference, export and baseline stages all do: one way.

Seeded before the weights, seeded again before the inputs, so that what a stage rebuilds is
what the reference stage stored. Imports torch.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import random
import sys
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.lib import memory, modelfile, tensors

TORCH_DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class ModelError(Exception):
    """A model file that does not do what is expected of it; says which part and what was found."""


class ModelFile:
    """A model file, imported, and the options of its entry.

    Raises ModelError, or modelfile.ModelFileError, where it cannot be imported or is none.
    """

    def __init__(self, path: str | Path, options: Mapping[str, Any]) -> None:
        self.path, self.options = path, dict(options)
        self.seed = int(self.options.get("seed", 0))
        self.dtype = TORCH_DTYPE[self.options.get("dtype", "f32")]
        self.functions = modelfile.functions(path)
        self._module = _import(path)

    def call(self, name: str, built: torch.nn.Module | None = None) -> Any:
        """What function `name` returns under the options that it takes, seeded as each is.

        `built`: what get_model() returned, in eval mode, for a function with a parameter `model`.
        Raises ModelError with the call and what it raised.
        """
        chosen = modelfile.chosen_options(self.functions[name], self.options)
        given = {modelfile.MODEL_PARAMETER: built} if self.functions[name].takes_model else {}
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed)
        try:
            return getattr(self._module, name)(**chosen, **given)
        except (Exception, SystemExit) as error:
            shown = ", ".join([*(f"{k}={v!r}" for k, v in chosen.items()), *given])
            hint = ""
            if chosen.get("pretrained") and isinstance(error, OSError):
                hint = "pretrained weights could not be fetched; give this machine a way to the hub, or set pretrained: false: "
            raise ModelError(f"{self.path}: {name}({shown}): {hint}{raised(error, self.path)}") from error  # fmt: skip

    def build(self, name: str) -> torch.nn.Module:
        """The module that function `name` returns, in eval mode and without gradients."""
        built = self.call(name)
        where = f"{self.path}: {name}() returned"
        if not isinstance(built, torch.nn.Module):
            raise ModelError(f"{where} {_described(built)}, expected a torch.nn.Module{_instead(built)}")  # fmt: skip
        if isinstance(built, torch.jit.ScriptModule) or _is_compiled(built):
            raise ModelError(
                f"{where} a compiled module ({type(built).__name__}), which torch.export does not take; "
                "return the module that it was made of"
            )
        _check_weights(where, built)
        return built.eval().requires_grad_(False)

    def to_dtype(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module with its floating-point weights in the entry's dtype, in place."""
        return module if self.dtype is torch.float32 else module.to(self.dtype)


@dataclass
class LoadedModel:
    """A model in eval mode, its call arguments, and the flat tensors among those.

    `file`: where it is from, for what else that file can tell of it.
    """

    name: str
    module: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]
    file: ModelFile

    @property
    def inputs(self) -> list[tuple[str, torch.Tensor]]:
        """(path, tensor) of every tensor input, in the order of the program's arguments."""
        return flat_tensors((self.args, self.kwargs))

    def float_model(self) -> torch.nn.Module | None:
        """What get_float_model() of the model's file returns, in eval mode and the entry's dtype;
        None where the file has no such function."""
        if "get_float_model" not in self.file.functions:
            return None
        return self.file.to_dtype(self.file.build("get_float_model"))

    def input_description(self) -> str | None:
        """What describe_inputs() of the model's file returns; None where the file has none."""
        if "describe_inputs" not in self.file.functions:
            return None
        with torch.no_grad():
            text = self.file.call("describe_inputs", self.module)
        if not isinstance(text, str):
            raise ModelError(
                f"{self.file.path}: describe_inputs() returned {type(text).__name__}, expected a str"
            )
        return text


def load(name: str, path: str | Path, options: Mapping[str, Any], stage: str = "") -> LoadedModel:
    """Build the model of file `path` and its inputs under `options`.

    Exits as `oom` before it builds weights that `stage`, one of memory.FACTORS, cannot hold.

    get_dummy_input() is given the model, where it takes it, in eval mode, without gradients and
    in the entry's dtype: inputs that the model computes (a cache) are those of that dtype. Raises
    ModelError where a function raises or returns something else than is expected.
    """
    file = ModelFile(path, options)
    if not file.options.get("pretrained"):  # its loader wants values, and fetches them
        counted = memory.count(lambda: file.call("get_model"), file.options.get("dtype", "f32"))
        memory.require(counted, stage)
    built = file.to_dtype(file.build("get_model"))
    with torch.no_grad():
        args, kwargs = _arguments(path, file.call("get_dummy_input", built))
    _check_inputs(f"{path}: get_dummy_input() returned", (args, kwargs))
    # A tensor that requires a gradient is a leaf of the user's own graph: no stage wants that.
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    if file.dtype is not torch.float32:
        args, kwargs = cast_floats((args, kwargs), file.dtype)
    return LoadedModel(name, built, args, kwargs, file)


def cast_floats(tree: Any, dtype: torch.dtype) -> Any:
    """The same tree with its floating-point tensors in `dtype`."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, tree
    )


def flat_tensors(tree: Any) -> list[tuple[str, torch.Tensor]]:
    """(path, tensor) for the tensors of a nested structure, in pytree order.

    None, numbers and strings are left out: torch.export treats them as constants. A dataclass
    that torch does not know as a structure is made known to it.
    """
    return [(path, leaf) for path, leaf in _leaves(tree) if isinstance(leaf, torch.Tensor)]


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    """(path, leaf) of a nested structure, in pytree order; registers dataclasses on the way."""
    leaves, _ = pytree.tree_flatten_with_path(tree)
    unknown = {type(leaf) for _, leaf in leaves if _is_data(leaf)}
    for kind in unknown:
        torch.export.register_dataclass(kind)
    if unknown:
        return _leaves(tree)
    return [(pytree.keystr(path), leaf) for path, leaf in leaves]


def _is_compiled(module: torch.nn.Module) -> bool:
    """Whether torch.compile made it; naming torch._dynamo would import it, which takes seconds."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and isinstance(module, dynamo.OptimizedModule)


def _is_data(leaf: Any) -> bool:
    """Whether a leaf is a dataclass's instance whose fields can stand for it."""
    return dataclasses.is_dataclass(leaf) and not isinstance(leaf, type | torch.Tensor)


def opaque(tree: Any) -> list[str]:
    """Paths and classes of the leaves that hold tensors where no stage can see them."""
    return [
        f"{path or 'its result'} of class {type(leaf).__name__}"
        for path, leaf in _leaves(tree)
        if not isinstance(leaf, torch.Tensor)
        and any(isinstance(value, torch.Tensor) for value in getattr(leaf, "__dict__", {}).values())
    ]


def named_weights(module: torch.nn.Module) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Every parameter and buffer by name, each storage once, and the aliases of tied ones.

    Buffers that are not in the state_dict (non-persistent) are weights of a program too.
    """
    first: dict[tuple, str] = {}
    weights: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    both = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in both:
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and same in first:
            aliases[name] = first[same]
        else:
            first[same] = name
            weights[name] = tensor
    return weights, aliases


def tensor_type(name: str, tensor: torch.Tensor) -> tensors.TensorType:
    """The type of a tensor; raises ModelError for a dtype that no stage can carry."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in tensors.DTYPES:
        raise ModelError(
            f"{name} has dtype {dtype}, which cannot be carried; expected one of "
            f"{', '.join(tensors.DTYPES)}"
        )
    return tensors.TensorType(name, tuple(tensor.shape), dtype)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A contiguous copy as a numpy array; bfloat16 widened to float32, exactly."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return np.array(tensor.numpy(), order="C")


def to_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's bytes in row-major order, as uint8, without a copy where it can be had."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def raised(error: BaseException, path: str | Path) -> str:
    """What was raised, and by which line of the model file, in one line."""
    resolved = str(Path(path).expanduser().resolve())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == resolved]
    where = f" ({Path(path).name}:{frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


_EXPECTED_INPUT = "a tensor, a tuple of tensors, a dict of keyword inputs, or (args, kwargs)"


def _arguments(path: str | Path, given: Any) -> tuple[tuple, dict[str, Any]]:
    """What get_dummy_input() returned, as (args, kwargs)."""
    args, kwargs = (), {}
    if isinstance(given, torch.Tensor):
        args = (given,)
    elif isinstance(given, Mapping):  # a dict, or transformers' BatchEncoding
        kwargs = dict(given)
    elif isinstance(given, tuple | list):
        args = tuple(given)
        if len(given) == 2 and isinstance(given[0], tuple | list) and isinstance(given[1], Mapping):
            args, kwargs = tuple(given[0]), dict(given[1])
    else:
        raise ModelError(
            f"{path}: get_dummy_input() returned {_described(given)}, expected {_EXPECTED_INPUT}{_instead(given)}"
        )
    for key in kwargs:
        if not isinstance(key, str):
            raise ModelError(
                f"{path}: get_dummy_input() returned keyword inputs with the key {key!r}, expected "
                "names of forward()'s parameters"
            )
    return args, kwargs


def _described(value: Any) -> str:
    """A value by its kind, for an error's text."""
    match value:
        case None:
            return "None"
        case type():
            return f"the class {value.__name__}"
        case tuple() | list():
            return f"a {type(value).__name__} of ({', '.join(type(v).__name__ for v in value)})"
        case np.ndarray():
            return f"a numpy array of {value.dtype}"
        case types.FunctionType() | types.BuiltinFunctionType():
            return f"the function {value.__name__}"
    return f"{type(value).__name__}"


def _instead(value: Any) -> str:
    """What to do about a value of the wrong kind, where that can be told."""
    match value:
        case None:
            return "; is a `return` missing?"
        case type() if issubclass(value, torch.nn.Module):
            return f"; return an instance: {value.__name__}(...)"
        case np.ndarray() | np.generic():
            return "; make a tensor of it: torch.from_numpy(...)"
        case types.FunctionType() | types.BuiltinFunctionType():
            return "; call it in the forward() of a module"
        case tuple() | list():
            return "; return the module alone"
    return ""


def _check_inputs(where: str, tree: Any) -> None:
    """Raise ModelError for inputs that no stage can carry."""
    found = 0
    for path, leaf in _leaves(tree):
        if isinstance(leaf, np.ndarray | np.generic):
            raise ModelError(
                f"{where} {_described(leaf)} as {path}, expected a tensor{_instead(leaf)}"
            )
        if isinstance(leaf, torch.Tensor):
            found += 1
            _check_tensor(f"{where} {path}, which", leaf)
    if hidden := opaque(tree):
        raise ModelError(
            f"{where} {hidden[0]}, which holds tensors that are no inputs; pass the tensors "
            "themselves, or make the class a dataclass"
        )
    if not found:
        raise ModelError(f"{where} no tensor, expected {_EXPECTED_INPUT}")


def _check_weights(where: str, module: torch.nn.Module) -> None:
    """Raise ModelError for weights that are not there, or that no archive can hold."""
    for name, weight in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(weight):
            raise ModelError(
                f"{where} a module whose {name} has no shape yet (a lazy module); call the module "
                "once on an input in get_model()"
            )
        _check_tensor(f"{where} a module whose {name}", weight)


def _check_tensor(what: str, tensor: torch.Tensor) -> None:
    """Raise ModelError for a tensor without values here, not dense, or of an unknown dtype."""
    if tensor.is_quantized:
        raise ModelError(f"{what} is a tensor of torch's old quantised type ({tensor.dtype}); expected plain tensors: .dequantize()")  # fmt: skip
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise ModelError(f"{what} is a tensor of layout {kind}; expected a dense one: .to_dense(), or a padded one")  # fmt: skip
    if tensor.device.type == "meta":
        raise ModelError(f"{what} has no values (device meta); build it on the CPU")
    if tensor.device.type != "cpu":
        raise ModelError(f"{what} is on device {tensor.device}; expected it on the CPU: .cpu() (a stage moves it)")  # fmt: skip
    tensor_type(what, tensor)


def _import(path: str | Path) -> types.ModuleType:
    path = Path(path).expanduser().resolve()
    # Helpers beside the file are found as when it is run; last, so that a file named timm.py
    # does not stand before the package.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"vmfbench_model_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    # Registered, as dataclasses and torch.export look modules up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ModelError(f"{path}: importing it raised {raised(error, path)}{_missing(error)}") from error  # fmt: skip
    return module


def _missing(error: BaseException) -> str:
    """What to do where a package is not there."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        f"; add its package to the pip section of the environments that load models ({sys.prefix} "
        "has none), or put the module beside the model file"
    )
