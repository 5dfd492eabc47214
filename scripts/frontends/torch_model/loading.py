"""Loads a model from its Python file, rejects what is not supported, fills models with the archive's weights and the reference's inputs,
and makes functions of flat tensors of them, which capture tools take.

Seeded before the weights, seeded again before the inputs, so that what a stage rebuilds is
what the reference stage stored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import math
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import iree.runtime  # noqa: F401  (tensors.read_archive needs it; its import is not the loading of weights)
import numpy as np
import torch
from torch.utils import _pytree as pytree

from scripts.core import checkout, exits, tensors
from scripts.core.dimensions import Dimension, opened
from scripts.core.tensors import TensorType
from scripts.frontends.torch_model import convert, footprint, source
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.convert import (
    TORCH_DTYPE,
    cast_floats,
    flat_tensors,
    leaves,
    opaque,
    tensor_type,
)
from scripts.frontends.torch_model.errors import Fault, ModelError, raised, with_reason

if TYPE_CHECKING:
    from scripts.frontends.torch_model.step import Training


FLAT_PREFIX = "model."
"""What `FlatModel` puts before every name of the model's own."""


class ModelFile:
    """A model file, imported, and the options of its entry.

    `threads`: CPU threads that its functions compute with; None for torch's own choice. Raises
    ModelError, or source.ModelFileError, where it cannot be imported or is none.
    """

    def __init__(
        self, path: str | Path, options: Mapping[str, Any], threads: int | None = None
    ) -> None:
        self.path, self.options, self._threads = path, dict(options), threads
        self.seed = int(self.options.get("seed", 0))
        self.dtype = TORCH_DTYPE[self.options.get("dtype", "f32")]
        self.functions = source.functions(path)
        self._module = _imported(Path(path).expanduser().resolve())

    def call(self, name: str, built: torch.nn.Module | None = None) -> Any:
        """What function `name` returns under the options that it takes, seeded.

        `built`: what get_model() returned, in eval mode, for a function with a parameter `model`.
        Raises ModelError with the call and what it raised.
        """
        chosen = source.chosen_options(self.functions[name], self.options)
        given = {source.MODEL_PARAMETER: built} if self.functions[name].takes_model else {}
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed)
        try:
            with _threads(self._threads):
                return getattr(self._module, name)(**chosen, **given)
        except (Exception, SystemExit) as error:
            shown = ", ".join([*(f"{k}={v!r}" for k, v in chosen.items()), *given])
            hint, reason = "", Fault.FUNCTION
            if chosen.get("pretrained") and isinstance(error, OSError):
                hint, reason = "pretrained weights could not be fetched; give this machine a way to the hub, or set pretrained: false: ", Fault.PRETRAINED  # fmt: skip
            elif isinstance(error, ModuleNotFoundError):
                reason = Fault.PACKAGE
            text = (
                f"{self.path}: {name}({shown}): {hint}{raised(error, self.path)}{_missing(error)}"
            )
            raise ModelError(text, reason) from error

    def resolved_options(self) -> dict[str, Any]:
        """Return the arguments of get_model() and get_dummy_input(), by name, as JSON values.

        These are the options of the entry, the functions' defaults for other arguments (if both
        have a default, get_model()'s), and the options that the pipeline applies itself.
        """
        options: dict[str, Any] = {}
        for name in source.FUNCTIONS:
            for parameter in inspect.signature(getattr(self._module, name)).parameters.values():
                if parameter.default is not parameter.empty:
                    options.setdefault(parameter.name, parameter.default)
        for name in source.FUNCTIONS:
            options |= source.chosen_options(self.functions[name], self.options)
        options.pop(source.MODEL_PARAMETER, None)
        options |= {"dtype": self.options.get("dtype", "f32"), "seed": self.seed}
        return {key: _plain(value) for key, value in options.items()}

    def build(self, name: str) -> torch.nn.Module:
        """The module that function `name` returns, in eval mode, without gradients and in the entry's dtype."""
        built = self.call(name)
        where = f"{self.path}: {name}() returned"
        if not isinstance(built, torch.nn.Module):
            raise ModelError(f"{where} {described(built)}, expected a torch.nn.Module{instead(built)}", Fault.RETURN)  # fmt: skip
        if isinstance(built, torch.jit.ScriptModule) or _is_compiled(built):
            raise ModelError(
                f"{where} a compiled module ({type(built).__name__}), which torch.export does not take; "
                "return the module that it was made of",
                Fault.RETURN,
            )
        with with_reason(Fault.WEIGHTS):
            check_weights(where, built)
        built.eval().requires_grad_(False)
        return built if self.dtype is torch.float32 else built.to(self.dtype)


class OpaqueModule(torch.nn.Module):
    """A model of which PyTorch sees no operators, so that it cannot be captured, nor its work be counted, nor computed in float64.

    `golden_from`: what has made the results of its last call.
    """

    def __init__(self, weights: dict[str, torch.Tensor], golden_from: str) -> None:
        super().__init__()
        self._weights, self.golden_from = weights, golden_from

    def named_buffers(self, *_: Any, **__: Any) -> Iterator[tuple[str, torch.Tensor]]:
        """The weights: their names may have dots, which those of buffers may not."""
        yield from self._weights.items()


@dataclass
class LoadedModel:
    """A model in eval mode, its call arguments, and the flat tensors among those.

    `file`: the Python file it is from, for what else that can tell of it; None for a model of another source.
    `training`: the step to capture in place of the forward pass (step.for_capture).
    `about`: what its inputs were made of, where `file` does not tell.
    `dimensions`: those of its inputs that are open in its program (frontends/sources/load_model.py).
    """

    name: str
    module: torch.nn.Module
    args: tuple
    kwargs: dict[str, Any]
    file: ModelFile | None
    training: Training | None = None
    about: str | None = None
    dimensions: tuple[Dimension, ...] = ()

    @property
    def inputs(self) -> list[tuple[str, torch.Tensor]]:
        """(path, tensor) of every tensor input, in the order of the program's arguments."""
        return flat_tensors((self.args, self.kwargs))

    @property
    def input_types(self) -> list[TensorType]:
        """The types of `inputs`, in order, with their dynamic dimensions."""
        return opened([tensor_type(path, tensor) for path, tensor in self.inputs], self.dimensions)

    @property
    def golden_from(self) -> str:
        """What has made the results of the model's last call: `eager`, or what an OpaqueModule says."""
        return self.module.golden_from if isinstance(self.module, OpaqueModule) else "eager"

    @property
    def changing(self) -> frozenset[str]:
        """The keys of the weights that change from one call to the next: those of a training step."""
        return self.training.results_of(tensors.CHANGE) if self.training else frozenset()

    def input_description(self) -> str | None:
        """What describe_inputs() of the model's file returns, or `about`; None where there is none."""
        if self.file is None:
            return self.about
        if "describe_inputs" not in self.file.functions:
            return None
        with torch.no_grad():
            text = self.file.call("describe_inputs", self.module)
        if not isinstance(text, str):
            raise ModelError(
                f"{self.file.path}: describe_inputs() returned {type(text).__name__}, expected a str",
                Fault.RETURN,
            )
        return text


def load(model: ModelChoice, stage: str = "", memory_factor: float = 1.0) -> LoadedModel:
    """Build a model and its inputs under the options of its entry.

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor`
    times their bytes (footprint.require).

    get_dummy_input() is given the model, where it takes it, in eval mode, without gradients and
    in the entry's dtype: inputs that the model computes (a cache) are those of that dtype. Raises
    ModelError where a function raises or returns something else than is expected.
    """
    file = ModelFile(model.model_file, model.options, model.load_threads)
    if not file.options.get("pretrained"):  # its loader wants values, and fetches them
        counted = footprint.count(lambda: file.call("get_model"), model.dtype)
        footprint.require(counted, stage, memory_factor)
    return loaded_from(file, model.name)


def loaded_from(file: ModelFile, name: str) -> LoadedModel:
    """The model that a file builds, whose weights are known to fit into memory, with its inputs. Raises ModelError as `load` does."""
    built = file.build("get_model")
    return LoadedModel(name, built, *inputs_of(file, built), file)


def inputs_of(file: ModelFile, built: torch.nn.Module) -> tuple[tuple, dict[str, Any]]:
    """What get_dummy_input() of a file gives for the model that it built, as (args, kwargs); raises
    ModelError as `load` does."""
    with torch.no_grad():
        given = file.call("get_dummy_input", built)
    with with_reason(Fault.INPUTS):
        args, kwargs = call_arguments(file.path, given)
        check_inputs(f"{file.path}: get_dummy_input() returned", (args, kwargs))
    # A tensor that requires a gradient is a leaf of the user's own graph: no stage wants that.
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    if file.dtype is not torch.float32:
        args, kwargs = cast_floats((args, kwargs), file.dtype)
    return args, kwargs


def _plain(value: Any) -> Any:
    """Return a value for JSON that is the same in every run.

    For a value that JSON does not support, it is the name, or Python's repr without the address.
    """
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if value is None or isinstance(value, str) or is_number:
        return value
    return getattr(value, "__qualname__", None) or exits.without_addresses(repr(value))


def _is_compiled(module: torch.nn.Module) -> bool:
    """Whether torch.compile made it; naming torch._dynamo would import it, which takes seconds."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and isinstance(module, dynamo.OptimizedModule)


@contextlib.contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Compute with this number of CPU threads, and with as many as before afterwards; None changes
    nothing."""
    if number is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _imported(path: Path) -> types.ModuleType:
    # Helpers in the folder of the file are found as when it is run; last, so that a file named timm.py
    # does not stand before the package.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"vmfbench_model_{path.stem}", path)
    # None only of a file that is not named *.py, which source.functions has refused.
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered, as dataclasses and torch.export look modules up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        text = f"{path}: importing it raised {raised(error, path)}{_missing(error)}"
        missing = isinstance(error, ModuleNotFoundError)
        raise ModelError(text, Fault.PACKAGE if missing else Fault.IMPORT) from error
    return module


def _missing(error: BaseException) -> str:
    """What to do where a package is not there."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    env = Path(sys.prefix).name
    if not (source.ROOT / "envs" / f"{env}.yaml").is_file():  # conda uses another name
        env = "<env>"
    if checkout.INSTALLED:
        return f"; put the module beside the model file, or add the package to envs/{env}.yaml of a clone of vmfbench"
    return (
        f"; add `<package>==<version>` to the pip section of envs/{env}.yaml and run "
        f"`vmfbench lock {env}`, as for each environment that loads the model, or put "
        "the module beside the model file"
    )


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


def set_weights(module: torch.nn.Module, path: Path) -> None:
    """Fill every weight from the archive, so that all runtimes use the same weights."""
    weights, _ = named_weights(module)
    stored = tensors.read_archive(path)
    if missing := sorted(weights.keys() ^ stored.keys()):
        exits.fail(f"{path} and the model differ in {missing[0]} (of {len(missing)}): run reference again")  # fmt: skip
    with torch.no_grad():
        for key, weight in weights.items():
            data = torch.from_numpy(stored[key].copy()).view(weight.dtype).reshape(weight.shape)
            weight.copy_(data)


def store(
    loaded: LoadedModel, weights_file: Path, inputs_file: Path
) -> tuple[tuple[TensorType, ...], tuple[TensorType, ...], dict[str, str]]:
    """Write the weights and the inputs of a model; return the types of both, inputs first, and the further names of weights."""
    weights, aliases = named_weights(loaded.module)
    tensors.write_archive(weights_file, ((key, convert.to_bytes(w)) for key, w in weights.items()))
    arrays = {str(i): convert.to_numpy(t) for i, (_, t) in enumerate(loaded.inputs)}
    tensors.save_npz(inputs_file, arrays)
    parameters = tuple(tensor_type(key, w) for key, w in weights.items())
    return tuple(loaded.input_types), parameters, aliases


def with_inputs(loaded: LoadedModel, path: Path) -> LoadedModel:
    """The same model with every tensor input from the reference's file, as a new tensor.

    The input is not copied in place, because it may be an expanded view, whose memory overlaps.
    """
    stored = tensors.load_npz(path)
    return with_arrays(loaded, [stored[str(i)] for i in range(len(stored))])


def with_arrays(
    loaded: LoadedModel, arrays: Sequence[np.ndarray], device: torch.device | None = None
) -> LoadedModel:
    """The same model with these values for its tensor inputs, in their order and dtypes."""
    values = iter(arrays)
    args, kwargs = pytree.tree_map_only(
        torch.Tensor,
        lambda old: torch.from_numpy(np.array(next(values))).to(device or old.device, old.dtype),
        (loaded.args, loaded.kwargs),
    )
    return dataclasses.replace(loaded, args=args, kwargs=kwargs)


def input_names(count: int) -> list[str]:
    """The parameters of a FlatModel's forward() for this many tensors."""
    return [f"inputs_{position}" for position in range(count)]


class FlatModel(torch.nn.Module):
    """Takes the tensor inputs one by one and calls the model as `loaded` would."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.model = loaded.module
        leaves, self.spec = pytree.tree_flatten((loaded.args, loaded.kwargs))
        self.constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]

    @property
    def forward(self) -> Callable[..., Any]:
        """`flat_results` with a parameter for each tensor: torch.export names sizes by parameters, and the checks of them that it
        writes into a graph are wrong for `*inputs` (PyTorch 2.9: name 'L' is not defined)."""
        function = functools.partial(self.flat_results)
        names = input_names(self.constants.count(None))
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        function.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
        return function

    def flat_results(self, *inputs: torch.Tensor):
        """The model's own outputs; `inputs` as in `LoadedModel.inputs`."""
        # Numbers and None among the outputs are not results of a program.
        return [t for _, t in convert.flat_tensors(self.called(inputs))]

    def called(self, inputs: Sequence[torch.Tensor]) -> Any:
        """What the model returns for these inputs."""
        tensors = iter(inputs)
        leaves = [next(tensors) if constant is None else constant[0] for constant in self.constants]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.model(*args, **kwargs)


_EXPECTED_INPUT = "a tensor, a tuple of tensors, a dict of keyword inputs, or (args, kwargs)"


def call_arguments(path: str | Path, given: Any) -> tuple[tuple, dict[str, Any]]:
    """What get_dummy_input() returned, as (args, kwargs)."""
    args: tuple = ()
    kwargs: dict[str, Any] = {}
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
            f"{path}: get_dummy_input() returned {described(given)}, expected {_EXPECTED_INPUT}{instead(given)}"
        )
    for key in kwargs:
        if not isinstance(key, str):
            raise ModelError(
                f"{path}: get_dummy_input() returned keyword inputs with the key {key!r}, expected "
                "names of forward()'s parameters"
            )
    return args, kwargs


def argument_names(module: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> list[str]:
    """For each tensor input of a call of a module, the parameter of its forward() that it is given for."""
    parameters = inspect.signature(module.forward).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter.name for parameter in parameters if parameter.kind in by_position]
    rest = [
        parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL
    ]
    given = [*zip([*positional, *rest * len(args)], args, strict=False), *kwargs.items()]
    return [
        name for name, value in given for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)
    ]


def not_a_call(module: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> str:
    """Why forward() cannot be called with what get_dummy_input() returned, and what that may be; "" if it can be."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):  # it is not written in Python
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        named = f" and the keyword inputs {', '.join(kwargs)}" if kwargs else ""
        return (
            f"get_dummy_input() returned {described(args)}{named}, with which forward({', '.join(signature.parameters)}) cannot be "
            f"called: {error}; expected {_EXPECTED_INPUT}"
        )
    return ""


def check_inputs(where: str, tree: Any) -> None:
    """Raise ModelError for inputs that are not supported."""
    tensors = 0
    for path, leaf in leaves(tree):
        if isinstance(leaf, np.ndarray | np.generic):
            raise ModelError(
                f"{where} {described(leaf)} as {path}, expected a tensor{instead(leaf)}"
            )
        if isinstance(leaf, torch.Tensor):
            tensors += 1
            _check_tensor(f"{where} {path}, which", leaf)
    if hidden := opaque(tree):
        raise ModelError(
            f"{where} {hidden[0]}, which holds tensors that are no inputs; pass the tensors "
            "themselves, or make the class a dataclass"
        )
    if not tensors:
        raise ModelError(f"{where} no tensor, expected {_EXPECTED_INPUT}")


def check_weights(where: str, module: torch.nn.Module) -> None:
    """Raise ModelError for weights without values, and for weights that archives do not support."""
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


def described(value: Any) -> str:
    """A description of a value, for error messages."""
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


def instead(value: Any) -> str:
    """What to do about a value of the wrong kind, if that is known."""
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
