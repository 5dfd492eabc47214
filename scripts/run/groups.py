"""The rules' view of groups: which rows are timed together, from which files, and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec

from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.choices import BASES, BASES_OF
from scripts.matrix.entries import Baseline, Target
from scripts.matrix.matrix import Matrix
from scripts.supervise.group import Given
from scripts.timing.turns import Rule

RULE_KEYS = tuple(field.name for field in dataclasses.fields(Rule))


class Groups:
    """Answers the rules' questions about groups. `rows`: those of each group. `forked`: whether the process of a row
    may be forked."""

    def __init__(
        self, matrix: Matrix, rows: dict[Cell, list[Cell]], forked: Callable[[Cell], bool]
    ) -> None:
        self.matrix, self._rows, self._forked = matrix, rows, forked
        self._known = matrix.every()

    def files(self, group: Cell, file: str) -> list[str]:
        """A file of the verification of each member."""
        return [_verified(row, file) for row in self._rows[group]]

    def given(self, group: Cell) -> str:
        """What is timed, as JSON for the command line of the job."""
        rows = self._rows[group]
        # A group of operator problems is of no model.
        bases = BASES_OF[self._known.models[group.model].source] if group.model else BASES
        plain = {base: name for base in bases if (name := self._plain(rows, base))}
        given = Given(
            members={str(row): _verified(row) for row in rows},
            rule=dataclasses.asdict(self.rule_of(group)),
            anchor=plain.get(bases[0], "") if bases else "",
            bases=tuple(plain.values()),
            forked=tuple(str(row) for row in rows if self._forked(row)),
        )
        return msgspec.json.encode(given).decode()

    def rule(self, model: str) -> Rule:
        """How a model is timed: the defaults, replaced by the values of `measure:`."""
        measure = self.matrix.matrix_of(model).measure
        return Rule(**{key: measure[key] for key in RULE_KEYS if key in measure})

    def rule_of(self, group: Cell) -> Rule:
        return self.rule(group.model)

    def on_device(self, group: Cell) -> Target | Baseline:
        """An entry that runs on the device of a group, which names the node that has it."""
        return self.entry(self._rows[group][0])

    def entry(self, row: Cell) -> Target | Baseline:
        if row.kind is Kind.IREE:
            return self._known.target_of(row.target)
        return self._known.baselines[row.baseline]

    def _plain(self, rows: Sequence[Cell], runtime: str) -> str:
        """The member that is a runtime without options of its own; "" if there is none."""
        for row in rows:
            entry = self.entry(row)
            if isinstance(entry, Baseline) and entry.runtime_name == runtime and entry.is_plain:
                return str(row)
        return ""


def _verified(row: Cell, file: str = "") -> str:
    return stages.STAGES[stages.LAST[row.kind]].path(row, file)
