"""Training steps on IREE: lowering paths of a test of their own.

Where `tests` has `train`, each frontend whose exporter captures training steps has an entry `<frontend>+train`
beside it. It exports the training step of a model, so that its cells are named `bert/torchmlir-torch+train/llvm-cpu`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.matrix import cell, reading, toolchains
from scripts.matrix.toolchains import PINNED, SEPARATOR
from scripts.torch_model.arguments import Optimizer

EVAL, TRAIN = "eval", "train"
SUFFIX = cell.TRAIN_SUFFIX
REFERENCES = {EVAL: "reference", TRAIN: "gradients"}
"""The stage that makes what the programs of a test start from and are compared with."""

_ADAM = ("lr", "betas", "eps", "weight_decay", "amsgrad")
ARGUMENTS = {
    "SGD": ("lr", "momentum", "weight_decay", "nesterov"),
    "Adam": _ADAM,
    "AdamW": _ADAM,
}
"""The arguments that `train` takes for each optimizer of torch.optim, by name."""


def problems(train: Mapping[str, Any]) -> list[str]:
    """Error messages about an entry `train` that torch.optim would refuse in every training step."""
    name = train.get("name", Optimizer.name)
    lines = [
        f"train.{key}: {reading.unknown(f'argument of {name}', key, ARGUMENTS[name])}"
        for key in train
        if key not in ("name", *ARGUMENTS[name])
    ]
    if name == "SGD" and train.get("nesterov") and not train.get("momentum"):
        lines.append("train.nesterov: found true, expected with a momentum above 0")
    return lines


def path(frontend: str) -> str:
    """The name of a frontend's entry in the configuration."""
    return toolchains.base(frontend).removesuffix(SUFFIX).removesuffix(cell.DYNAMIC_SUFFIX)


def without_test(frontend: str) -> str:
    """The name of a frontend without its test, with its toolchain."""
    return frontend.replace(SUFFIX, "", 1)


def like(frontend: str, entry: str, toolchain: str) -> str:
    """The name of another entry of the configuration for the test of `frontend`, in a toolchain; for all sizes of a model, if
    `frontend` is."""
    suffix = SUFFIX if cell.frontend_test(frontend) == TRAIN else ""
    suffix += cell.DYNAMIC_SUFFIX if cell.is_dynamic(frontend) else ""
    at = "" if toolchain == PINNED else f"{SEPARATOR}{toolchain}"
    return f"{entry}{suffix}{at}"
