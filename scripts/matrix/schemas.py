"""The sets of values of columns, each from the module that declares it."""

from __future__ import annotations

from scripts.core import checkout, python_source
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import choices, plugins
from scripts.supervise import outcome
from scripts.timing.ratios import VERDICTS
from scripts.verify import verification

ROOT = checkout.ROOT


def values() -> dict[str, list[str]]:
    """The values of every set, by the name of the set."""
    kinds = dict.fromkeys(backend.device_kind for backend in BACKENDS.values())
    return {
        "device_kind": [*(kinds | dict.fromkeys(plugins.DEVICES))],
        "dtype": [*choices.DTYPES],
        "matmul_precision": [*choices.MATMUL_PRECISIONS],
        "opt_level": [*OPT_LEVELS],
        "phase": [*literal("models/parts/causal_lm.py", "PHASES")],
        "precision": [*choices.PRECISIONS],
        "status": [*outcome.STATUSES],
        "test": [*choices.TESTS],
        "verdict": [*VERDICTS],
        "verification_code": [*verification.CODES],
    }


def literal(file: str, name: str) -> tuple[str, ...]:
    """A constant of a module that cannot be imported here, because it imports torch."""
    return python_source.literal(ROOT / file, name, ())
