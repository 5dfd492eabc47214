"""Checks the flags of targets against iree-compile of their toolchains, before any work starts."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.core import atomic, process
from scripts.iree import compile_options, tools
from scripts.iree.backends import renamed
from scripts.matrix import stages
from scripts.matrix.entries import Target
from scripts.matrix.expansion import flag_lists
from scripts.matrix.rows import Matrix
from scripts.run import environments

KNOWN = "flags.json"
"""The file of an environment's stage with the flags of its iree-compile, and the file of that compiler."""
_FLAG = re.compile(r"^\s+(--?[A-Za-z][\w.-]*)", re.MULTILINE)


def problems(matrix: Matrix) -> list[str]:
    """Return an error message for each flag of a target that iree-compile of its toolchain does not know, or that names a tuning
    spec that does not exist.

    A compiler that is not installed yet is not run; its compilations report unknown flags.
    """
    targets = list(matrix.targets.values())
    lines: dict[str, None] = {}
    for key, flags in (listed for target in targets for listed in flag_lists(target)):
        if (path := compile_options.named_spec(flags)) and not os.path.isfile(path):
            lines[f"{key}: the tuning spec {path} does not exist"] = None
    for env in dict.fromkeys(target.env for target in targets):
        if compiler := tools.compiler_of(Path(environments.prefix(env))):
            known, release = _known(env, compiler)
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


def _known(env: str, compiler: Path) -> tuple[list[str], str]:
    """The flags of a compiler and its release; no flags if it cannot be run. They are kept on disk for as
    long as the compiler is the same file."""
    kept = Path(stages.STAGES["env"].path(env, KNOWN))
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
        if not kept.parent.is_dir():
            return flags, release
        atomic.write_json(kept, {"of": identity, "release": release, "flags": flags})
    return flags, release
