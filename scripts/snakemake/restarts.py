"""Starts the command line of this Snakemake over, a limited number of times.

Snakemake has to plan again if results have disappeared since it planned: the Snakemake of a cancelled
job deletes the outputs of its whole group.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

LIMIT = 4
"""A killed run needs two: one after its jobs are cancelled, one after outcomes are recorded."""
_VARIABLE = "VMFBENCH_STARTED_OVER"
_SHOWN = 5
"""Maximum number of names in a reason: all reasons have to fit into an environment variable."""


class Unsettled(RuntimeError):
    """A run that was started over too often."""


def start_over(what: str, names: Sequence[str], typed_in: str = os.curdir) -> NoReturn:
    """Execute the command line of this Snakemake again, in this process.

    It runs in the folder `typed_in`, which Snakemake may have left (`--directory`).
    `what` was done with `names`; the reason contains the first few of these. Raises Unsettled, with the
    reason of each start, if LIMIT is reached.
    """
    more = ", …" if len(names) > _SHOWN else ""
    reason = f"{what} ({len(names)}): {', '.join(names[:_SHOWN])}{more}"
    reasons = [*filter(None, os.environ.get(_VARIABLE, "").split("\n")), reason]
    if len(reasons) > LIMIT:
        listed = "\n".join(f"  {number}. {why}" for number, why in enumerate(reasons, 1))
        raise Unsettled(
            f"this run has started over {LIMIT} times and still finds no state to go on from:\n{listed}\n"
            "Make sure that no other run submits jobs for this folder and that none is left in the queue, "
            "then give the command again"
        )
    os.environ[_VARIABLE] = "\n".join(reasons)
    sys.stderr.flush()
    os.chdir(typed_in)
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *sys.argv[1:]])


def settled() -> None:
    """Reset the count when a run proceeds, so that processes which it starts do not inherit it."""
    os.environ.pop(_VARIABLE, None)
