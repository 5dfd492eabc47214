"""The files of envs/, which pin the packages of the stages' environments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = "envs"
COMPILER, RUNTIME, TORCH_MLIR = "iree-base-compiler", "iree-base-runtime", "torch-mlir"
PACKAGES = {"iree": (COMPILER, RUNTIME), "torch-mlir": (TORCH_MLIR,)}
"""The packages of each project that a toolchain may replace."""


class EnvironmentFileError(ValueError):
    """An environment file from which uv and conda cannot both make an environment."""


@dataclass(frozen=True)
class Declared:
    """The contents of an environment file: the version of Python, and pip's requirements."""

    python: str
    requirements: tuple[str, ...]


def declared(path: Path) -> Declared:
    """Read an environment file. Raises EnvironmentFileError."""
    dependencies = yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]
    pythons = [d for d in dependencies if isinstance(d, str) and d.startswith("python=")]
    pips = [d["pip"] for d in dependencies if isinstance(d, dict) and "pip" in d]
    if len(pythons) != 1 or len(pips) != 1:
        raise EnvironmentFileError(
            f"{path}: expected one `python=` and one `pip:` among the dependencies"
        )
    return Declared(pythons[0].removeprefix("python="), tuple(pips[0]))


def package(requirement: str) -> str:
    """The normalized name (PEP 503) of the package of a requirement: `a-b` of `A_b[x]==1.0`."""
    name = re.split(r"[\s\[=<>!~@;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
