"""The feature `variants`: what rules ask about tuning, and what results/tuned.csv needs."""

from __future__ import annotations

import dataclasses

from scripts.config import compile_tables, reading
from scripts.config.cell import Cell, Kind, thread_numbers
from scripts.config.entries import Target
from scripts.config.feature import Feature, Rows
from scripts.config.rows import compact
from scripts.config.stages import STAGES
from scripts.iree import compile_options
from scripts.run.modules import is_tuned, program
from scripts.run.params import Groups
from scripts.run.plan import Plan, digest_of
from scripts.tools.variants import tuned_matrix
from scripts.tools.variants.candidates import Search


class VariantsPlan:
    """PLAN["variants"]: answers the questions of the rules of tuning. `search_s`: how long a search takes at most."""

    def __init__(self, plan: Plan) -> None:
        self._matrix, self._aggregation = plan.configured, plan.aggregation
        self._modules, self._requests = plan.modules, plan.requests
        self.search_s = tuned_matrix.part(plan.configured).budget_s
        self.groups = Groups(plan.configured, tuned_matrix.groups(plan.configured), plan.row_forked)

    def exports(self, file: str, cell: Cell) -> list[str]:
        """A file of every export whose program may be compiled for a model."""
        return [
            STAGES["export"].path(program(cell.model, frontend), file)
            for frontend in tuned_matrix.frontends(self._matrix, self._matrix.models[cell.model])
        ]

    def target(self, cell: Cell) -> Target:
        """The target that a model is tuned for, with its overrides for the model."""
        model = self._matrix.models[cell.model]
        return tuned_matrix.part(self._matrix).targets[cell.target].for_model(model)

    def specs(self, cell: Cell) -> list[str]:
        """The tuning specs that the target's own flags name, as inputs (see Modules.specs)."""
        candidates = tuned_matrix.candidates(self._matrix, cell.model, cell.target)
        named = (compile_options.named_spec(candidate.flags) for candidate in candidates)
        return list(dict.fromkeys(str(path) for path in named if path))

    def request(self, cell: Cell) -> str:
        """What verifies a module of the search, as JSON."""
        fields = self._requests.verified_on(self.target(cell).device, cell)
        return compact(fields | self._requests.threads())

    def search(self, cell: Cell) -> str:
        """What is searched for a model on a target, as text for the command line."""
        target, settings = self.target(cell), tuned_matrix.part(self._matrix)
        declared = tuned_matrix.candidates(self._matrix, cell.model, cell.target)
        used = {name for candidate in declared for name in (*candidate.needs, *candidate.avoid)}
        known = compile_tables.flag_sets().properties
        search = Search(
            tuple(self._modules.completed(way, cell.model, target) for way in declared),
            {name: texts for name, texts in known.items() if name in used},
            settings.budget_s,
            settings.keep,
        )
        return compile_tables.to_text(search)

    def results(self) -> list[str]:
        """Every file that the aggregation of tuned models reads. Raises ConfigError for several numbers of threads: a
        module is tuned for one."""
        matrix = self._matrix
        if listed := thread_numbers(matrix.measure):
            raise reading.ConfigError(
                f"measure.threads is the list {[*listed]}, but results/tuned.csv needs a single number, for example: "
                f"--config measure='{{threads: {listed[-1]}}}'"
            )
        rows = [*tuned_matrix.rows(matrix), *tuned_matrix.baselines(matrix)]
        return [
            *self._aggregation.of_rows(rows, "time_tuned"),
            *self._aggregation.machine_limits(tuned_matrix.devices(matrix)),
        ]

    def digest(self) -> str:
        """A hash of everything that the aggregation of tuned models reads from the matrix."""
        parts = {name: part for name, part in self._matrix.parts.items() if name == "variants"}
        return digest_of(dataclasses.replace(self._matrix, parts=parts, expect={}).to_json())


FEATURE = Feature(
    "variants",
    part=tuned_matrix.Tuning,
    read=tuned_matrix.read,
    entries=lambda tuning: {"target": tuning.targets},
    csv="tuned",
    row_set="scripts.tools.variants.tuned_row_set",
    plan=VariantsPlan,
    rows=Rows(
        (Kind.TUNING,),
        is_tuned,
        tuned_matrix.cells,
        tuned_matrix.chain,
        timed=lambda matrix, row: (STAGES["time_tuned"], matrix.group(row)),
    ),
)
