"""Reads the toolchains of a configuration: versions, wheels or local builds of packages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.features.toolchains import build_trees
from scripts.features.toolchains.build_trees import TreeError
from scripts.matrix import reading
from scripts.matrix.cell import PINNED, Toolchain
from scripts.matrix.feature import Draft
from scripts.matrix.stage import IREE_ENV
from scripts.run import environments
from scripts.run.environments import PACKAGES, Declared

_VERSION = re.compile(r"[0-9][A-Za-z0-9.+!]*")
_URL = re.compile(r"(https?|file)://\S+\.whl(#\S*)?")
_FORMS = "a version, or the path or URL of a wheel"


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
    own = {
        name: _read(name, declared[name], envs, draft.root, problems)
        for name in names
        if name != PINNED
    }
    return {name: own.get(name) or Toolchain(PINNED) for name in names}


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
                build_trees.parts(project, folder)
            except TreeError as error:
                problems.append(f"{where}.{project}: {error}")
    for given, value in (entry.get("packages") or {}).items():
        package = environments.package_name(given)
        if any(package in PACKAGES[project] for project in PACKAGES if project in entry):
            problems.append(f"{where}.packages.{given}: is set by another key of the entry too")
        packages[package] = _source(f"{where}.packages.{given}", str(value), root, problems)
    replaced = {package for project in builds for package in PACKAGES[project]}
    limited = entry.get("envs")
    changed = _changed({*packages, *replaced}, envs if limited is None else limited, root)
    problems += _unused(where, entry, changed, packages, replaced)
    return Toolchain(
        name=name,
        packages=packages,
        builds=builds,
        find_links=tuple(_link(link, root) for link in entry.get("find_links") or ()),
        envs=tuple(changed),
    )


def _source(where: str, value: str, root: Path, problems: list[str]) -> str:
    """Return where a package comes from: a version, a URL, or the absolute path of a wheel."""
    if (_VERSION.fullmatch(value) and not value.endswith(".whl")) or _URL.fullmatch(value):
        return value
    path = _absolute(value, root)
    if path.suffix != ".whl":
        problems.append(f"{where}: found {value!r}, expected {_FORMS}")
    elif not path.is_file():
        problems.append(f"{where}: no file {path}; expected {_FORMS}")
    return str(path)


def changeable(declared: Declared, env: str) -> set[str]:
    """The packages that an environment pins and a toolchain may change.

    IREE's packages are changed in IREE's environment alone. In others they link programs and read weights,
    which all toolchains share.
    """
    pins = {environments.package_name(requirement) for requirement in declared.requirements}
    return pins if env == IREE_ENV else pins - set(PACKAGES["iree"])


def _changed(packages: Collection[str], envs: Iterable[str], root: Path) -> dict[str, set[str]]:
    """Which of the packages each environment pins, for those that pin any."""
    files = {env: root / environments.ENV_FOLDER / f"{env}.yaml" for env in envs}
    own = {
        env: changeable(environments.declared(file), env) & set(packages)
        for env, file in files.items()
        if file.is_file()  # else it is reported with the entry that names it
    }
    return {env: pinned for env, pinned in own.items() if pinned}


def _unused(
    where: str,
    entry: Mapping[str, Any],
    changed: Mapping[str, set[str]],
    packages: Collection[str],
    replaced: Collection[str],
) -> Iterator[str]:
    """Yield error messages about an entry that changes nothing, and about packages that nothing pins."""
    if not packages and not replaced:
        yield f"{where}: changes nothing; set {', '.join(PACKAGES)} or packages"
    used = {package for own in changed.values() for package in own}
    within = f" of {', '.join(entry['envs'])}" if entry.get("envs") else ""
    for package in sorted({*packages} - used):
        yield f"{where}: no environment{within} that a frontend or IREE uses pins {package}"


def _absolute(value: str, root: Path) -> Path:
    return (root / Path(value).expanduser()).absolute()


def _link(value: str, root: Path) -> str:
    """A page, or the absolute path of a folder."""
    return value if "://" in value else str(_absolute(value, root))
