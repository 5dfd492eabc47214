"""Who makes the module of a cell: its compilation, or what a feature does after that has failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scripts.matrix.cell import Cell, Kind
from scripts.matrix.stages import STAGES


class Maker:
    """Modules are made by their compilation alone. A feature that makes failed ones good overrides these answers about
    an IREE cell."""

    search_s = 0.0
    """How long a search for a faster module takes at most, before it is verified."""

    def modules(self, cell: Cell, file: str) -> list[str]:
        """A file of each stage that may have made the module; where there are two, one of the modules is empty."""
        return [STAGES["compile"].path(cell.to(Kind.MODULE), file)]

    def stand(self, cell: Cell) -> bool:
        """Whether a verification of the module does not depend on the later ones of `modules`."""
        return True

    def take_part(self, cell: Cell) -> bool:
        """Whether the outcome of a second stage counts for the row of a cell."""
        return False

    def may_make_good(self, stage: str, cell: str) -> bool:
        """Whether a failed stage of a cell (its folder, the cell's name) may be made good."""
        return False

    def hang(self, cell: Cell) -> str:
        """`--hang <why>` for a compilation that is known not to end; else nothing."""
        return ""

    def specs(self, cell: Cell) -> list[str]:
        """Files that the flags of a cell name, as inputs of its compilation."""
        return []

    def due(
        self, cell: Cell, code: str, retry: Collection[str], limits: Mapping[str, float]
    ) -> str:
        """The param `due` of the second stage (fingerprint.due)."""
        raise NotImplementedError(f"{cell}: no loaded feature makes failed modules good")
