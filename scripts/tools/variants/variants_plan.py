"""The feature `variants`: what results/tuned.csv covers (all models on some targets, and the baselines that they are compared with), and
what rules ask about tuning."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from scripts.config import cell, compile_tables, expansion, reading, stages
from scripts.config.cell import PINNED, Cell, Kind, thread_numbers
from scripts.config.choices import BASES_OF
from scripts.config.compile_tables import FlagSet, FlagSetTable, Variant
from scripts.config.entries import TUNED_FRONTENDS, Baseline, Frontend, Model, Target
from scripts.config.feature import Draft, Feature, Rows
from scripts.config.rows import Matrix, baseline_cell, compact, devices_of
from scripts.config.stages import STAGES, Stage
from scripts.iree import compile_options
from scripts.iree.backends import BACKENDS
from scripts.run.modules import is_tuned, program
from scripts.run.params import Groups
from scripts.run.plan import Plan, digest_of
from scripts.tools.variants.candidates import Candidate, Search


@dataclass(frozen=True)
class Tuning:
    """What results/tuned.csv covers: all models on these targets, `budget_s` seconds for each pair. `keep`: the
    share of the modules that stay when slow ones leave."""

    targets: dict[str, Target] = field(default_factory=dict)
    budget_s: float = 300.0
    keep: float = 1 / 3


DEFAULT_TARGETS = ("llvm-cpu",)
"""What is tuned for where `tune` does not say; all targets of a configuration that has none of these."""


def part(matrix: Matrix) -> Tuning:
    """What is tuned of a matrix."""
    return matrix.parts.get("variants") or Tuning()


def read(draft: Draft, matrix: Matrix) -> Tuning:
    """Return what is tuned: for the targets that the command line selects, or those of `tune.targets`."""
    section = dict(draft.config.get("tune") or {})
    declared = section.pop("targets", None)
    targets = draft.chosen["targets"]
    if "targets" not in draft.selections:
        known = draft.known["targets"].items()
        if declared is not None:
            draft.problems += expansion.selection_problems("tune.targets", "target", declared, dict(known))  # fmt: skip
        globs = declared or [name for name in DEFAULT_TARGETS if name in dict(known)] or ["*"]
        targets = {name: target for name, target in known if cell.selects(globs, name)}
    return Tuning(targets=targets, **section)


def chain(matrix: Matrix, row: Cell) -> list[tuple[Stage, Cell]]:
    """The stages of a tuned row."""
    return [*stages.chain("tune", row.to(Kind.TUNING)), (STAGES["verify"], row)]


def cells(matrix: Matrix, kind: Kind) -> list[Cell]:
    """All cells that are tuned."""
    return list(dict.fromkeys(row.to(kind) for row in rows(matrix)))


def devices(matrix: Matrix) -> dict[str, Target | Baseline]:
    """The devices that rows of results/tuned.csv run on, each with the first entry that does so."""
    names = dict.fromkeys(row.baseline for row in baselines(matrix))
    return devices_of((matrix.baselines[name] for name in names), part(matrix).targets.values())


def groups(matrix: Matrix) -> dict[Cell, list[Cell]]:
    """The rows of each group of results/tuned.csv."""
    groups: dict[Cell, list[Cell]] = {}
    for row in (*rows(matrix), *baselines(matrix)):
        groups.setdefault(matrix.group(row), []).append(row)
    return groups


def rows(matrix: Matrix) -> Iterator[Cell]:
    """Yield the cells of IREE in results/tuned.csv: for each model and target the fastest candidate,
    and the fastest one that is configured."""
    for model in matrix.models:
        for target in part(matrix).targets:
            for frontend in TUNED_FRONTENDS:
                yield Cell.of_kind(Kind.IREE, model=model, frontend=frontend, target=target)


def baselines(matrix: Matrix) -> Iterator[Cell]:
    """Yield the cells of baselines that tuned modules are compared with: those of eager and inductor,
    without options of their own, on the devices that are tuned for."""
    devices = {BACKENDS[target.backend].torch_device for target in part(matrix).targets.values()}
    for model, baseline, test in matrix.baseline_cells():
        plain = baseline.runtime_name in BASES_OF[model.source] and baseline.is_plain
        if plain and test == "eval" and baseline.device in devices:
            yield baseline_cell(model, baseline, test)


def candidates(matrix: Matrix, model: str, target: str) -> list[Candidate]:
    """Return what is tried when a model is tuned for a target."""
    known = matrix.models[model]
    resolved = part(matrix).targets[target].for_model(known)
    tuned = frontends(matrix, known)
    configured = [resolved.asked(f.name) for f in tuned.values() if resolved.takes(known, f)]
    return combined(resolved.backend, configured, tuned, compile_tables.flag_sets())


def frontends(matrix: Matrix, model: Model) -> dict[str, Frontend]:
    """The frontends by whose programs a model is tuned: of forward passes for one size, by the pinned toolchain."""
    return {
        name: frontend
        for name, frontend in matrix.frontends.items()
        if frontend.toolchain == PINNED
        and frontend.test == cell.EVAL
        and model.source in frontend.sources
        and not frontend.axes.dynamic
    }


def combined(
    backend: str, configured: Sequence[Variant], frontends: Iterable[str], table: FlagSetTable
) -> list[Candidate]:
    """Return what is tried, each variant once, in order: what is configured, then all combinations.

    `configured`: what the target compiles, a variant for each lowering path. `frontends`: those whose
    programs are tried. The combinations of the first configured opt level come first.
    """
    tried = [
        Candidate(f"{variant.frontend}-as-configured", variant.frontend, variant.opt_level, variant.flags, configured=True)
        for variant in configured
    ]  # fmt: skip
    levels = [*(variant.opt_level for variant in configured), *table.opt_levels.get(backend, ())]
    for level in dict.fromkeys(levels):
        for sets in _flag_sets(backend, level, table):
            flags = tuple(flag for chosen in sets for flag in chosen.flags)
            needs, avoid = (
                tuple(dict.fromkeys(name for chosen in sets for name in getattr(chosen, key)))
                for key in ("needs", "avoid")
            )
            for frontend in frontends:
                name = "-".join([frontend, level, *(chosen.name for chosen in sets)])
                tried.append(Candidate(name, frontend, level, flags, needs=needs, avoid=avoid))
    by_variant: dict[Variant, Candidate] = {}
    for candidate in tried:
        by_variant.setdefault(candidate.variant, candidate)
    return list(by_variant.values())


def _flag_sets(backend: str, level: str, table: FlagSetTable) -> Iterator[list[FlagSet]]:
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


class VariantsPlan:
    """PLAN["variants"]: answers the questions of the rules of tuning. `search_s`: how long a search takes at most."""

    def __init__(self, plan: Plan) -> None:
        self._matrix, self._aggregation = plan.configured, plan.aggregation
        self._modules, self._requests = plan.modules, plan.requests
        self.search_s = part(plan.configured).budget_s
        self.groups = Groups(plan.configured, groups(plan.configured), plan.row_forked)

    def exports(self, file: str, cell: Cell) -> list[str]:
        """A file of every export whose program may be compiled for a model."""
        return [
            STAGES["export"].path(program(cell.model, frontend), file)
            for frontend in frontends(self._matrix, self._matrix.models[cell.model])
        ]

    def target(self, cell: Cell) -> Target:
        """The target that a model is tuned for, with its overrides for the model."""
        model = self._matrix.models[cell.model]
        return part(self._matrix).targets[cell.target].for_model(model)

    def specs(self, cell: Cell) -> list[str]:
        """The tuning specs that the target's own flags name, as inputs (see Modules.specs)."""
        declared = candidates(self._matrix, cell.model, cell.target)
        named = (compile_options.named_spec(candidate.flags) for candidate in declared)
        return list(dict.fromkeys(str(path) for path in named if path))

    def request(self, cell: Cell) -> str:
        """What verifies a module of the search, as JSON."""
        fields = self._requests.verified_on(self.target(cell).device, cell)
        return compact(fields | self._requests.threads())

    def search(self, cell: Cell) -> str:
        """What is searched for a model on a target, as text for the command line."""
        target, settings = self.target(cell), part(self._matrix)
        declared = candidates(self._matrix, cell.model, cell.target)
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
        return [
            *self._aggregation.of_rows([*rows(matrix), *baselines(matrix)], "time_tuned"),
            *self._aggregation.machine_limits(devices(matrix)),
        ]

    def digest(self) -> str:
        """A hash of everything that the aggregation of tuned models reads from the matrix."""
        parts = {name: part for name, part in self._matrix.parts.items() if name == "variants"}
        return digest_of(dataclasses.replace(self._matrix, parts=parts, expect={}).to_json())


FEATURE = Feature(
    "variants",
    part=Tuning,
    read=read,
    entries=lambda tuning: {"target": tuning.targets},
    csv="tuned",
    row_set="scripts.tools.variants.tuned_row_set",
    plan=VariantsPlan,
    rows=Rows(
        (Kind.TUNING,),
        is_tuned,
        cells,
        chain,
        timed=lambda matrix, row: (STAGES["time_tuned"], matrix.group(row)),
    ),
)
