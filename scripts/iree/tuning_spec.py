"""The flag of iree-compile for a tuning spec, and what a compilation with it needs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FLAG = "--iree-codegen-tuning-spec-path"
"""The flag of iree-compile that takes the file."""
COPY = "tuning_spec.mlir"
"""The file's name in a reproducer."""
SERIAL = "--mlir-disable-threading"
"""The flag with which iree-compile works on one dispatch at a time."""


def serial(flags: Iterable[str]) -> list[str]:
    """The flag that a compilation needs if its flags name a tuning spec.

    With several threads, iree-compile 3.13 hangs at times (2 of 52 compilations of one program): a thread reads the spec
    under a lock, takes another dispatch while it waits for a part of that, and wants the lock again
    (IREECodegenDialect::getOrLoadTransformLibraryModule; https://github.com/iree-org/iree/issues/22842 is similar).
    """
    return [SERIAL] if named(flags) else []


def named(flags: Iterable[str]) -> Path | None:
    """The tuning spec that flags of iree-compile name; None if they name none. Of several, the compiler takes the last."""
    values = [value for name, _, value in (flag.partition("=") for flag in flags) if name == FLAG]
    return Path(values[-1]) if values else None


def in_bundle(flags: Iterable[str]) -> list[str]:
    """Flags with the copy of the spec in a reproducer in place of the file that they name."""
    return [f"{FLAG}={COPY}" if flag.partition("=")[0] == FLAG else flag for flag in flags]
