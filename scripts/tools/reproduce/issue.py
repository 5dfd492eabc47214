"""ISSUE.md: the text of an issue for the tracker of IREE or of a frontend."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from scripts.core import commands, private

ISSUE = "ISSUE.md"
IREE = "https://github.com/iree-org/iree/issues"
"""The tracker of IREE's compiler and runtime."""
_TORCH_MLIR = ("torch-mlir", "https://github.com/llvm/torch-mlir/issues")
TOOLS = {
    "torch_mlir": _TORCH_MLIR,
    "onnx_importer": _TORCH_MLIR,
    "torch_xla": ("PyTorch/XLA", "https://github.com/pytorch/xla/issues"),
}
"""The tool that lowers a model, and its tracker, by exporter."""
LOG_LINES = 40
LINE_CHARS = 400
TITLE_CHARS = 120
SHOWN = 64
"""Tensors of at most this many values are printed in an issue."""


def write(folder: Path, tracker: str, title: str, sections: Mapping[str, str]) -> None:
    """Write the issue into a folder. `sections`: Markdown by its heading; "" for what comes before the first heading."""
    parts = [f"<!-- Tracker: {tracker} -->", f"# {title}"]
    for heading, body in sections.items():
        parts += [f"### {heading}", body] if heading else [body]
    (folder / ISSUE).write_text(
        commands.shown(private.text("\n\n".join(parts))) + "\n", encoding="utf-8"
    )


def fenced(kind: str, code: str) -> str:
    """A block of code in a language."""
    body = code.strip("\n")
    return f"```{kind}\n{body}\n```"


def values(
    inputs: Sequence[np.ndarray], right: np.ndarray, wrong: np.ndarray, names: tuple[str, str]
) -> str:
    """Inputs and a right and a wrong result, if they are small; else the largest difference. `names`: of the results."""
    shown = {f"input {n}": array for n, array in enumerate(inputs)} | dict(
        zip(names, (right, wrong), strict=True)
    )
    if all(array.size <= SHOWN for array in shown.values()):
        texts = (f"{name} =\n{np.array2string(array, precision=4)}" for name, array in shown.items())  # fmt: skip
        return fenced("text", "\n".join(texts))
    if right.shape != wrong.shape:
        return f"The result has shape {list(wrong.shape)}, expected {list(right.shape)}."
    error = np.nan_to_num(np.abs(wrong.astype(np.float64) - right.astype(np.float64)), nan=np.inf)
    at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    return f"The largest difference is at {list(at)}: {wrong[at]:g}, expected {right[at]:g}."


def listed(versions: Mapping[str, str | None]) -> str:
    """A list of the versions that are known."""
    return "\n".join(f"- {name}: {version}" for name, version in versions.items() if version)


def shortened(detail: str, otherwise: str) -> str:
    """The message of a failure for a title, without the operation that it quotes, and whole words of it; `otherwise` if there is
    none."""
    message = detail.partition(" [program.mlir")[0]
    return (
        textwrap.shorten(message, TITLE_CHARS, placeholder=" …", break_on_hyphens=False)
        or otherwise
    )


def clipped(log: str, detail: str) -> str:
    """The first lines of a log, each of at most LINE_CHARS characters, or the detail if there are none."""
    lines = [line[:LINE_CHARS] for line in log.splitlines() if not line.startswith("$ ")]
    return "\n".join(lines[:LOG_LINES]) or detail
