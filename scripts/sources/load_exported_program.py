"""Loads an exported program of PyTorch as a model."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from scripts.core import tensors
from scripts.sources import exported_program
from scripts.torch_model import convert, footprint, trees
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.errors import Fault, ModelError, of
from scripts.torch_model.inputs import check_inputs, check_weights
from scripts.torch_model.loading import LoadedModel
from scripts.torch_model.weights import with_arrays


def load(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The module of a program and its example inputs, or the inputs that its entry names.

    Raises BrokenModelFile for a file that is damaged or would be executed, and ModelError for one that torch does not load.
    """
    path = choice.model_file.expanduser()
    archive = exported_program.read(path)
    trusted = bool(choice.options.get("trust"))
    if not trusted:
        exported_program.refuse_code(path, archive)
    exported_program.require_whole(path)
    footprint.require(_weights(archive), stage, memory_factor)
    if not trusted:
        _require_plain_inputs(path)
    program = _program(path)
    module = program.module(check_guards=False)
    # The module refuses these two, which set a flag that its graph does not read.
    for name in ("train", "eval"):
        module.__dict__.pop(name, None)
    with of(Fault.WEIGHTS):
        check_weights(f"{path}: has", module)
    module.eval().requires_grad_(False)
    args, kwargs = program.example_inputs or ((), {})
    loaded = LoadedModel(choice.name, module, tuple(args), dict(kwargs), None)
    with of(Fault.INPUTS):
        if not trees.flat_tensors((args, kwargs)):
            raise ModelError(f"{path}: it has no example inputs; save it with the arguments of torch.export.export")  # fmt: skip
        check_inputs(f"{path}: its example inputs are", (args, kwargs))
        if given := choice.options.get("inputs"):
            loaded = _with_inputs(loaded, path, Path(str(given)).expanduser())
    return loaded


def _weights(archive: exported_program.Archive) -> footprint.Weights:
    entries = (*archive.weights.values(), *archive.constants.values())
    shapes = ([size["as_int"] for size in (e["tensor_meta"] or {}).get("sizes", ())] for e in entries)  # fmt: skip
    size = archive.weights_bytes
    return footprint.Weights(sum(map(math.prod, shapes)), size, size, "as saved")


def _require_plain_inputs(path: Path) -> None:
    """Raise ModelError if the example inputs are not only tensors and plain values: torch.export.load would then unpickle
    them with weights_only=False."""
    with zipfile.ZipFile(path) as file:
        names = [n for n in file.namelist() if n.endswith("/data/sample_inputs/model.pt")]
        saved = file.read(names[0]) if names else b""
    if not saved:
        return
    try:
        torch.load(io.BytesIO(saved), weights_only=True)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"{path}: its example inputs are more than tensors and plain values, and loading them may execute code "
            f"({first}); {exported_program.TRUST}",
            Fault.INPUTS,
        ) from error


def _program(path: Path) -> torch.export.ExportedProgram:
    """What torch.export.load returns. It logs the cause of a failure and raises another error, so the log is read."""
    try:
        with _logged() as causes:
            return torch.export.load(path)
    except Exception as error:
        cause = causes[0] if causes else error
        if "is not registered" in str(cause) and not _registered:
            # The classes of results of transformers are known to torch once that is imported.
            _registered.append(True)
            with contextlib.suppress(ImportError):
                import transformers.modeling_outputs  # noqa: F401

                return _program(path)
        saved = _saved_by(path)
        raise ModelError(
            f"{path}: torch.export.load of PyTorch {torch.__version__} raised {type(cause).__name__}: "
            f"{str(cause).strip().splitlines()[0] if str(cause).strip() else ''}{saved}",
            Fault.FILE,
        ) from error


_registered: list[bool] = []


def _saved_by(path: Path) -> str:
    graph = exported_program.read(path).graph
    schema = graph.get("schema_version") or {}
    version = f"{schema.get('major')}.{schema.get('minor')}"
    return f" (the file is of PyTorch {graph.get('torch_version')}, schema {version})"


@contextlib.contextmanager
def _logged() -> Iterator[list[BaseException]]:
    """The exceptions that torch.export logs meanwhile."""
    causes: list[BaseException] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                causes.append(record.exc_info[1])

    handler = Handler()
    logger = logging.getLogger("torch.export")
    logger.addHandler(handler)
    try:
        yield causes
    finally:
        logger.removeHandler(handler)


def _with_inputs(loaded: LoadedModel, path: Path, given: Path) -> LoadedModel:
    """The model with the arrays of a file as its inputs, in the order of the file, of the same shapes and dtypes."""
    arrays: dict[str, Any] = tensors.load_npz(given)
    wanted = [convert.tensor_type(name, tensor) for name, tensor in loaded.inputs]
    found = [(list(array.shape), str(array.dtype)) for array in arrays.values()]
    expected = [(list(t.shape), tensors.DTYPES[t.dtype][1]) for t in wanted]
    if found != expected:
        raise ModelError(f"{given}: found arrays of {found}, but {path} takes {expected}, in this order")  # fmt: skip
    return with_arrays(loaded, list(arrays.values()))
