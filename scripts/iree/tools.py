"""IREE's command-line tools, found in this environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, exits, process

_PROGRAMS = ("iree/compiler/_mlir_libs", "iree/_runtime_libs")
"""Folders below site-packages in which the wheels install their programs."""


def tool(name: str) -> str:
    """Return the path of a tool in this environment, or else on PATH. Exits if there is none."""
    beside = Path(sysconfig.get_path("scripts")) / name
    tool = program(name, Path(sys.prefix)) or beside
    if tool.exists():
        return str(tool)
    on_path = shutil.which(name)
    if on_path is None:
        exits.fail(f"{name} is neither in the folder of {sys.executable} nor on PATH")
    return on_path


def program(name: str, environment: Path) -> Path | None:
    """Return the program of a tool in an environment, or None if the wheels did not install it.

    The wheels also install Python scripts with these names. The scripts start the program as a child process and turn a
    signal into an exit code (248 for SIGFPE), so a crash would look like an ordinary failure.
    """
    for site in environment.glob("lib/python*/site-packages"):
        for folder in _PROGRAMS:
            if (site / folder / name).is_file():
                return site / folder / name
    return None


def printed(name: str, *words: str) -> str:
    """Return what a tool prints. Exits with its message if it fails."""
    done = process.captured([tool(name), *words])
    if done.returncode:
        exits.fail(f"{name}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def compile_program(program: Path, flags: Iterable[str], out: str | Path = "/dev/null") -> None:
    """Run iree-compile. If it fails, this process ends in the same way."""
    process.require_tool([tool("iree-compile"), *flags, str(program), "-o", str(out)])


@dataclass(frozen=True)
class Compiled:
    """The outcome of a run of a Compiler. `returncode`: negative for a signal, None at the time limit. `log`: what it printed."""

    returncode: int | None
    log: str


@dataclass(frozen=True)
class Compiler:
    """iree-compile of this environment with some flags, for commands that try many programs. `folder`: for its files."""

    flags: tuple[str, ...]
    folder: Path

    def run(self, text: str, limit_s: float, out: Path = Path("/dev/null")) -> Compiled:
        """Compile a program into the file `out`."""
        (self.folder / "program.mlir").write_text(text, encoding="utf-8")
        try:
            done = process.captured(
                [tool("iree-compile"), *self.flags, "program.mlir", "-o", str(out)],
                self.folder,
                limit_s,
            )
        except subprocess.TimeoutExpired:
            return Compiled(None, f"iree-compile took more than {limit_s:.0f} s")
        return Compiled(done.returncode, done.stdout + done.stderr)


def parse_problem(program: Path) -> str:
    """Return why the tools of this environment cannot read a program, which the pinned version has written; "" if they
    can. iree-opt without passes parses and verifies a program."""
    command = [tool("iree-opt"), str(program), "-o", "/dev/null"]
    done = process.captured(command)
    if done.returncode == 0:
        return ""
    error = _ERROR.search(done.stderr)
    return error["message"].strip() if error else f"iree-opt ended with {done.returncode}"


def version(compiler: Path) -> str:
    """Return what iree-compile says about its version, with its commit, or "" if it cannot be run."""
    try:
        done = process.captured([compiler, "--version"])
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.strip()


def identity(compiler: Path) -> str:
    """Return what tells iree-compile from other builds: what it says about its version, and the digests of its files. Local builds of
    different code may say the same."""
    own = compiler.resolve()
    libraries = (
        path.glob("libIREECompiler.so*") for path in (own.parent, own.parent.parent / "lib")
    )
    files = [own, *(path for there in libraries for path in sorted(there))]
    return (
        f"{version(compiler)} {[str(atomic.digest_of(path)) for path in files if path.is_file()]}"
    )


SAID = "tools.json"
"""The file of an environment's stage with what its tools say about their versions."""
_ERROR = re.compile(r"error: (?P<message>.+)$", re.MULTILINE)
_IDENTITY = re.compile(r"version (?P<version>\S+)(?: @ (?P<commit>[0-9a-f]{7,40}))?")


def said(environment: Path) -> dict[str, str]:
    """Return what the tools of an environment say about their versions, by tool; {} if it has none."""
    compiler = compiler_of(environment)
    return {"iree-compile": version(compiler)} if compiler else {}


def compiler_of(environment: Path) -> Path | None:
    """Return iree-compile of an environment: that of a wheel, or of a local build."""
    linked = environment / "bin" / "iree-compile"
    return program("iree-compile", environment) or (linked if linked.is_symlink() else None)


def identified(text: str) -> str:
    """Return version and commit of what iree-compile says: `3.13.0rc20261016 @ 89ece87b8985`; "" if it has none."""
    identity = _IDENTITY.search(text)
    if identity is None:
        return ""
    commit = identity["commit"]
    return f"{identity['version']} @ {commit[:12]}" if commit else identity["version"]


def release(compiler: Path) -> str:
    """Return the version that iree-compile prints: `3.13.0rc20261016`; "" if it prints none."""
    return identified(version(compiler)).partition(" ")[0]
