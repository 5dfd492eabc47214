"""Say what this machine can do, and what to do about what it lacks.

It runs nothing of the workflow. Exits with 1 if the default run would not work here.
"""

from __future__ import annotations

import argparse
import ctypes.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts.core import checkout, machine, process
from scripts.iree import compile_cache, tools
from scripts.iree.backends import BACKENDS
from scripts.run import environments, installing
from scripts.supervise import sandbox

OLDEST_PYTHON = (3, 11)
MEMORY_GB, RESULTS_GB = 8, 5
ENVIRONMENTS_GB = {"iree": 1, "torch-mlir": 6, "torch-xla": 8}
"""What the default run takes (README.md), and its environments on the disk."""
LIBRARIES = {"cuda": "cuda", "rocm": "amdhip64", "vulkan": "vulkan"}
"""The driver library that IREE opens, by the kind of device."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, what was found, and what to do ("" if nothing). `needed`: by the default run."""

    what: str
    found: str
    advice: str = ""
    needed: bool = False


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    findings = list(look())
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        advice = f" → {finding.advice}" if finding.advice else ""
        print(f"{finding.what:<{width}}  {finding.found}{advice}")
    raise SystemExit(any(finding.needed and finding.advice for finding in findings))


def look() -> Iterator[Finding]:
    """Yield the findings, in the order in which a run needs them."""
    yield _python()
    yield from _installers()
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), "")
    without = "install g++; without it the rows of inductor are errors"
    yield Finding("C++ compiler", compiler or "none", "" if compiler else without, needed=True)
    yield Finding("CPU", f"{machine.cpu_name()}, {machine.physical_cores()} cores")
    yield from _devices()
    yield _amount("memory", psutil.virtual_memory().available, MEMORY_GB, "select fewer models")
    place = Path(environments.prefix("iree"))
    free = shutil.disk_usage(next(folder for folder in place.parents if folder.is_dir())).free
    to_make = (gb for env, gb in ENVIRONMENTS_GB.items() if not _is_made(env))
    disk_gb = RESULTS_GB + sum(to_make)
    yield _amount("disk", free, disk_gb, "docs/disk.md says what can be deleted")
    yield _compilations()
    yield _sandbox()
    yield Finding("workflow", str(checkout.ROOT))
    names = sorted(file.stem for file in (checkout.ROOT / "envs").glob("*.yaml"))
    yield _folder_of(names)
    yield from map(_environment, names)


def _python() -> Finding:
    version = platform.python_version()
    right = sys.version_info[:2] >= OLDEST_PYTHON
    oldest = ".".join(map(str, OLDEST_PYTHON))
    advice = "" if right else f"use {oldest} or later"
    return Finding("Python", f"{version} ({sys.executable})", advice, needed=True)


def _installers() -> Iterator[Finding]:
    uv = installing.uv_program()
    advice = "" if uv else "python -m pip install -r requirements.txt"
    yield Finding("uv", _first_line(uv, "--version") if uv else "none", advice, needed=True)
    conda = _first_line("conda", "--version")
    yield Finding("conda", conda or "none (only for --sdm conda)")


def _devices() -> Iterator[Finding]:
    """The devices of each backend other than the CPU: by IREE's runtime where it is installed, and the driver library."""
    runtime = Path(environments.prefix("iree")) / "bin" / "iree-run-module"
    for backend in BACKENDS.values():
        kind = backend.device_kind
        if kind == "cpu":
            continue
        library = ctypes.util.find_library(LIBRARIES[kind])
        listed = (
            _first_line(str(runtime), f"--list_devices={backend.drivers[0]}")
            if runtime.is_file() and library
            else ""
        )
        drivers = listed or (f"driver library {library}" if library else "no driver library")
        if driver := _driver(kind):
            drivers += f", driver {driver}"
        advice = "" if library else f"programs for {backend.name} are compiled and not run"
        yield Finding(f"device: {kind}", drivers, advice)


def _driver(kind: str) -> str:
    """The version of the kernel driver of a kind of device; "" if it does not say."""
    if kind == "cuda":
        return _first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    file = Path("/sys/module/amdgpu/version")
    return file.read_text(encoding="ascii").strip() if kind == "rocm" and file.is_file() else ""


def _amount(what: str, free: int, wanted_gb: int, advice: str) -> Finding:
    enough = free >= wanted_gb * 1e9
    lacking = "" if enough else f"the default run takes {wanted_gb} GB: {advice}"
    return Finding(what, f"{free / 1e9:.0f} GB free", lacking, needed=True)


def _compilations() -> Finding:
    what = "shared compilations"
    try:
        cache = compile_cache.of_environment()
    except ValueError as error:
        return Finding(what, "not usable", str(error), needed=True)
    if cache is None:
        return Finding(what, f"none ({compile_cache.FOLDER} is not set)")
    return Finding(what, f"{cache.folder}, at most {cache.most_bytes / 1e9:g} GB")


def _sandbox() -> Finding:
    """Whether stages of model files that are not trusted run in one."""
    if why := sandbox.unavailable():
        advice = "model files are only checked: run those of unknown origin in a container or a virtual machine"
        return Finding("sandbox", f"none ({why})", advice)
    return Finding("sandbox", "user namespaces")


def _is_made(environment: str) -> bool:
    pins = environments.whole(Path(environments.prefix(environment)))
    return pins == environments.pins_digest(environment)


def _folder_of(names: Iterable[str]) -> Finding:
    """Where these environments are. In a shared folder, those of earlier versions stay."""
    shared = checkout.shared_environments()
    if not (shared and shared.is_dir()):
        return Finding("environments", str(shared or checkout.ROOT / ".venvs"))
    digests = {path.parent.name for path in shared.glob("*/*/")}
    others = len(digests - {*map(environments.pins_digest, names)})
    advice = f"folders of other versions of vmfbench: {others}; delete what none uses"
    return Finding("environments", str(shared), advice if others else "")


def _environment(name: str) -> Finding:
    folder = Path(environments.prefix(name))
    what = f"environment {name}"
    if not environments.whole(folder):
        return Finding(what, "not made", _python_for(name))
    if not _is_made(name):
        return Finding(what, "made from other pins", "made again by the next run that needs it")
    compiler = tools.compiler_of(folder)
    said = f"made with Python {installing.python_of(folder) or 'of unknown version'}"
    return Finding(what, f"{said}{f', iree-compile {tools.release(compiler)}' if compiler else ''}")


def _python_for(name: str) -> str:
    """What to do about an environment that is not made, by the versions of Python of its lock that are here."""
    file = environments.env_file(name)
    pinned, *others = environments.lock_pythons(
        environments.lock_file(file), environments.declared(file).python
    )
    usual = "made by the first run that needs it"
    if not installing.uv_program():
        return usual
    here = next((python for python in (pinned, *others) if installing.find_python(python)), "")
    if here == pinned:
        return usual
    without = f"Python {here} is taken" if here else f"install {' or '.join((pinned, *others))}"
    return f"{usual}; uv downloads Python {pinned}, else {without}"


def _first_line(*command: str) -> str:
    """The first line that a command prints; "" if it fails."""
    try:
        done = process.captured(command, timeout_s=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""
