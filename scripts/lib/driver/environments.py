"""The stage environments: where their Python is, what they pin."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def env_file(env: str) -> Path:
    """The one file that pins an environment."""
    return ROOT / "envs" / f"{env}.yaml"


def python(env: str, conda: bool) -> str:
    """The interpreter of an environment: conda puts its own first on PATH."""
    return "python" if conda else f"{prefix(env)}/bin/python"


def prefix(env: str) -> str:
    """The folder of an environment that uv makes."""
    return f".venvs/{env}"


@functools.cache
def pins_digest(env: str) -> str:
    """Twelve hex digits over the dependencies of an environment; comments do not count."""
    loaded = yaml.safe_load(env_file(env).read_text(encoding="utf-8"))
    return hashlib.sha256(repr(loaded["dependencies"]).encode()).hexdigest()[:12]


@functools.cache
def pins(env: str) -> dict[str, str]:
    """Package to version, for every exact pin of an environment."""
    loaded = yaml.safe_load(env_file(env).read_text(encoding="utf-8"))
    pip = next(d["pip"] for d in loaded["dependencies"] if isinstance(d, dict))
    return dict(requirement.split("==", 1) for requirement in pip if "==" in requirement)
