"""The feature `operators`: single operators as separate programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.features.operators import settings
from scripts.features.operators.plan import OperatorsPlan
from scripts.features.operators.settings import Operators, part
from scripts.matrix import cell, stages
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.feature import Feature, Rows, Verb
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import Stage


def cells(matrix: Matrix, kind: Kind) -> list[Cell]:
    """All cells of a kind of batches."""
    if kind is Kind.BATCH_GROUP:
        return list(part(matrix).groups())
    from_rows = [row for row in part(matrix).rows() if cell.stands_on(row.kind, kind)]
    return list(dict.fromkeys(row.to(kind) for row in from_rows))


def chain(matrix: Matrix, row: Cell) -> list[tuple[Stage, Cell]]:
    """The stages of a batch's problems; without the last one for targets that only compile."""
    in_chain = stages.of_row(row)
    return in_chain[:-1] if row.target in part(matrix).compile_only else in_chain


def timed(matrix: Matrix, row: Cell) -> tuple[Stage, Cell]:
    """The stage that times the problems of a batch, and their group."""
    return stages.STAGES["operator_time"], part(matrix).group(row)


def entries(operators: Operators) -> Mapping[str, Mapping[str, Any]]:
    """The frontends and baselines of operator problems."""
    return {"frontend": operators.frontends, "baseline": operators.baselines}


FEATURE = Feature(
    "operators",
    part=Operators,
    read=settings.read,
    absolute=settings.with_absolute_paths,
    entries=entries,
    rows=Rows(cell.OF_BATCHES, lambda row: row.kind in cell.OF_BATCHES, cells, chain, timed),
    verbs=(
        Verb(
            "operators",
            "scripts.features.operators.verbs.list_operators",
            "operator problems of a dataset or of traces",
        ),
    ),
    plan=OperatorsPlan,
    csv="operators",
    modules={
        "row_set": "scripts.features.operators.report.row_set",
        "views": "scripts.features.operators.report.page_view",
        "format": "scripts.features.operators.report.backendbench",
    },
)
