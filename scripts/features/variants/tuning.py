"""Tuning: the candidates for a model on a target, and the results that a target may use later.

A candidate is a lowering path, an opt level, a flag set and a preprocessing pass (flag_sets.py).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scripts.features.variants import flag_sets
from scripts.features.variants.candidates import Candidate
from scripts.features.variants.flag_sets import FlagSet
from scripts.iree import tuning_spec
from scripts.matrix import reading
from scripts.matrix.reading import ConfigError
from scripts.matrix.ways import Variant

TUNED = "tuned"
AS_CONFIGURED = "default"
FRONTENDS = (TUNED, AS_CONFIGURED)
"""The frontends of rows of results/tuned.csv: the fastest candidate, and the fastest one that the
configuration has anyway. No frontend of a configuration has these names."""
AUTO = "auto"
"""The value of a target's key `tuned`: use the kept results in FOLDER."""
FOLDER = Path("results/tuned")


def candidates(
    backend: str, configured: Sequence[Variant], frontends: Iterable[str], table: flag_sets.Table
) -> list[Candidate]:
    """Return what is tried, each variant once, in order: what is configured, then all combinations.

    `configured`: what the target compiles, a variant for each lowering path. `frontends`: those whose
    programs are tried. The combinations of the first configured opt level come first.
    """
    tried = [
        Candidate(f"{asked.frontend}-as-configured", asked.frontend, asked.opt_level, asked.flags, configured=True)
        for asked in configured
    ]  # fmt: skip
    levels = [*(asked.opt_level for asked in configured), *table.opt_levels.get(backend, ())]
    for level in dict.fromkeys(levels):
        for sets in _combined(backend, level, table):
            flags = tuple(flag for chosen in sets for flag in chosen.flags)
            needs, avoid = (
                tuple(dict.fromkeys(name for chosen in sets for name in getattr(chosen, key)))
                for key in ("needs", "avoid")
            )
            for frontend in frontends:
                name = "-".join([frontend, level, *(chosen.name for chosen in sets)])
                tried.append(Candidate(name, frontend, level, flags, needs=needs, avoid=avoid))
    found: dict[Variant, Candidate] = {}
    for candidate in tried:
        found.setdefault(candidate.variant, candidate)
    return list(found.values())


def _combined(backend: str, level: str, table: flag_sets.Table) -> Iterator[list[FlagSet]]:
    """Yield at most one flag set together with at most one preprocessing, for an opt level."""

    def fitting(section: dict[str, FlagSet]) -> list[list[FlagSet]]:
        return [[]] + [
            [entry]
            for entry in section.values()
            if backend in entry.backends and level in (entry.opt_levels or (level,))
        ]

    for before in fitting(table.preprocessing):
        for chosen in fitting(table.flag_sets):
            yield chosen + before


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of FOLDER: what tuning a model (with these `options`) for a target has found.

    `kept`: whether it is used, and `why`. What it compiles is `frontend`, `opt_level` and `flags` (which may name a
    tuning spec), for `backend` and `arch`, on `device`, the name of which is `device_name`, with `threads` (None: not a
    CPU). `versions`: of the packages by the names of records. `latency_ms` is that of the last timing, `default_ms` that
    of the configured way that was the fastest, and `speedup` their ratio with the ends of its interval (None without a
    default).
    """

    model: str
    target: str
    options: dict[str, Any]
    kept: bool
    why: str
    frontend: str | None = None
    opt_level: str | None = None
    flags: tuple[str, ...] = ()
    backend: str
    arch: str
    device: str
    device_name: str | None = None
    threads: int | None = None
    versions: dict[str, str] = {}
    latency_ms: float | None = None
    default_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None


def path_of(model: str, target: str, folder: Path = FOLDER) -> Path:
    """Return the file with the result of tuning a model for a target."""
    return folder / model / f"{target}.yaml"


def read(path: Path) -> Result | None:
    """Read such a file; None if there is none. Raises ConfigError that names the file and what is wrong."""
    if not path.exists():
        return None
    try:
        return msgspec.convert(reading.read(path), Result)
    except (ConfigError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}; delete it, or restore it") from error


def spec_path(model: str, target: str, text: str, folder: Path = FOLDER) -> Path:
    """Return the file for a tuning spec. Its name has the CRC-32 of its text, so that a flag that names it changes
    where the text does, and what was compiled with another text is compiled again."""
    return path_of(model, target, folder).with_name(f"{target}-{_crc(text.encode())}.mlir")


def spec_flags(model: str, target: str, text: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the flags of iree-compile for a tuning spec; () for ""."""
    return (f"{tuning_spec.FLAG}={spec_path(model, target, text, folder)}",) if text else ()


def spec_problem(flags: Iterable[str]) -> str:
    """Return why the tuning spec that flags name cannot be used; "" if it can, or if they name none."""
    path = tuning_spec.named(flags)
    if path is None:
        return ""
    if not path.is_file():
        return f"its tuning spec {path} does not exist"
    digest = _crc(path.read_bytes())
    written = re.search(r"-([0-9a-f]{8})$", path.stem)  # by tuning; a user's own file has any name
    if written and written[1] != digest:
        return f"its tuning spec {path} has been changed: its CRC-32 is {digest}"
    return ""


def _crc(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
