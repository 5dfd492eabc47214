"""What is wrong with a model file when it runs, and which of its lines raised it."""

from __future__ import annotations

import contextlib
import enum
import traceback
from collections.abc import Iterator
from pathlib import Path

from scripts.core import exits


class Fault(enum.StrEnum):
    """Reasons of rows for errors in model files; docs/troubleshooting.md explains them."""

    FILE = "model-file"
    IMPORT = "model-import"
    PACKAGE = "missing-package"
    FUNCTION = "model-function"
    PRETRAINED = "pretrained-weights"
    RETURN = "model-return"
    WEIGHTS = "model-weights"
    INPUTS = "model-inputs"
    FORWARD = "model-forward"
    OUTPUTS = "model-outputs"
    MUTATION = "input-mutation"


class ModelError(Exception):
    """A model file has an error; the message names the part and what was found.

    `reason`: a Fault, or "" if the reason follows from the message (supervise/diagnose.py).
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ModelFileError(ValueError):
    """A model file, or an option set for it, that cannot work; says which and what to do."""

    reason = Fault.FILE


class BrokenModelFile(ModelFileError):
    """An error in the model file, or in a module that it imports, and not in the configuration. The
    reference of this model fails; other models are not affected."""


@contextlib.contextmanager
def with_reason(reason: Fault) -> Iterator[None]:
    """Set the reason of a ModelError without a reason that is raised inside this context."""
    try:
        yield
    except ModelError as error:
        error.reason = error.reason or reason
        raise


@contextlib.contextmanager
def reported(before: str = "") -> Iterator[None]:
    """Exit with the error of a model or its file that is raised inside this context, after the text `before`."""
    try:
        yield
    except (ModelError, ModelFileError) as error:
        exits.fail(f"{before}{error}", reason=error.reason)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message that has text; the name of its class if there is none."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def cause(error: BaseException) -> str:
    """The class and the first line of the message of an exception's first cause, at most 300 characters of it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {first_line(error)[:300]}"


def changes_buffer(name: str, kind: str = "BUFFER_MUTATION") -> str:
    """What is wrong with a model whose calls depend on the calls before; `kind` is torch.export's
    name for it (OutputKind)."""
    return f"the model changes {name} in place ({kind}): a call would depend on the calls before it"


def raised(error: BaseException, path: str | Path) -> str:
    """What was raised, and by which line of the model file, in one line."""
    resolved = str(Path(path).expanduser().resolve())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == resolved]
    where = f" ({Path(path).name}:{frames[-1].lineno}: {frames[-1].line})" if frames else ""
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"{said}{where}"
