"""The feature `profile`: dumps and profiles, and where the time of a cell goes."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable

from scripts.config.cell import Cell, Kind
from scripts.config.choices import IREE_DUMPS, MODULES
from scripts.config.entries import Baseline
from scripts.config.feature import Feature
from scripts.config.stages import LAST, STAGES
from scripts.run.plan import Plan
from scripts.tools.profile import profilers
from scripts.tools.profile.profile_files import PROFILES


class ProfilePlan:
    """PLAN["profile"]."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self.configured = plan, plan.configured

    def dumps(self) -> list[str]:
        """The list of dumped files of every cell for which a kind of dump is requested."""
        kinds = set(self.configured.dumps.get("kinds", (*IREE_DUMPS, "profile")))
        files: list[str] = []
        if kinds & set(IREE_DUMPS):
            # Of what is compiled: the same for all numbers of threads.
            files += _files("dump_iree", self.configured.of_kind(Kind.MODULE), "files.json")
        if kinds - set(IREE_DUMPS) - {MODULES}:
            files += _files("dump_baseline", self.configured.of_kind(Kind.BASELINE), "files.json")
        return files + (self.profiles() if MODULES in kinds else [])

    def codes(self) -> list[str]:
        """What the code of every selected program and target is."""
        return _files("read_code", self.configured.of_kind(Kind.MODULE), "code.json")

    def compile_times(self) -> list[str]:
        """Where the time of iree-compile goes, of every selected program and target."""
        return _files("profile_compile", self.configured.of_kind(Kind.MODULE), "compile.json")

    def profiles(self) -> list[str]:
        """The profiles of every selected group on a CPU, and the code of its modules."""
        rows = itertools.chain.from_iterable(self._groups.values())
        modules = dict.fromkeys(row.to(Kind.MODULE) for row in rows if row.kind is Kind.IREE)
        return [*_files("profile", self._groups, PROFILES), *_files("read_code", modules, "code.json")]  # fmt: skip

    def verified(self, group: Cell, file: str) -> list[str]:
        """A file of the verification of each row that is profiled."""
        return [_verified(row, file) for row in self._groups[group]]

    def request(self, group: Cell) -> str:
        """What is profiled, as JSON: the fields of the request to the job but for its memory."""
        members = {str(row): _verified(row) for row in self._groups[group]}
        return json.dumps({"members": members}, separators=(",", ":"))

    @functools.cached_property
    def _groups(self) -> dict[Cell, list[Cell]]:
        """The rows of each group on a CPU of which there are profiles."""
        groups = {
            group: [row for row in rows if self._has_profile(row)]
            for group, rows in self.configured.groups().items()
        }
        return {group: rows for group, rows in groups.items() if rows}

    def _has_profile(self, row: Cell) -> bool:
        entry = self._plan.groups.entry(row)
        if isinstance(entry, Baseline):
            return entry.runtime in profilers.RUNTIMES and entry.on_cpu and row.test == "eval" and not entry.rewrites  # fmt: skip
        return entry.on_cpu


def _verified(row: Cell, file: str = "") -> str:
    return STAGES[LAST[row.kind]].path(row, file)


def _files(stage: str, cells: Iterable[Cell], file: str) -> list[str]:
    declared = STAGES[stage]
    return [declared.path(cell.to(declared.kind), file) for cell in cells]


FEATURE = Feature("profile", plan=ProfilePlan)
