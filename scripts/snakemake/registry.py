"""Every patch of Snakemake that this project applies; docs/architecture.md has them as a table."""

from __future__ import annotations

from scripts.snakemake import adoption, jobstarts, orphans, stopping, submissions, watching
from scripts.snakemake.patch import Patch

PATCHES: tuple[Patch, ...] = (
    jobstarts.NO_LIMIT,
    stopping.STOPPING,
    jobstarts.ONE_TIMER,
    orphans.ORPHANS,
    adoption.ADOPTION,
    watching.WATCHING,
    submissions.ON_NODE,
    submissions.SIDE_BY_SIDE,
    submissions.GROUPS,
    submissions.CORES,
)
