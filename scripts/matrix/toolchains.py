"""Toolchains: versions, wheels or local builds of packages, where they differ from those that envs/ pins.

A toolchain multiplies entries: for each target whose environment it changes there is an entry
`llvm-cpu@<toolchain>`, and the same for frontends. What it does not change is shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

PINNED = "pinned"
"""The name of the toolchain that envs/ pins."""
SEPARATOR = "@"
"""Between the name of an entry or environment and that of a toolchain."""


class Entry(Protocol):
    """A frontend or a target: what has a name and an environment."""

    @property
    def env(self) -> str: ...


@dataclass(frozen=True)
class Toolchain:
    """What a toolchain changes.

    `packages`: by name (PEP 503) a version, the URL of a wheel, or its absolute path. `builds`: folders of
    trees by project (iree, torch-mlir). `find_links`: pages and folders in which packages are looked up
    besides the index. `envs`: the environments of envs/ that it changes; none for `pinned`.
    """

    name: str
    packages: dict[str, str] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()

    def of_env(self, env: str) -> str:
        """The name of the environment that it has in place of one of envs/."""
        return f"{env}{SEPARATOR}{self.name}" if env in self.envs else env

    def takes(self, *entries: Entry) -> bool:
        """Whether these entries belong together in this toolchain: each is its own, or shared by it."""
        return all(entry.env == self.of_env(base(entry.env)) for entry in entries)


def base(name: str) -> str:
    """The name of an entry or environment without its toolchain."""
    return name.partition(SEPARATOR)[0]


def of(name: str) -> str:
    """The toolchain in the name of an entry or environment."""
    return name.partition(SEPARATOR)[2] or PINNED


def pinned() -> dict[str, Toolchain]:
    """The toolchains of a run that selects none."""
    return {PINNED: Toolchain(PINNED)}
