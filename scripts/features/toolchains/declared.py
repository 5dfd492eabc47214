"""Reads the toolchains of a configuration: versions, wheels or local builds of packages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.features.toolchains import build_trees
from scripts.features.toolchains.build_trees import TreeError
from scripts.matrix import env_files, settings
from scripts.matrix.env_files import PACKAGES
from scripts.matrix.stage import IREE_ENV
from scripts.matrix.toolchains import PINNED, Toolchain

_VERSION = re.compile(r"[0-9][A-Za-z0-9.+!]*")
_URL = re.compile(r"(https?|file)://\S+\.whl(#\S*)?")
_FORMS = "a version, or the path or URL of a wheel"


def selected(
    config: Mapping[str, Any],
    wanted: str | None,
    envs: Iterable[str],
    root: Path,
    problems: list[str],
) -> dict[str, Toolchain]:
    """Return the toolchains of a run by name: those that the command line selects, else `pinned` and the
    entries with `default: true`.

    `envs`: the environments that a toolchain may change. Errors are added to `problems`.
    """
    declared: Mapping[str, Mapping[str, Any]] = config.get("toolchains") or {}
    if PINNED in declared:
        problems.append(
            f"toolchains.{PINNED}: found the name of what envs/ pins, expected another name"
        )
    by_default = [PINNED, *(name for name, one in declared.items() if one.get("default"))]
    names = by_default
    if wanted is not None:
        try:
            names = settings.select("toolchain", [PINNED, *declared], wanted)
        except settings.ConfigError as error:
            problems.append(str(error))
    envs = dict.fromkeys(envs)
    return {
        name: Toolchain(PINNED)
        if name == PINNED
        else _read(name, declared[name], envs, root, problems)
        for name in names
    }


def _read(
    name: str, entry: Mapping[str, Any], envs: Collection[str], root: Path, problems: list[str]
) -> Toolchain:
    """Return the toolchain of an entry that the schema has checked."""
    where = f"toolchains.{name}"
    packages: dict[str, str] = {}
    builds: dict[str, str] = {}
    for project, own in PACKAGES.items():
        value = str(entry.get(project, ""))
        if _VERSION.fullmatch(value):
            packages |= dict.fromkeys(own, value)
        elif value:
            builds[project] = str(_absolute(value, root))
            problems += _tree_problems(f"{where}.{project}", project, Path(builds[project]))
    for given, value in (entry.get("packages") or {}).items():
        package = env_files.package(given)
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
        find_links=tuple(_link(one, root) for one in entry.get("find_links") or ()),
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


def _tree_problems(where: str, project: str, folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        yield f"{where}: no folder {folder}; expected a version, or the folder of a build or install tree"
        return
    try:
        build_trees.parts(project, folder)
    except TreeError as error:
        yield f"{where}: {error}"


def _changed(packages: Collection[str], envs: Iterable[str], root: Path) -> dict[str, set[str]]:
    """Return which of the packages each environment pins, for those that pin any.

    IREE's packages are changed in IREE's environment alone. In others they link programs and read weights,
    which all toolchains share.
    """
    found: dict[str, set[str]] = {}
    for env in envs:
        file = root / env_files.FOLDER / f"{env}.yaml"
        if not file.is_file():
            continue  # reported with the entry that names it
        pins = {env_files.package(one) for one in env_files.declared(file).requirements}
        own = pins & set(packages)
        if env != IREE_ENV:
            own -= set(PACKAGES["iree"])
        if own:
            found[env] = own
    return found


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
