"""What the rules of dumps and profiles ask."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.choices import IREE_DUMPS, MODULE_PROFILES, MODULES
from scripts.matrix.matrix import baseline_cell, iree_cell
from scripts.run.plan import Plan


class ProfilePlan:
    """PLAN["profile"]."""

    def __init__(self, plan: Plan) -> None:
        self.configured = plan.configured

    def dumps(self) -> list[str]:
        """The list of dumped files of every cell for which a kind of dump is requested."""
        kinds = set(self.configured.dumps.get("kinds", (*IREE_DUMPS, "profile")))
        files = []
        if kinds & set(IREE_DUMPS):
            # Of what is compiled: the same for all numbers of threads.
            files += _files("dump_iree", "files.json", self.configured.of_kind(Kind.MODULE))
        if kinds - {*IREE_DUMPS, MODULES}:
            files += _files("dump_baseline", "files.json", self.configured.of_kind(Kind.BASELINE))
        return files + (self.profiles() if MODULES in kinds else [])

    def profiles(self) -> list[str]:
        """The profile of every selected IREE cell of a CPU, and of the baselines next to which they are shown."""
        cells = (iree_cell(*parts) for parts in self.configured.cells() if parts[2].on_cpu)
        baselines = (
            baseline_cell(model, baseline, test)
            for model, baseline, test in self.configured.baseline_cells()
            if baseline.runtime in MODULE_PROFILES and baseline.on_cpu and test == "eval"
        )
        return [
            *_files("profile_iree", "profile.json", cells),
            *_files("profile_baseline", "profile.json", baselines),
        ]


def _files(name: str, file: str, cells: Iterable[Cell]) -> list[str]:
    """A file of a stage for each cell."""
    stage = stages.STAGES[name]
    return [stage.path(cell.to(stage.kind), file) for cell in cells]
