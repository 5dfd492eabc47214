"""What the runtimes have in common that convert a model to files of their own format, and run those.

The files are made by the verification and loaded by each process that times them. So what is timed is what was verified, and a
model is converted once.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from scripts.baselines.sessions.runtime import CACHE, Work
from scripts.baselines.sessions.torch_session import TorchSession
from scripts.core import exits
from scripts.frontends.lowering import capture
from scripts.frontends.torch_model.convert import flat_tensors
from scripts.frontends.torch_model.errors import cause
from scripts.frontends.torch_model.loading import LoadedModel

FOLDER = "converted"
"""Its folder with the files of a converted model."""

Convert = Callable[[LoadedModel, Path], object]
"""Writes the files of a model into a folder; exits as unsupported if the runtime cannot convert it."""
Call = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""A call of the model: from flat inputs to flat outputs."""
Load = Callable[[Path, int], Call]
"""The call of the model whose files are in a folder, with a number of threads."""

_compilations: list[float] = []
"""Seconds of each conversion with its loading, in this process."""


def folder() -> Path:
    """Where this process finds or puts the files of its converted model."""
    return Path(os.environ[CACHE], FOLDER)


def open_session(
    work: Work,
    device: Any,
    convert: Convert,
    load: Load,
    warm_up: Callable[[], object] = capture.warm_up,
) -> TorchSession:
    """The model, converted unless an earlier process has done so. `warm_up`: imports what the first conversion imports. Exits as
    unsupported if it cannot be converted."""

    def prepare(loaded: LoadedModel) -> Callable:
        files = folder()
        if not files.exists():
            warm_up()
        start = time.perf_counter()
        if not files.exists():
            files.parent.mkdir(parents=True, exist_ok=True)
            # Only a folder with all files gets the name.
            unfinished = Path(tempfile.mkdtemp(dir=files.parent))
            with torch.no_grad():
                convert(loaded, unfinished)
            unfinished.rename(files)
        call = load(files, work.threads)
        _compilations.append(time.perf_counter() - start)
        return lambda *args, **kwargs: call([t for _, t in flat_tensors((args, kwargs))])

    return TorchSession(work, device, prepare)


def compile_seconds() -> float | None:
    """Seconds that conversion and loading have taken so far."""
    return sum(_compilations) or None


def exported(loaded: LoadedModel) -> ExportedProgram:
    """The model as a program of flat inputs and functional operators. Exits as unsupported if it cannot be captured."""
    with rejected("torch.export"):
        return capture.flat_program(loaded)


def require_float32(loaded: LoadedModel, runtime: str) -> None:
    """Exit as unsupported if the model has weights or inputs of another floating-point type."""
    tensors = [*loaded.module.named_parameters(), *loaded.inputs]
    for name, tensor in tensors:
        if tensor.is_floating_point() and tensor.dtype is not torch.float32:
            dtype = str(tensor.dtype).removeprefix("torch.")
            exits.fail(
                f"{runtime} runs models in float32, and {name} is of {dtype}", exits.UNSUPPORTED
            )


@contextlib.contextmanager
def rejected(tool: str, said: Callable[[BaseException], str] | None = None) -> Iterator[None]:
    """Exit as unsupported if a tool raises anything but an error of the machine or of its environment. Its log has the traceback.

    `said`: the message that is quoted; that of the exception's cause if it is None.
    """
    try:
        yield
    except (OSError, MemoryError, ImportError):
        raise
    except Exception as error:
        traceback.print_exc()
        exits.fail(f"{tool}: {(said or cause)(error)}", exits.UNSUPPORTED)
