"""Checks of the entries of a configuration against the environments, before any work starts: packages that an environment's lock has,
and flags that iree-compile knows. An environment that is not made yet is not asked; its stages report what they do not take.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.core import atomic, checkout, process
from scripts.iree import compile_options, tools
from scripts.iree.backends import renamed
from scripts.matrix import plugins, stages
from scripts.matrix.cell import EntryName
from scripts.matrix.entries import Target
from scripts.matrix.expansion import flag_lists
from scripts.matrix.rows import Matrix
from scripts.run import environments

FLAGS = "flags.json"
"""The file of an environment's stage with the flags of its iree-compile, and the file of that compiler."""
_FLAG = re.compile(r"^\s+(--?[A-Za-z][\w.-]*)", re.MULTILINE)
_XLA_FLAG = re.compile(r"--xla_[a-z0-9_]+(=.*)?")


def problems(matrix: Matrix) -> Iterator[str]:
    """Error messages about packages that entries of a matrix need, and about their `xla_flags`."""
    for name, frontend in matrix.all_frontends().items():
        packages = tuple(plugins.exporter(frontend.exporter).versions)
        yield from _package_problems(f"frontends.{_declared(name)}", frontend.env, packages)
    for name, baseline in matrix.all_baselines().items():
        where, packages = f"baselines.{_declared(name)}", tuple(plugins.runtime(baseline.runtime).versions)  # fmt: skip
        yield from _package_problems(where, baseline.env, packages)
        # XLA refuses a flag that it does not know, but takes a text without flags for the name of a file.
        words = [word for word in baseline.xla_flags.split() if word.startswith("-")]
        wrong = next((word for word in words if not _XLA_FLAG.fullmatch(word)), "")
        if wrong or (baseline.xla_flags and not words):
            yield f"{where}.xla_flags: found {(wrong or baseline.xla_flags)!r}, expected flags of XLA, such as --xla_gpu_autotune_level=0"  # fmt: skip
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
