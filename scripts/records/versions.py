"""The versions of packages in records: as measured or as tools say of themselves, else as pinned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.iree import tools
from scripts.matrix import stages
from scripts.matrix.env_files import COMPILER
from scripts.matrix.matrix import Matrix
from scripts.records import stage_files
from scripts.run import environments

OF_EVERY_RECORD = ("torch", "torch_xla", "frontend", "iree")
"""The packages whose versions every record has, None if it does not use them."""


def add(
    record: dict[str, Any],
    pins: Mapping[str, str],
    declared: Mapping[str, str],
    versions: Mapping[str, str | None],
) -> None:
    """Add the versions that an exporter or runtime declares: those found, else those that its environment
    pins. The build in a version (`2.15.0+cu132`) is a separate value, because pins have none."""
    known: dict[str, str | None] = {}
    for distribution, called in declared.items():
        version, _, build = (versions.get(called) or pins.get(distribution) or "").partition("+")
        known |= {called: version or None} | ({f"{called}_build": build} if build else {})
    record["versions"] = dict.fromkeys(OF_EVERY_RECORD) | record["versions"] | known


def pins(matrix: Matrix, env: str) -> dict[str, str]:
    """The versions that an environment of a matrix pins, by package."""
    return environments.of_run(matrix.toolchains).pins(env)


def iree(root: Path, matrix: Matrix, env: str, measured: str | None) -> dict[str, str | None]:
    """The version of IREE in an environment, and what its compiler says of itself where that is on record.

    `measured`: the version of the runtime that has measured. It stands for the compiler too, unless that
    is a local build.
    """
    build = tools.identified(_said(root, env).get("iree-compile", ""))
    pinned = pins(matrix, env).get(COMPILER)
    of_build = None if pinned else build.partition(" ")[0]
    known: dict[str, str | None] = {"iree": of_build or measured or pinned}
    return known | ({"iree_build": build} if build else {})


def add_python(
    root: Path, matrix: Matrix, record: dict[str, Any], env: str, of_export: str
) -> None:
    """Add the version of Python: the one that verified the row, else that of the environment of the stage where it ended.

    `env`, `of_export`: the environments of the row and of its export. Left out where no file has it.
    """
    reference = dict.fromkeys(("reference", "gradients"), matrix.reference_env)
    by_stage = {**reference, "export": of_export}
    if "python" not in record["versions"]:
        python = _said(root, by_stage.get(record["outcome"]["stage"], env)).get("python")
        record["versions"] |= {"python": python} if python else {}


def _said(root: Path, env: str) -> dict[str, str]:
    """What the environment's tools said when it was made; {} for one of conda or of an older version, and if the file is
    damaged."""
    path = root / stages.STAGES["env"].path(env, tools.SAID)
    try:
        return {} if stage_files.is_left_out(path) else atomic.read_json(path)
    except (OSError, ValueError):
        return {}
