"""What the rules of dumps and profiles ask."""

from __future__ import annotations

from scripts.matrix import stages
from scripts.matrix.cell import Kind
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
        of_baselines = kinds - set(IREE_DUMPS) - {MODULES}
        wanted = {"dump_iree": kinds & set(IREE_DUMPS), "dump_baseline": of_baselines}
        cells = {
            # Of what is compiled: the same for all numbers of threads.
            "dump_iree": [of.to(Kind.IREE_DUMP) for of in self.configured.of_kind(Kind.MODULE)],
            "dump_baseline": self.configured.of_kind(Kind.BASELINE),
        }
        return [
            stages.STAGES[name].path(of, "files.json")
            for name, found in wanted.items()
            if found
            for of in cells[name]
        ] + (self.profiles() if MODULES in kinds else [])

    def profiles(self) -> list[str]:
        """The profile of every selected IREE cell of a CPU, and of the baselines next to which they are shown."""
        cells = [iree_cell(*one) for one in self.configured.cells() if one[2].on_cpu]
        baselines = [
            baseline_cell(*one)
            for one in self.configured.baseline_cells()
            if one[1].runtime in MODULE_PROFILES and one[1].on_cpu and one[2] == "eval"
        ]
        by_stage = {"profile_iree": cells, "profile_baseline": baselines}
        return [
            stages.STAGES[name].path(of.to(stages.STAGES[name].kind), "profile.json")
            for name, found in by_stage.items()
            for of in found
        ]
