"""Who makes the module of a cell: its compilation, or what a feature does after that has failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scripts.matrix import stages, threads


class Maker:
    """Modules are made by their compilation alone. A feature that makes failed ones good overrides these answers.

    The wildcards are those of an IREE cell.
    """

    search_s = 0.0
    """How long a search for a faster module takes at most, before it is verified."""

    def modules(self, wildcards, file: str) -> list[str]:
        """A file of each stage that may have made the module; where there are two, one of the modules is empty."""
        frontend, target = wildcards.frontend, threads.shared(wildcards.target)
        cell = f"{wildcards.model}/{frontend}/{target}"
        return [stages.STAGES["compile"].path(cell, file)]

    def stand(self, wildcards) -> bool:
        """Whether a verification of the module does not depend on the later ones of `modules`."""
        return True

    def take_part(self, wildcards) -> bool:
        """Whether the outcome of a second stage counts for the row of a cell."""
        return False

    def may_make_good(self, stage: str, of: str) -> bool:
        """Whether a failed stage of a cell (its folder, the cell's name) may be made good."""
        return False

    def hang(self, wildcards) -> str:
        """`--hang <why>` for a compilation that is known not to end; else nothing."""
        return ""

    def specs(self, wildcards) -> list[str]:
        """Files that the flags of a cell name, as inputs of its compilation."""
        return []

    def due(self, wildcards, code: str, retry: Collection[str], limits: Mapping[str, float]) -> str:
        """The param `due` of the second stage (fingerprint.due). Raises NotImplementedError: nobody has such a stage."""
        raise NotImplementedError
