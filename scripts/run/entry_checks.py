"""Checks of the entries of a configuration against the environments, before any work starts: packages that an environment's lock has,
and options and flags of inductor, XLA and iree-compile. An environment that is not made yet is not asked; its stages report what they do not take.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.config import plugins, stages
from scripts.config.cell import EntryName
from scripts.config.entries import Baseline, Target
from scripts.config.expansion import flag_lists
from scripts.config.rows import Matrix
from scripts.core import atomic, checkout, process
from scripts.iree import compile_options, tools
from scripts.iree.backends import renamed
from scripts.run import environments

FLAGS = "flags.json"
"""The file of an environment's stage with the flags of its iree-compile, and the file of that compiler."""
_FLAG = re.compile(r"^\s+(--?[A-Za-z][\w.-]*)", re.MULTILINE)
_INDUCTOR = "torch/_inductor/config.py"
_XLA_FLAG = re.compile(r"--(xla_[a-z0-9_]+)(=.*)?")
_XLA_LIBRARIES = {"jaxlib": "jaxlib/libjax_common.so", "torch-xla": "_XLAC*.so"}
"""By the distribution that has XLA, the file in its environment that has it."""


def problems(matrix: Matrix) -> Iterator[str]:
    """Error messages about the entries of a matrix: the packages that they need, `compile.options` and `xla_flags`."""
    for name, frontend in matrix.all_frontends().items():
        packages = tuple(plugins.exporter(frontend.exporter).versions)
        yield from _package_problems(f"frontends.{_declared(name)}", frontend.env, packages)
    for name, baseline in matrix.all_baselines().items():
        where, packages = f"baselines.{_declared(name)}", tuple(plugins.runtime(baseline.runtime).versions)  # fmt: skip
        yield from _package_problems(where, baseline.env, packages)
        yield from _option_problems(where, baseline)
        yield from _xla_problems(where, baseline, packages)
    yield from _package_problems("reference", matrix.reference_env, ("torch",))


def _declared(name: str) -> str:
    """The name of the entry of the configuration from which one is."""
    return EntryName.read(name).entry


def _package_problems(where: str, env: str, needed: tuple[str, ...]) -> Iterator[str]:
    """An error message if an environment lacks a package that an entry needs."""
    packages = _locked(EntryName.read(env).entry)
    if not packages:  # the stage that makes the environment says what is wrong with its lock
        return
    if missing := [name for name in needed if environments.package_name(name) not in packages]:
        suitable = [
            path.stem
            for path in sorted((checkout.ROOT / environments.ENV_FOLDER).glob("*.yaml"))
            if {*map(environments.package_name, needed)} <= {*_locked(path.stem)}
        ]
        yield f"{where}.env: found {env!r}, which has no {', '.join(missing)}; expected {' or '.join(suitable)}"  # fmt: skip


@functools.cache
def _locked(env: str) -> frozenset[str]:
    """The packages of an environment's lock; none if it cannot be read."""
    try:
        return frozenset(environments.read_lock(environments.lock_file(environments.env_file(env))))
    except (OSError, environments.LockError):
        return frozenset()


def _option_problems(where: str, baseline: Baseline) -> Iterator[str]:
    """Error messages about `compile.options` that torch._inductor.config does not have."""
    file = _installed(baseline.env, _INDUCTOR)
    if not baseline.compile.get("options") or file is None:
        return
    known = inductor_options(file)
    for name in baseline.compile["options"]:
        if name.replace("-", "_") not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            yield f"{where}.compile.options.{name}: torch._inductor.config of the environment {baseline.env} has no such option{hint}"


def inductor_options(file: Path) -> list[str]:
    """The names of the options that torch's module of Inductor's configuration declares: variables, and those of classes with
    the names of the classes before them (`cpp.threads`)."""
    names: list[str] = []

    def collect(statements: list[ast.stmt], prefix: str) -> None:
        for node in statements:
            match node:
                case ast.ClassDef(name=name, body=body, bases=bases):
                    for base in bases:
                        above = f"{prefix}{ast.unparse(base)}."
                        inherited = [known.removeprefix(above) for known in names if known.startswith(above)]  # fmt: skip
                        names.extend(f"{prefix}{name}.{own}" for own in inherited)
                    collect(body, f"{prefix}{name}.")
                case ast.If(body=body, orelse=orelse):
                    collect([*body, *orelse], prefix)
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):  # fmt: skip
                    names.append(f"{prefix}{name}")

    collect(ast.parse(file.read_bytes()).body, "")
    return names


def _xla_problems(where: str, baseline: Baseline, packages: tuple[str, ...]) -> Iterator[str]:
    """Error messages about `xla_flags` of another form, or whose names are not in the library that has XLA."""
    words = [word for word in baseline.xla_flags.split() if word.startswith("-")]
    if baseline.xla_flags and not words:
        yield f"{where}.xla_flags: found {baseline.xla_flags!r}, expected flags such as --xla_gpu_autotune_level=0"  # fmt: skip
    of_xla = {environments.package_name(name) for name in packages} & _XLA_LIBRARIES.keys()
    library = next((file for name in of_xla if (file := _installed(baseline.env, _XLA_LIBRARIES[name]))), None)  # fmt: skip
    for word in words:
        match = _XLA_FLAG.fullmatch(word)
        if match is None:
            yield f"{where}.xla_flags: found {word!r}, expected flags of XLA, such as --xla_gpu_autotune_level=0"  # fmt: skip
        elif library and not _has(library, f"{match[1]}\0".encode()):
            yield f"{where}.xla_flags: {library.name} of the environment {baseline.env} does not know --{match[1]}"


def _installed(env: str, pattern: str) -> Path | None:
    """A file of a package in an environment that is made; None without it."""
    folders = Path(environments.prefix(env)).glob("lib/python3*/site-packages")
    return next((file for folder in folders for file in folder.glob(pattern)), None)


def _has(file: Path, text: bytes) -> bool:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0


def flag_problems(matrix: Matrix) -> list[str]:
    """An error message for each flag of a target that iree-compile of its toolchain does not know, or that names a tuning spec
    that does not exist."""
    targets = list(matrix.targets.values())
    lines: dict[str, None] = {}
    for key, flags in (listed for target in targets for listed in flag_lists(target)):
        if (path := compile_options.named_spec(flags)) and not os.path.isfile(path):
            lines[f"{key}: the tuning spec {path} does not exist"] = None
    for env in dict.fromkeys(target.env for target in targets):
        if compiler := tools.compiler_of(Path(environments.prefix(env))):
            known, release = _flags(env, compiler)
            for target in targets:
                if target.env == env and known:
                    lines |= dict.fromkeys(_unknown(target, known, release))
    return list(lines)


def _unknown(target: Target, known: Sequence[str], release: str) -> Iterator[str]:
    for key, flags in flag_lists(target):
        for flag in renamed(flags, release):
            name = flag.partition("=")[0]
            if name not in known and name.replace("--", "-", 1) not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                yield f"{key}: iree-compile {release} does not know {name}{hint}"


def _flags(env: str, compiler: Path) -> tuple[list[str], str]:
    """The flags of a compiler and its release; no flags if it cannot be run. They are kept on disk for as
    long as the compiler is the same file."""
    kept = Path(stages.STAGES["env"].path(env, FLAGS))
    stat = compiler.stat()
    identity = [str(compiler.resolve()), stat.st_size, stat.st_mtime_ns]
    with contextlib.suppress(OSError, ValueError):
        before = atomic.read_json(kept)
        if before.get("of") == identity:
            return before["flags"], before["release"]
    release = tools.release(compiler)
    done = process.captured([compiler, "--help-hidden"])
    if done.returncode != 0:
        return [], release
    flags = sorted({*_FLAG.findall(done.stdout)})
    # A plan makes no folder, and one may be read-only: the next run calls the compiler again.
    with contextlib.suppress(OSError):
        if kept.parent.is_dir():
            atomic.write_json(kept, {"of": identity, "release": release, "flags": flags})
    return flags, release
