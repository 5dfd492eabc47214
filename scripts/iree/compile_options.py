"""The request of every stage that runs iree-compile for a target, and the flags that a program needs beside those of its
target: one thread with a tuning spec, and float64 where its interface has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import exits
from scripts.core.commands import option
from scripts.core.machine import cpu_vendor
from scripts.iree import tools
from scripts.iree.backends import (
    BACKENDS,
    OPT_LEVELS,
    compile_flags,
    flags_for_cpu,
    release_of,
    renamed,
    unused_plugins,
)

SPEC_FLAG = "--iree-codegen-tuning-spec-path"
"""The flag of iree-compile that takes the file of a tuning spec."""
SPEC_COPY = "tuning_spec.mlir"
"""The file's name in a reproducer."""
SERIAL = "--mlir-disable-threading"
"""The flag with which iree-compile works on one dispatch at a time."""

_DEMOTE = "--iree-input-demote-f64-to-f32"
_BYTECODE = b"ML\xefR"
_TENSOR = re.compile(r"tensor<(?:[^>]*x)?f64>")


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """A target, as the configuration has it."""

    backend: str = option(choices=sorted(BACKENDS))
    arch: str | None = option(
        None, help="CPU name, sm_80, gfx942 or a Vulkan target (default: the backend's)"
    )
    opt_level: str | None = option(None, choices=OPT_LEVELS, help="default: the backend's")
    flags: Sequence[str] = option((), help='JSON list of further flags: ["--a", "--b"]')
    toolchain: str = option("", help="that of this environment (default: the pinned one)")

    def compiler_flags(self) -> list[str]:
        """The flags in the words of iree-compile of this environment. Exits if it does not know the architecture."""
        flags = compile_flags(self.backend, self.arch, self.opt_level, self.flags)
        if not self.toolchain:
            return flags
        version = tools.release(Path(tools.tool("iree-compile")))
        backend = BACKENDS[self.backend]
        since = backend.newer_archs.get(self.arch or backend.arch)
        if since and (release_of(version) or since) < since:
            exits.fail(
                f"unknown target: IREE knows {backend.arch_flag}={self.arch} since {since[0]}.{since[1]}, the "
                f"toolchain {self.toolchain} has {version}",
                reason="unknown-target",
            )
        return renamed(flags, version)


@dataclass(frozen=True, kw_only=True)
class CompileRequest(TargetOptions):
    """One program for a target: what scripts.stages.compile_iree is asked for, and other stages that compile it."""

    program: Path

    def added_flags(self) -> list[str]:
        """The flags of the program and of this machine's CPU beside those of its target."""
        arch = self.arch or BACKENDS[self.backend].arch
        return [
            *flags_for_cpu(arch, self.flags, cpu_vendor()),
            *flags_for_program(self.program, self.flags),
        ]

    def compiler_flags(self) -> list[str]:
        return [*super().compiler_flags(), *flags_for_program(self.program, self.flags)]

    def faster_flags(self, flags: Sequence[str]) -> list[str]:
        """Flags beside `flags` with which the compiler makes the same module in less time. They belong to no key of a cache
        and no reproducer."""
        return unused_plugins(flags, _program_text(self.program))


def named_spec(flags: Iterable[str]) -> Path | None:
    """The tuning spec that flags of iree-compile name; None if they name none. Of several, the compiler takes the last."""
    values = [
        value for name, _, value in (flag.partition("=") for flag in flags) if name == SPEC_FLAG
    ]
    return Path(values[-1]) if values else None


def flags_in_bundle(flags: Iterable[str]) -> list[str]:
    """Flags with the copy of the spec in a reproducer in place of the file that they name."""
    return [
        f"{SPEC_FLAG}={SPEC_COPY}" if flag.partition("=")[0] == SPEC_FLAG else flag
        for flag in flags
    ]


def flags_for_program(program: Path, given: Sequence[str] = ()) -> list[str]:
    """The flags that a program needs where `given` are those of its target.

    With a tuning spec and several threads, iree-compile 3.13 hangs at times (2 of 52 compilations of one program): a thread reads
    the spec under a lock, takes another dispatch while it waits for a part of that, and wants the lock again
    (IREECodegenDialect::getOrLoadTransformLibraryModule; https://github.com/iree-org/iree/issues/22842 is similar).
    """
    serial = [SERIAL] if named_spec(given) else []
    return [*flags_keeping_float64(_program_text(program), given), *serial]


def flags_keeping_float64(program: str, given: Sequence[str] = ()) -> list[str]:
    """The flags that keep float64 for a program (its text). None if weights, inputs and results have no float64, or if
    `given` says something about it.

    By default iree-compile computes float64 in float32, also in the weights, inputs and results of a program.
    Then their types no longer fit the archive and the golden results: IREE 3.13 stops with
    "'flow.tensor.constant' op failed to verify …", or a result has half of its bytes. Many programs of
    float32 models have float64 inside (scalars, and what a frontend widens), which is computed in float32.
    """
    if any(flag.startswith(_DEMOTE) for flag in given) or not has_float64_interface(program):
        return []
    return [f"{_DEMOTE}=false"]


def has_float64_interface(text: str) -> bool:
    """Whether a weight, an input or a result of a program is float64."""
    for line in text.splitlines():
        of_main = "@main(" in line
        if (of_main or line.lstrip().startswith("util.global ")) and _TENSOR.search(line):
            return True
        if of_main:
            return False
    return False


def _program_text(program: Path) -> str:
    content = program.read_bytes()
    if not content.startswith(_BYTECODE):
        return content.decode("utf-8", errors="replace")
    from iree.compiler import ir  # only for a frontend with `ir_format: bytecode`

    with ir.Context():
        return str(ir.Module.parse(content))
