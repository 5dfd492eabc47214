"""Reads what `snakemake compile_time` wrote of a cell, and prints where the time of iree-compile goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.core import atomic
from scripts.results.page_sections import NO_LIMIT, Section, as_text
from scripts.supervise import outcome
from scripts.tools.profile.account import patterns, shown_name
from scripts.tools.profile.page import SHOWN, some
from scripts.tools.profile.profile_compile import FILE
from scripts.tools.profile.profile_files import NoProfile, code_cell, why_none

REST = "(between passes)"
"""The parser, the verifier, and what passes that run others do themselves."""
MOST = 12
"""Executables that are shown, but all of those that fail."""


@dataclass(frozen=True)
class CompileTime:
    """The profile of the compilation of a cell: the file, as scripts.tools.profile.profile_compile writes it."""

    cell: Cell
    data: Mapping[str, Any]

    @property
    def hanging(self) -> dict[str, str]:
        """The sources of the executables that reach the limits when each is compiled alone, by name."""
        every = self.data["executables"]
        return {e["name"]: e["source"] for e in every if e["status"] in ("timeout", "oom")}

    @property
    def stopped_in(self) -> str:
        """The phase in which the compiler was when it was stopped or failed; "" if it came to its end or to the executables."""
        ended = [phase["name"] for phase in self.data["phases"]]
        if self.data["program"]["status"] == outcome.OK or self.data["executables"]:
            return ""
        return f"after {ended[-1]}" if ended else "before the first phase ended"

    def modules(self, executable: Mapping[str, Any]) -> list[str]:
        """The names of the nn.Modules that an executable computes, those of repeated layers as one."""
        paths = {node[2] for e in self.data["executables"] for node in e["nodes"]} - {None}
        shown = patterns(paths, self.data["kinds"])
        return [*dict.fromkeys(shown_name(path, shown) for _, _, path in executable["nodes"])]


def read(results: Path, name: str) -> CompileTime:
    """What was measured of a cell, by its name. Raises NoProfile, and ValueError for other names and damaged files."""
    cell = Cell.parse(name, Kind.IREE)
    module = code_cell(cell)
    data = atomic.read_artifact(
        results.parent / stages.STAGES["profile_compile"].path(module, FILE)
    )
    if not data:
        raise NoProfile(why_none(results.parent, cell, module, "profile_compile", "compile_time"))
    return CompileTime(cell, data)


def page(times: CompileTime) -> str:
    """What `vmfbench why --compile` prints."""
    data, program = times.data, times.data["program"]
    if program["status"] == outcome.OK:
        ended = f"{data['total_s']:.2f} s on one thread, {program['max_rss_mb']:.0f} MiB"
    else:
        ended = f"{program['status']}: {program['detail']}"
    lines = [f"{times.cell}: iree-compile: {ended}"]
    if times.stopped_in:
        lines += [f"It stopped {times.stopped_in}, and has made no executables."]
    elif data["stopped_before_code"]:
        lines += ["Phases and passes are those before the code of the executables."]
    passes = [(p["name"], p["s"]) for p in data["passes"]]
    rest = [(REST, data["total_s"] - sum(s for _, s in passes))] if passes else []
    sections = [
        Section("", lines=lines),
        _shares("phase", [(p["name"], p["s"]) for p in data["phases"]]),
        _shares("pass", [*passes, *rest], data["total_s"]),
        _executables(times),
        Section("", lines=[*_hanging(times)]),
    ]
    return as_text(sections, width=NO_LIMIT).strip()


def _shares(what: str, parts: Sequence[tuple[str, float]], total: float | None = None) -> Section:
    """A table of parts that add up to the total."""
    if not parts:
        return Section("")
    total = total or sum(s for _, s in parts) or 1.0
    large = [(name, s) for name, s in parts if abs(s) / total >= SHOWN]
    small = total - sum(s for _, s in large)
    rows = [*large, (f"({len(parts) - len(large)} others)", small)] if len(large) < len(parts) else large  # fmt: skip
    cells = [[f"{s / total:.0%}", f"{s:.2f}", name] for name, s in [*rows, ("all", total)]]
    return Section("", ["share", "s", what], cells, range(2))


def _executables(times: CompileTime) -> Section:
    every = times.data["executables"]
    shown = [e for n, e in enumerate(every) if n < MOST or e["status"] != outcome.OK]
    rows = [
        [
            f"{executable['cpu_s']:.2f}",
            f"{executable['max_rss_mb']:.0f}",
            executable["status"],
            some(executable["functions"], 1) or executable["name"],
            some(times.modules(executable)),
        ]
        for executable in shown
    ]
    if len(shown) < len(every):
        rest = sum(e["cpu_s"] for e in every if e not in shown)
        rows.append([f"{rest:.2f}", "", "ok", f"({len(every) - len(shown)} others)", ""])
    return Section("", ["CPU s", "MiB", "alone", "executable", "modules"], rows, range(2))


def _hanging(times: CompileTime) -> Iterator[str]:
    """Sentences about the executables that do not compile by themselves."""
    for executable in times.data["executables"]:
        if executable["status"] != outcome.OK:
            verb = "hangs" if executable["status"] == "timeout" else "fails"
            yield f"{executable['name']} {verb} when it is compiled alone: {executable['detail']}"
    if times.data["program"]["status"] in ("timeout", "oom") and times.data["executables"]:
        if not times.hanging:
            yield f"Each executable compiles alone within {times.data['limit_s']:g} s: no single one of them hangs."
        else:
            yield f"`vmfbench bundle {times.cell}` writes it by itself."
