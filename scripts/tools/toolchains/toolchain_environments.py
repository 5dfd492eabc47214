"""The toolchains of a configuration (versions, wheels or local builds of packages), and their environments: what they are made of,
their locks, and local builds in them.

`.venvs/iree@<toolchain>/` has a separate lock, `.venvs/iree@<toolchain>.lock`. uv makes it when the
environment is made for the first time, and it is used as long as the definition stays the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.config import cell, reading
from scripts.config.cell import PINNED, EntryName, Toolchain
from scripts.config.feature import Draft, Feature
from scripts.config.stages import IREE_ENV
from scripts.core import atomic, exits, process
from scripts.run import environments, installing
from scripts.run.environments import COMPILER, PACKAGES, RUNTIME, TORCH_MLIR, Declared

BUILDS = "vmfbench-builds.pth"
"""The file in an environment with the Python folders of local builds."""
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+!]*")
_URL = re.compile(r"(https?|file)://\S+\.whl(#\S*)?")
_FORMS = "a version, or the path or URL of a wheel"


# Local builds. Their layouts are those of IREE's and torch-mlir's CMake builds and installs, of a virtual environment, and of the unpacked wheels:
# https://iree.dev/building-from-source/getting-started/#python-bindings
# https://github.com/llvm/torch-mlir/blob/main/docs/development.md

_SITES = ("", "lib/python*/site-packages")


@dataclass(frozen=True)
class Part:
    """What replaces one package: folders for Python's path (one of which has `module`), and folders in one
    of which there is the tool `tool` ("" if the package needs none). All are globs below the tree.
    `binding`: what an import loads of the libraries. `used`: all tools that the stages use."""

    module: str
    binding: str
    pythons: tuple[str, ...]
    tool: str = ""
    tools: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


_PARTS: Mapping[str, Part] = {
    COMPILER: Part(
        module="iree/compiler",
        binding="iree.compiler.ir",
        pythons=("compiler/bindings/python", "python_packages/iree_compiler", *_SITES),
        tool="iree-compile",
        # The wheels' scripts in bin/ start these programs, and turn a signal into an exit code.
        tools=(*(f"{site}/iree/compiler/_mlir_libs".strip("/") for site in _SITES), "tools", "bin"),
        used=("iree-compile", "iree-opt"),
    ),
    RUNTIME: Part(
        module="iree/runtime",
        binding="iree.runtime",
        pythons=("runtime/bindings/python", "python_packages/iree_runtime", *_SITES),
        tool="iree-benchmark-module",
        tools=(*(f"{site}/iree/_runtime_libs".strip("/") for site in _SITES), "tools", "bin"),
        used=("iree-benchmark-module", "iree-run-module", "iree-profile"),
    ),
    TORCH_MLIR: Part(
        module="torch_mlir",
        binding="torch_mlir.extras.fx_importer",
        pythons=(
            "python_packages/torch_mlir",
            "tools/torch-mlir/python_packages/torch_mlir",
            *_SITES,
        ),
    ),
}


@dataclass(frozen=True)
class Found:
    """What was found for one package: a folder for Python's path, and the folder of the tools (None: there is none)."""

    part: Part
    python: Path | None
    folder: Path | None

    @property
    def tools(self) -> list[Path]:
        """The tools that the stages use."""
        paths = [self.folder / tool for tool in self.part.used] if self.folder else []
        return [path for path in paths if path.is_file()]

    def binaries(self) -> Iterator[Path]:
        """Its programs and libraries."""
        if self.python:
            yield from sorted((self.python / self.part.module.split("/")[0]).glob("**/*.so*"))
        if self.folder:
            yield from sorted(self.folder.glob("iree-*"))
            yield from sorted(self.folder.glob("lib*.so*"))
            yield from sorted((self.folder.parent / "lib").glob("libIREE*.so*"))


class TreeError(ValueError):
    """A folder that is no tree of a project. The message says what was expected in it."""


def tree_parts(project: str, folder: Path) -> dict[str, Found]:
    """Return what a tree has, by the package that it replaces. A package may be missing in it.

    A runtime without both its Python bindings and its tools is left out: modules are verified with the
    one and timed with the other. Of a compiler, the tools are enough. Raises TreeError if the folder has
    nothing, or lacks IREE's compiler.
    """
    if not os.path.isdir(folder):
        raise TreeError(
            f"no folder {folder}; expected a version, or the folder of a build or install tree"
        )
    available = {name: part for name in PACKAGES[project] if (part := _part(name, folder))}
    if PACKAGES[project][0] in available:
        return available
    lacking = _PARTS[PACKAGES[project][0]]
    if lacking.tool:
        expected = f"the tool {lacking.tool} in one of the folders {', '.join(lacking.tools)}"
    else:
        places = ", ".join(place or "the folder itself" for place in lacking.pythons)
        expected = f"the package {lacking.module} in one of {places}"
    raise TreeError(f"{folder}: expected {expected}")


def _part(name: str, folder: Path) -> Found | None:
    part = _PARTS[name]
    python = next((at for at in _places(folder, part.pythons) if (at / part.module).is_dir()), None)
    tools = next((at for at in _places(folder, part.tools) if (at / part.tool).is_file()), None)
    needed = {COMPILER: [tools], RUNTIME: [tools, python]}.get(name, [python])
    return Found(part, python, tools) if None not in needed else None


def _places(folder: Path, globs: Iterable[str]) -> Iterator[Path]:
    for pattern in globs:
        yield from sorted(folder.glob(pattern)) if pattern else [folder]


def tree_digest(project: str, folder: Path) -> str:
    """A hash (12 hex digits) of a tree, which changes when it is built again. Raises TreeError.

    It is of (path, bytes, modification time in ns) of the programs and libraries. Contents are not read: the
    compiler's library alone has hundreds of MB.
    """
    paths = dict.fromkeys(
        path for part in tree_parts(project, folder).values() for path in part.binaries()
    )
    identity = [
        (str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns)
        for path in paths
        if path.is_file() and (stat := path.stat())
    ]
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:12]


# Environments.


@dataclass(frozen=True)
class Definition:
    """What a toolchain changes in one environment; the fields are those of matrix.cell.Toolchain."""

    packages: dict[str, str] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()

    @classmethod
    def of_toolchain(cls, toolchain: Toolchain, env: str) -> Definition:
        """The part of a toolchain that concerns an environment of envs/."""
        pins = changeable(_declared(env), env)
        packages = {name: value for name, value in toolchain.packages.items() if name in pins}
        builds = {name: at for name, at in toolchain.builds.items() if pins & {*PACKAGES[name]}}
        return cls(packages, builds, toolchain.find_links)

    def parts(self) -> dict[str, Found]:
        """What its local builds have, by package. Raises TreeError."""
        return {
            name: part
            for project, folder in self.builds.items()
            for name, part in tree_parts(project, Path(folder)).items()
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
        (project, folder, tree_digest(project, Path(folder)))
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
        name = EntryName.read(env)
        if name.toolchain == cell.PINNED:
            return None
        return Definition.of_toolchain(self._selected[name.toolchain], name.entry)

    def option(self, env: str) -> str:
        """The field of a request to scripts.stages.make_env with what a toolchain changes; "" for an environment of envs/."""
        if changed := self.definition(env):
            return f"--field toolchain {shlex.quote(json.dumps(dataclasses.asdict(changed)))}"
        return ""

    def pins_digest(self, env: str) -> str:
        """A value that changes when what the environment is made of changes."""
        changed = self.definition(env)
        if changed is None:
            return environments.pins_digest(env)
        if env not in self._digests:
            file = environments.env_file(EntryName.read(env).entry)
            self._digests[env] = digest(file, changed)
        return self._digests[env]

    def is_gone(self, env: str) -> bool:
        """Whether the environment has been removed or changed since this folder's runs made it.

        Runs in other folders share `.venvs/`, and may define a toolchain of the same name differently.
        """
        if EntryName.read(env).toolchain == cell.PINNED:
            return super().is_gone(env)
        prefix = Path(environments.prefix(env))
        return environments.whole(prefix) != self.pins_digest(env)

    def pins(self, env: str) -> dict[str, str]:
        """Package to version, for every exact pin of an environment. A wheel has the version in its name, and
        a package that a local build replaces has none."""
        pins = environments.pins(EntryName.read(env).entry)
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
    if process.run_tool([str(python), "-c", f"import {binding}"]).returncode:
        exits.fail(
            f"{name}: the Python bindings of the local build cannot be imported by {python}; "
            f"build them with this Python (-DPython3_EXECUTABLE={python.absolute()})",
            reason="local-build",
        )


@functools.cache
def _declared(env: str) -> Declared:
    return environments.declared(environments.env_file(env))


def selected(draft: Draft) -> dict[str, Toolchain]:
    """Return the toolchains of a run by name: those that the command line selects, else `pinned` and the
    entries with `default: true`."""
    declared: Mapping[str, Mapping[str, Any]] = draft.config.get("toolchains") or {}
    problems, wanted = draft.problems, draft.selections.get("toolchains")
    if PINNED in declared:
        problems.append(
            f"toolchains.{PINNED}: found the name of what envs/ pins, expected another name"
        )
    names = [PINNED, *(name for name, entry in declared.items() if entry.get("default"))]
    if wanted is not None:
        try:
            names = reading.select("toolchain", [PINNED, *declared], wanted)
        except reading.ConfigError as error:
            problems.append(str(error))
    # Those that a toolchain may change.
    envs = dict.fromkeys([IREE_ENV, *(entry.env for entry in draft.known["frontends"].values())])
    return {
        name: Toolchain(PINNED)
        if name == PINNED
        else _read(name, declared[name], envs, draft.root, problems)
        for name in names
    }


def _read(
    name: str, entry: Mapping[str, Any], envs: Collection[str], root: Path, problems: list[str]
) -> Toolchain:
    """Return the toolchain of an entry that has its form."""
    where = f"toolchains.{name}"
    packages: dict[str, str] = {}
    builds: dict[str, str] = {}
    for project, own in PACKAGES.items():
        value = str(entry.get(project, ""))
        if _VERSION.fullmatch(value):
            packages |= dict.fromkeys(own, value)
        elif value:
            folder = _absolute(value, root)
            builds[project] = str(folder)
            try:
                tree_parts(project, folder)
            except TreeError as error:
                problems.append(f"{where}.{project}: {error}")
    for given, value in (entry.get("packages") or {}).items():
        package = environments.package_name(given)
        if any(package in PACKAGES[project] for project in PACKAGES if project in entry):
            problems.append(f"{where}.packages.{given}: is set by another key of the entry too")
        packages[package] = _source(f"{where}.packages.{given}", str(value), root, problems)
    replaced = {package for project in builds for package in PACKAGES[project]}
    limited = entry.get("envs")
    files = {
        env: root / environments.ENV_FOLDER / f"{env}.yaml"
        for env in (envs if limited is None else limited)
    }
    pinned = {
        env: changeable(environments.declared(file), env) & {*packages, *replaced}
        for env, file in files.items()
        if file.is_file()  # else it is reported with the entry that names it
    }
    if not packages and not replaced:
        problems.append(f"{where}: changes nothing; set {', '.join(PACKAGES)} or packages")
    within = f" of {', '.join(limited)}" if limited else ""
    for package in sorted({*packages}.difference(*pinned.values())):
        problems.append(
            f"{where}: no environment{within} that a frontend or IREE uses pins {package}"
        )
    links = entry.get("find_links") or ()
    return Toolchain(
        name=name,
        packages=packages,
        builds=builds,
        find_links=tuple(link if "://" in link else str(_absolute(link, root)) for link in links),
        envs=tuple(env for env, names in pinned.items() if names),
    )


def _source(where: str, value: str, root: Path, problems: list[str]) -> str:
    """Return where a package comes from: a version, a URL, or the absolute path of a wheel."""
    if (_VERSION.fullmatch(value) and not value.endswith(".whl")) or _URL.fullmatch(value):
        return value
    path = _absolute(value, root)
    if path.suffix != ".whl":
        problems.append(f"{where}: found {value!r}, expected {_FORMS}")
    elif not os.path.isfile(path):
        problems.append(f"{where}: no file {path}; expected {_FORMS}")
    return str(path)


def changeable(declared: Declared, env: str) -> set[str]:
    """The packages that an environment pins and a toolchain may change.

    IREE's packages are changed in IREE's environment alone. In others they link programs and read weights,
    which all toolchains share.
    """
    pins = {environments.package_name(requirement) for requirement in declared.requirements}
    return pins if env == IREE_ENV else pins - set(PACKAGES["iree"])


def _absolute(value: str, root: Path) -> Path:
    return (root / Path(value).expanduser()).absolute()


FEATURE = Feature("toolchains", toolchains=selected, environments=Environments)
