"""The verification code of a row whose results were never compared."""

from __future__ import annotations

from scripts.matrix import stages
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome
from scripts.verify import codes


def unmeasured(decisive: Outcome) -> str:
    """Return the code, given the outcome of the stage that was not ok and so ended the row."""
    if decisive.status == outcome.DAMAGED:
        return codes.DIDNT_RUN
    if decisive.status == outcome.SKIPPED:
        return codes.SKIPPED
    if decisive.stage in ("reference", "gradients"):
        undecided = decisive.reason == "nondeterministic-eager"
        return codes.NONDETERMINISTIC if undecided else codes.EAGER_FAILED
    ran = decisive.stage in stages.LAST.values()
    if ran and decisive.status in ("error", "crashed"):
        return codes.EXCEPTION_RAISED
    return codes.DIDNT_RUN
