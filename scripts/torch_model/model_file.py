"""Imports a model file and calls its functions with the options of its entry."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import math
import random
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.torch_model import source
from scripts.torch_model.convert import TORCH_DTYPE
from scripts.torch_model.errors import Fault, ModelError, of, raised
from scripts.torch_model.inputs import check_weights, described, instead


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
        self._module = _import(path)

    def call(self, name: str, built: torch.nn.Module | None = None) -> Any:
        """What function `name` returns under the options that it takes, seeded as each is.

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
        found: dict[str, Any] = {}
        for name in source.FUNCTIONS:
            for parameter in inspect.signature(getattr(self._module, name)).parameters.values():
                if parameter.default is not parameter.empty:
                    found.setdefault(parameter.name, parameter.default)
        for name in source.FUNCTIONS:
            found |= source.chosen_options(self.functions[name], self.options)
        found.pop(source.MODEL_PARAMETER, None)
        found |= {"dtype": self.options.get("dtype", "f32"), "seed": self.seed}
        return {key: _plain(value) for key, value in found.items()}

    def build(self, name: str) -> torch.nn.Module:
        """The module that function `name` returns, in eval mode and without gradients."""
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
        with of(Fault.WEIGHTS):
            check_weights(where, built)
        return built.eval().requires_grad_(False)

    def to_dtype(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module with its floating-point weights in the entry's dtype, in place."""
        return module if self.dtype is torch.float32 else module.to(self.dtype)


def _plain(value: Any) -> Any:
    """Return a value for JSON that is the same in every run.

    For a value that JSON does not support, it is the name, or Python's repr without the address.
    """
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if value is None or isinstance(value, str) or is_number:
        return value
    return getattr(value, "__qualname__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


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


def _import(path: str | Path) -> types.ModuleType:
    path = Path(path).expanduser().resolve()
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
    return (
        f"; add `<package>==<version>` to the pip section of envs/{env}.yaml and run "
        f"`vmfbench lock {env}`, as for each environment that loads the model, or put "
        "the module beside the model file"
    )
