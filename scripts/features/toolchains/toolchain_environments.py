"""The environments of toolchains: what they are made of, their locks, and local builds in them.

`.venvs/iree@<toolchain>/` has a lock of its own, `.venvs/iree@<toolchain>.lock`. uv makes it when the
environment is made for the first time, and it is used as long as the definition stays the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.core import atomic, exits, process
from scripts.features.toolchains import build_trees
from scripts.features.toolchains.declared import changeable
from scripts.iree.backends import OLDEST, release_of
from scripts.matrix import cell
from scripts.matrix.cell import Toolchain
from scripts.run import environments, installing
from scripts.run.environments import COMPILER, PACKAGES, Declared

BUILDS = "vmfbench-builds.pth"
"""The file in an environment with the Python folders of local builds."""


@dataclass(frozen=True)
class Definition:
    """What a toolchain changes in one environment; the fields are those of config.toolchains.Toolchain."""

    packages: dict[str, str] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()

    @classmethod
    def of_toolchain(cls, toolchain: Toolchain, env: str) -> Definition:
        """The part of a toolchain that concerns an environment of envs/."""
        pins = changeable(_declared(env), env)
        packages = {name: value for name, value in toolchain.packages.items() if name in pins}
        builds = {
            project: folder
            for project, folder in toolchain.builds.items()
            if pins & set(PACKAGES[project])
        }
        return cls(packages, builds, toolchain.find_links)

    def to_text(self) -> str:
        """The definition as an argument of a command."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> Definition:
        fields = json.loads(text)
        return cls(**{**fields, "find_links": tuple(fields["find_links"])})

    def parts(self) -> dict[str, build_trees.Found]:
        """What its local builds have, by package. Raises TreeError."""
        return {
            name: part
            for project, folder in self.builds.items()
            for name, part in build_trees.parts(project, Path(folder)).items()
        }


def requirements(declared: Declared, changed: Definition) -> list[str]:
    """The requirements of an environment with what a toolchain changes. Packages for which a local build has
    a part are left out. Raises TreeError."""
    built = changed.parts()
    return [
        _requirement(name, changed.packages[name]) if name in changed.packages else requirement
        for requirement in declared.requirements
        if (name := environments.package_name(requirement)) not in built
    ]


def _requirement(name: str, source: str) -> str:
    if "://" in source:
        return f"{name} @ {source}"
    return f"{name} @ {Path(source).as_uri()}" if source.endswith(".whl") else f"{name}=={source}"


def digest(env_file: Path, changed: Definition) -> str:
    """A hash (12 hex digits) of what an environment of a toolchain is made of.

    It does not depend on pins of the packages that the toolchain replaces. Wheels and local builds count
    with the sizes and times of their files. Raises TreeError.
    """
    declared = environments.declared(env_file)
    own = {*changed.packages, *changed.parts()}
    lock = environments.lock_file(env_file)
    held = environments.locked_versions(lock) if lock.is_file() else []
    kept = [line for line in held if environments.package_name(line) not in own]
    wheels = [Path(source) for source in changed.packages.values() if source.endswith(".whl")]
    files = [
        (str(wheel), stat.st_size, stat.st_mtime_ns)
        for wheel in wheels
        if wheel.is_file() and (stat := wheel.stat())
    ]
    builds = [
        (project, folder, build_trees.digest(project, Path(folder)))
        for project, folder in sorted(changed.builds.items())
    ]
    identity = (
        declared.python,
        requirements(declared, changed),
        kept,
        changed.find_links,
        files,
        builds,
    )
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:12]


class Environments(environments.Environments):
    """The environments of envs/, and those of the selected toolchains."""

    def __init__(self, selected: Mapping[str, Toolchain]) -> None:
        self._selected = selected
        self._digests: dict[str, str] = {}

    def definition(self, env: str) -> Definition | None:
        """What a toolchain changes in an environment; None for one of envs/."""
        name = cell.toolchain_of(env)
        if name == cell.PINNED:
            return None
        return Definition.of_toolchain(self._selected[name], cell.without_toolchain(env))

    def option(self, env: str) -> str:
        """The option of scripts.stages.make_env with what a toolchain changes; "" for an environment of envs/."""
        changed = self.definition(env)
        return f"--toolchain {shlex.quote(changed.to_text())}" if changed else ""

    def pins_digest(self, env: str) -> str:
        """A value that changes when what the environment is made of changes."""
        changed = self.definition(env)
        if changed is None:
            return environments.pins_digest(env)
        if env not in self._digests:
            file = environments.env_file(cell.without_toolchain(env))
            self._digests[env] = digest(file, changed)
        return self._digests[env]

    def is_gone(self, env: str) -> bool:
        """Whether the environment has been removed or changed since this folder's runs made it.

        Runs in other folders share `.venvs/`, and may define a toolchain of the same name differently.
        """
        if cell.toolchain_of(env) == cell.PINNED:
            return super().is_gone(env)
        prefix = Path(environments.prefix(env))
        return environments.whole(prefix) != self.pins_digest(env)

    def notes(self) -> list[str]:
        """Messages about selected toolchains whose IREE is older than what this workflow knows."""
        oldest = ".".join(map(str, OLDEST))
        return [
            f"toolchain {name}: IREE {version} is older than {oldest}, the oldest release that has been tried; "
            "flags or programs may not be known to it"
            for name, toolchain in self._selected.items()
            if (version := version_of(toolchain.packages.get(COMPILER, "")))
            and (release_of(version) or OLDEST) < OLDEST
        ]

    def pins(self, env: str) -> dict[str, str]:
        """Package to version, for every exact pin of an environment. A wheel has the version in its name, and
        a package that a local build replaces has none."""
        pins = environments.pins(cell.without_toolchain(env))
        changed = self.definition(env)
        if changed is None:
            return pins
        built = {name for project in changed.builds for name in PACKAGES[project]}
        return {
            name: version_of(changed.packages.get(environments.package_name(name), pinned))
            for name, pinned in pins.items()
            if environments.package_name(name) not in built
        }


def version_of(source: str) -> str:
    """The version of a package by where it is from: itself, or the second part of a wheel's name (PEP 427)."""
    wheel = source.partition("#")[0]
    return wheel.rpartition("/")[2].split("-")[1] if wheel.endswith(".whl") else source


def install(prefix: Path, env_file: Path, changed: Definition, made_of: str) -> None:
    """Make an environment of a toolchain, and its lock if there is none of `made_of` (see `digest`).

    Raises LockError and TreeError. Exits if the installer fails or a local build cannot be used.
    """
    declared = environments.declared(env_file)
    lock = prefix.with_name(f"{prefix.name}.lock")
    links = [word for link in changed.find_links for word in ("--find-links", link)]
    before = environments.lock_file(env_file)
    python = installing.make_empty(prefix, environments.lock_pythons(before, declared.python))
    head = f"# Of the definition {made_of}, for Python {python}.\n"
    if not lock.is_file() or not lock.read_text("utf-8").startswith(head):
        resolved = installing.resolve(
            requirements(declared, changed),
            python,
            before.read_text("utf-8") if before.is_file() else "",
            links,
            header=f"the first use of {prefix.name}",
        )
        atomic.write_text(lock, head + resolved)
    installing.add(prefix, [*installing.locked(lock), *links])
    _link_builds(prefix, changed)


def _link_builds(prefix: Path, changed: Definition) -> None:
    """Put the tools of local builds into the environment, and their Python packages on its path."""
    parts = changed.parts()
    missing = {
        package for project in changed.builds for package in PACKAGES[project]
    } - parts.keys()
    for name in sorted(missing):
        print(f"{name}: the local build has none; it is the pinned package", flush=True)
    pythons = dict.fromkeys(part.python for part in parts.values() if part.python)
    for site in prefix.glob("lib/python*/site-packages"):
        if pythons:
            atomic.write_text(site / BUILDS, "".join(f"{python}\n" for python in pythons))
    for name, part in parts.items():
        for tool in part.tools:
            link = prefix / "bin" / tool.name
            link.unlink(missing_ok=True)
            link.symlink_to(tool)
        if part.python:
            _check_import(prefix, name, part.part.binding)


def _check_import(prefix: Path, name: str, binding: str) -> None:
    """Exit if the Python bindings of a local build cannot be imported, with what to do."""
    python = prefix / "bin" / "python"
    done = process.run_tool([str(python), "-c", f"import {binding}"])
    if done.returncode != 0:
        exits.fail(
            f"{name}: the Python bindings of the local build cannot be imported by {python}; "
            f"build them with this Python (-DPython3_EXECUTABLE={python.absolute()})",
            reason="local-build",
        )


@functools.cache
def _declared(env: str) -> Declared:
    return environments.declared(environments.env_file(env))
