"""The declaration of a Snakemake patch, and the Snakemake that the patches fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import snakemake.api  # its other modules cannot be imported before this one
from packaging.specifiers import SpecifierSet

VERSION = "==9.27.*"
"""The Snakemake that the patches are written for and tested with (tests/unit/test_patch.py has what they use of it)."""


@dataclass(frozen=True)
class Patch:
    """A replaced or undocumented part of Snakemake.

    `replaces` names the part and `without` says what happens without the patch; both are in the table
    of docs/architecture.md. `runs`: the runs that apply it: on this machine, on a cluster, or any run
    that asks for it. Where it does not fit, a run on a cluster stops before its first job, and another one warns.
    """

    name: str
    replaces: str
    without: str
    runs: Literal["local", "cluster", "asked"]


def problem() -> str:
    """Why patches cannot be applied to this Snakemake; "" if they can."""
    version = snakemake.__version__
    if SpecifierSet(VERSION).contains(version, prereleases=True):
        return ""
    return f"it is written for Snakemake {VERSION}, this is {version}"
