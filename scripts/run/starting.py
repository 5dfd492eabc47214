"""The start of a run: what it covers, what is said or refused before its first job, and which rows end it.

`--config stop_on=FAIL` ends a run with exit code 1 on rows with these statuses or codes.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.config import cell, expansion, reading, settings, stages
from scripts.config.cell import PINNED, Cell
from scripts.config.entries import Baseline, Target
from scripts.config.rows import Matrix
from scripts.config.stages import STATUS, VERIFICATION
from scripts.core import atomic, checkout, machine
from scripts.frontends.sources import registry
from scripts.iree import compile_cache
from scripts.iree.backends import BACKENDS
from scripts.measure.verify import verification
from scripts.run import entry_checks, outputs
from scripts.run.plan import Plan, parse_retry
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

KNOWN = (
    *outcome.FAILED,
    outcome.UNAVAILABLE,
    outcome.SKIPPED,
    *(code for code in verification.CODES if code != verification.PASS),
)


class Gate:
    """The statuses and verification codes that end a run; none if `wanted` is None.

    `is_remedied`: whether a failed stage of a cell (its folder, the cell's name) may be made good by
    remedies; then their outcome decides. Raises ConfigError if `wanted` names an unknown status or
    code.
    """

    def __init__(
        self, wanted: str | None, is_remedied: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        chosen = reading.select("stop_on", KNOWN, wanted) if wanted else []
        self.wanted = frozenset(chosen)
        self._is_remedied = is_remedied
        self._before = outputs.versions()

    def param(self) -> str:
        """Return the param of the CSV's rule.

        Each run with a gate has a new value, so that the CSV is written and its rows are checked
        even if no other job has to run.
        """
        return str(time.time_ns()) if self.wanted else ""

    def finished(self, paths: Sequence[str]) -> str:
        """Return a message if the job that made these files ends the run, else ""."""
        status = next((Path(o) for o in paths if o.endswith(outcome.STATUS)), None)
        if status is None:
            return ""
        ended = outcome.read_or_damaged(status)
        repairing = stages.made_good_by(ended.stage)
        if repairing and ended.status == outcome.SKIPPED:  # nothing has made it good
            status = Path(repairing.path(ended.cell, STATUS))
            ended = outcome.read_or_damaged(status)
        elif self._is_remedied(ended.stage, ended.cell):
            return ""
        if ended.status == outcome.OK or ended.blocked_by:  # that stage was its row's first failure
            return ""
        met = self.wanted & {ended.status, _code(ended, status)}
        return f"{ended.stage} {ended.cell}: {', '.join(met)}: {ended.detail}" if met else ""

    def of_rows(self, rows: Iterable[Mapping[str, str]]) -> list[str]:
        """Return the names of the rows that end the run, each with its status or code."""
        ending_rows = []
        for row in rows:
            if met := self.wanted & {row["status"], row["verification_code"]}:
                name = row.get("model") or row["problem"]
                parts = (name, row["frontend"] or row["runtime"], row["target"])
                ending_rows.append(f"{'/'.join(filter(None, parts))}: {', '.join(met)}")
        return ending_rows

    def problem(self) -> str:
        """Return a message if the rows of a written CSV end the run, else ""."""
        tables = (outputs.CSV, *(files[0] for files in outputs.of_features()))
        for table in tables if self.wanted else ():
            if ending_rows := self.of_rows(outputs.written_rows(self._before, table) or ()):
                more = f", and {len(ending_rows) - 1} more" if len(ending_rows) > 1 else ""
                return (
                    f"stop_on={','.join(sorted(self.wanted))}: {ending_rows[0]}{more} (see {table})"
                )
        return ""


def _code(decisive: Outcome, status: Path) -> str:
    """Return the verification code of a row whose decisive stage was not ok."""
    measured = status.with_name(VERIFICATION)
    if measured.is_file() and measured.stat().st_size:
        return atomic.read_json(measured)["verification"]["code"]
    return outputs.code_of_unmeasured(decisive)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run covers. `notes`: of features, about what they have read from disk."""

    matrix: Matrix
    plan: Plan
    gate: Gate
    notes: list[str]


def of_configuration(
    config: Mapping[str, Any], selections: Mapping[str, str], with_conda: bool
) -> Run:
    """The run of a checked configuration and of the selections of its command line. Raises ConfigError."""
    matrix = expansion.expand(config, selections, checkout.ROOT)
    if not checkout.is_here():
        matrix = expansion.with_absolute_paths(matrix, checkout.ROOT)
    if with_conda and (further := [name for name in matrix.toolchains if name != PINNED]):
        raise settings.ConfigError(
            f"toolchains: {further[0]} needs an environment that uv makes; leave --sdm conda out"
        )
    matrix, notes = outputs.with_results(matrix)
    plan = Plan(matrix, retry=parse_retry(config.get("retry")), with_conda=with_conda)
    return Run(matrix, plan, Gate(config.get("stop_on"), plan.modules.may_make_good), notes)


def warnings(run: Run) -> Iterator[str]:
    """What is said at the start of a run."""
    for problem in run.plan.broken_models():
        yield f"{problem}: its rows will be errors of stage reference"
    for model in run.matrix.models.values():
        if model.family == registry.name_with_kind(model.file):
            other = registry.model_name(model.file)
            yield f"{model.file} is the model {model.name}, because {other} is another one"
    yield from run.notes
    for files in (outputs.FILES, *outputs.of_features()):
        for problem in filter(None, map(outputs.difference, files)):
            yield f"{problem}; it is made again with {files[0]}"


def absent_devices(matrix: Matrix) -> Iterator[str]:
    """What cannot run on this machine, because there is no sign of the device."""
    rows = [*matrix.rows()]
    names_of: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(row.target for row in rows if row.target):
        target = matrix.target_of(name)
        if signs := BACKENDS[target.backend].missing_signs(target.arch):
            names_of.setdefault(signs, []).append(name)
    for signs, names in names_of.items():
        count = sum(row.target in names for row in rows)
        yield f"No device on this machine for {', '.join(names)} (no {' or '.join(signs)}): {_rows(count)} compiled, and end as unavailable"
    absent = [baseline.name for baseline in matrix.baselines.values() if _is_absent(baseline)]
    if count := sum(row.baseline in absent for row in rows):
        yield f"No device on this machine for {', '.join(absent)}: {_rows(count)} unavailable"


def _is_absent(entry: Target | Baseline) -> bool:
    """Whether this machine has no sign of the device of a target or baseline."""
    if isinstance(entry, Target):
        return bool(BACKENDS[entry.backend].missing_signs(entry.arch))
    kinds = {backend.torch_device for backend in BACKENDS.values() if not backend.missing_signs()}
    return not entry.on_cpu and entry.device not in kinds


def idle_cells(matrix: Matrix) -> set[tuple[str, Cell]]:
    """The jobs, by rule and cell, that end at once: those of rows without a device on this machine, and of groups of such rows alone."""
    idle: set[tuple[str, Cell]] = set()
    groups: dict[Cell, bool] = {}
    for row in matrix.rows():
        entry = matrix.target_of(row.target) if row.target else matrix.baselines[row.baseline]
        group, is_absent = matrix.group(row), _is_absent(entry)
        groups[group] = groups.get(group, True) and is_absent
        if is_absent:
            idle.add((stages.STAGES["verify" if row.target else "baseline"].rule, row))
    return idle | {(stages.STAGES["time"].rule, group) for group, ends in groups.items() if ends}


def _rows(count: int) -> str:
    return "1 row is" if count == 1 else f"{count} rows are"


def problems(run: Run, may_submit: bool) -> list[str]:
    """What keeps a configuration from being run. `may_submit`: whether jobs may go to a cluster."""
    if not may_submit and (problem := _thread_problem(run.matrix)):
        return [problem]
    try:
        compile_cache.of_environment()
    except ValueError as error:
        return [str(error)]
    tuned = [target.name for target in run.matrix.targets.values() if target.tuned]
    if may_submit and tuned:  # a node would decide again, by its own CPU, which results are used
        return [
            f"targets.{tuned[0]}.tuned: auto is for runs on one machine; leave it out where jobs may go to a cluster"
        ]
    if unusable := [*entry_checks.problems(run.matrix)]:
        return list(dict.fromkeys(unusable))
    if run.plan.with_conda:
        return []
    return entry_checks.flag_problems(run.matrix)


def _thread_problem(matrix: Matrix) -> str:
    """What is wrong with `measure.threads` on this machine; "" if nothing is. Nodes of a cluster may have more CPUs, and verify it.

    Between the cores and the CPUs (hyper-threads), the rows of IREE fail and baselines are measured.
    """
    most, cpus = cell.most_threads(matrix.measure), machine.usable_cpu_count()
    of_iree = any(target.on_cpu for target in matrix.targets.values())
    if most <= cpus or not (
        of_iree or any(baseline.on_cpu for baseline in matrix.baselines.values())
    ):
        return ""
    return (
        f"measure.threads: found {most}, but this process may use {cpus} CPUs; set {cpus} or less, or give the profile "
        "of a cluster (--profile) whose nodes have that many"
    )
