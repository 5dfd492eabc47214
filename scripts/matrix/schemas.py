"""The JSON schemas of workflow/schemas/, completed with the values that the code declares.

A definition in a schema file without values gets them here, from the module that declares them. So a
new backend, status or precision is valid without editing a schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from scripts.core import checkout, python_source
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import choices, feature, plugins, precision, stages
from scripts.supervise import outcome
from scripts.timing.ratios import VERDICTS
from scripts.verify import codes

ROOT = checkout.ROOT
FOLDER = ROOT / "workflow" / "schemas"


def read(name: str) -> dict[str, Any]:
    """The schema `<name>.schema.json`, with all values."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    known = values()
    for definition, body in schema.get("$defs", {}).items():
        if definition in known:
            body["enum"] = known[definition]
    if name == "config":
        limits = stages.limits()
        schema["properties"]["limits"] |= {
            "required": [key for key in limits if key not in stages.OPTIONAL_LIMITS],
            "properties": {key: {"$ref": "#/$defs/limit"} for key in limits},
        }
    return schema


def values() -> dict[str, list[str]]:
    """The allowed values of every fixed set, by the name of the set."""
    kinds = [backend.device_kind for backend in BACKENDS.values()]
    found: dict[str, Iterable[str]] = {
        "backend": BACKENDS,
        "baseline_device": plugins.DEVICES,
        "baseline_precision": (*precision.PRECISIONS, precision.POLICY),
        "compile_mode": choices.COMPILE_MODES,
        "device_kind": (*kinds, *plugins.DEVICES),
        "dtype": precision.DTYPES,
        "dump": (*choices.BASELINE_DUMPS, *choices.IREE_DUMPS, choices.MODULES),
        "ir_format": _literal("scripts/lowering/link.py", "FORMATS"),
        "matmul_precision": precision.MATMUL_PRECISIONS,
        "opt_level": OPT_LEVELS,
        "phase": _literal("models/parts/causal_lm.py", "PHASES"),
        "precision": precision.PRECISIONS,
        "profile": choices.PROFILES,
        "saved_ir": choices.IR_FORMATS,
        "status": outcome.STATUSES,
        "test": precision.TESTS,
        "verdict": VERDICTS,
        "verification_code": codes.CODES,
    }
    for declared in feature.LOADED.values():
        found |= declared.values() if declared.values else {}
    return {name: list(dict.fromkeys(allowed)) for name, allowed in found.items()}


def _literal(file: str, name: str) -> tuple[str, ...]:
    """A constant of a module that cannot be imported here, because it imports torch."""
    return python_source.literal(ROOT / file, name, ())
