"""The feature `profile`: dumps and profiles, and where the time of a cell goes."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.config.cell import Cell, Kind
from scripts.config.choices import IREE_DUMPS, MODULES
from scripts.config.feature import Feature
from scripts.config.rows import baseline_cell, iree_cell
from scripts.config.stages import STAGES
from scripts.run.plan import Plan
from scripts.tools.profile import profilers


class ProfilePlan:
    """PLAN["profile"]."""

    def __init__(self, plan: Plan) -> None:
        self.configured = plan.configured

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
        """The profile of every selected IREE cell of a CPU and its code, and the profiles of the baselines next to which they are shown."""
        modules = [
            iree_cell(model, frontend, target)
            for model, frontend, target in self.configured.cells()
            if target.on_cpu
        ]
        baselines = [
            baseline_cell(model, baseline, test)
            for model, baseline, test in self.configured.baseline_cells()
            if baseline.runtime in profilers.RUNTIMES and baseline.on_cpu and test == "eval"
        ]
        return [
            *_files("profile_iree", modules, "profile.json"),
            *_files(
                "read_code", dict.fromkeys(cell.to(Kind.MODULE) for cell in modules), "code.json"
            ),
            *_files("profile_baseline", baselines, "profile.json"),
        ]


def _files(stage: str, cells: Iterable[Cell], file: str) -> list[str]:
    declared = STAGES[stage]
    return [declared.path(cell.to(declared.kind), file) for cell in cells]


FEATURE = Feature("profile", plan=ProfilePlan)
