"""Command-line options of every stage that runs iree-compile for a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import exits
from scripts.core.commands import option
from scripts.iree import added_flags, tools
from scripts.iree.backends import BACKENDS, OPT_LEVELS, compile_flags, release_of, renamed


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
class CompileOptions(TargetOptions):
    """One program for a target."""

    program: Path

    def added_flags(self) -> list[str]:
        """The flags that the program needs beside those of its target."""
        return added_flags.for_program(self.program, self.flags)

    def compiler_flags(self) -> list[str]:
        return [*super().compiler_flags(), *self.added_flags()]
