"""What is wrong with a model file when it runs, and which of its lines raised it."""

from __future__ import annotations

import traceback
from pathlib import Path


class ModelError(Exception):
    """A model file that does not do what is expected of it; says which part and what was found."""


def changes_buffer(name: str, kind: str = "BUFFER_MUTATION") -> str:
    """What is wrong with a model whose calls depend on the calls before; `kind` is torch.export's
    name for it (OutputKind)."""
    return f"the model changes {name} in place ({kind}): a call would depend on the calls before it"


def raised(error: BaseException, path: str | Path) -> str:
    """What was raised, and by which line of the model file, in one line."""
    resolved = str(Path(path).expanduser().resolve())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == resolved]
    where = f" ({Path(path).name}:{frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
