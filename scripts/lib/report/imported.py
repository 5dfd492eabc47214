"""Rows that were measured on other machines, from the records of scripts.measure_elsewhere.

A record has the row of the cell as it was when the bundle was made, and what was measured. Everything that is derived
from measurements is computed here, as for other rows. They are compared with rows of the same device only, so usually with other
imported rows or with none.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema

from scripts.lib.config import stages
from scripts.lib.core import atomic
from scripts.lib.driver import outputs, verdict
from scripts.lib.report import fields, latency_section, limits, rounds, shapes, speedups
from scripts.lib.report.columns import FIELDS
from scripts.lib.supervision import outcome
from scripts.lib.supervision.diagnose import diagnose
from scripts.lib.supervision.outcome import Outcome

FORMAT = 1
MEASURE, AGAIN = "measure", "measure_again"
_NAME = re.compile(r"\w[\w.-]*")
_KEYS = {"name": str, "system": str, "cores": int, "row": dict, "fingerprint": str, "rounds": list}


def place(results: Path, data: Mapping[str, Any]) -> Path:
    """Where a record is kept, as driver/outputs.py finds it. A later one of the same cell and machine replaces it."""
    cell = _cell(data["row"]).replace("/", "__")
    return results / "imported" / data["name"] / f"{cell}.json"


def rows(results: Path = Path("results")) -> list[dict[str, Any]]:
    """The rows of all imported records. Raises ValueError, with the name of the file and what to do."""
    found = []
    for path in map(Path, outputs.imported(results)):
        try:
            found.append(row(atomic.read_json(path), str(path)))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path}: {error}; import the record again, or delete the file"
            ) from error
    return found


def row(data: Any, log: str) -> dict[str, Any]:
    """The row of a record, without comparisons. `log`: the file that has its log. Raises ValueError if it is none."""
    try:
        return _row(data, log)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a record of scripts.bundle --measure ({error!r})") from error


def _row(data: Any, log: str) -> dict[str, Any]:
    _check(data)
    found = copy.deepcopy(data["row"])
    taken, ended = _measured(data["rounds"]), _ended(data, log)
    timed = rounds.timed(taken)
    experiment, measured = found["experiment"], taken[-1 if ended.status != outcome.OK else 0]
    experiment |= {"target": _target(data), "imported": data["name"]}
    own = {key: getattr(ended, key) for key in fields.names(FIELDS, "outcome") if key != "stale"}
    found |= {
        "outcome": own,
        "verification": measured.get("verification") or {"code": verdict.unmeasured(ended)},
        "latency": _latency(timed, taken, experiment)
        if timed and ended.status == outcome.OK
        else None,
        "runs": rounds.runs(timed) if timed and ended.status == outcome.OK else None,
        "run": {key: measured.get(key) for key in fields.names(FIELDS, "run")}
        | {"host": asdict(rounds.host(timed)) if timed else None},
        "versions": found["versions"] | measured.get("versions", {}),
        "imported": {"system": data["system"], "cores": data["cores"]},
    }
    found.pop("work", None)
    _check_schema(found)
    return found


def _latency(timed: Sequence[Mapping[str, Any]], taken: Sequence[Mapping[str, Any]], of: Mapping[str, Any]) -> dict:  # fmt: skip
    return latency_section.of(timed, of["test"], of["phase"], of["batch_size"]) | rounds.left_out(
        taken
    )


def _target(data: Mapping[str, Any]) -> str:
    """The name of the target with that of the machine. A target of another toolchain has an `@` already."""
    name = data["row"]["experiment"]["target"]
    return f"{name}{'+' if '@' in name else '@'}{data['name']}"


def _cell(of: Mapping[str, Any]) -> str:
    experiment = of["experiment"]
    return f"{of['model']['name']}/{experiment['frontend']}/{experiment['target']}"


def _measured(taken: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The measurements of the rounds; of a round that failed, {} if it has none."""
    return [one["measurement"] or {} for one in taken]


def _ended(data: Mapping[str, Any], log: str) -> Outcome:
    """The outcome: that of the first round, or of a second one that failed."""
    last = data["rounds"][-1]
    failed, second = last["returncode"] != 0, len(data["rounds"]) > 1
    said = diagnose(last["returncode"], last["log"]) if failed else None
    return Outcome(
        status=said.status if said else outcome.OK,
        stage=AGAIN if failed and second else MEASURE,
        cell=_cell(data["row"]),
        reason=said.reason if said else "",
        detail=said.detail if said else "",
        log=log,
        command="python -m scripts.measure_elsewhere",
        fingerprint=data["fingerprint"],
    )


def _check(data: Any) -> None:
    """Raise ValueError if something is no record of scripts.measure_elsewhere."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(
            f"not a record.json of format {FORMAT} of a bundle of scripts.bundle --measure"
        )
    for key, kind in _KEYS.items():
        if not isinstance(data.get(key), kind):
            raise ValueError(f"{key} is {type(data.get(key)).__name__}, expected {kind.__name__}")
    if not _NAME.fullmatch(data["name"]):
        raise ValueError(f"name {data['name']!r}: expected letters, digits, and - . _")
    if not data["rounds"]:
        raise ValueError("rounds is empty, expected at least one")
    for number, one in enumerate(data["rounds"], start=1):
        stage = stages.STAGES[MEASURE if number == 1 else AGAIN]
        measured, ok = one["measurement"], one["returncode"] == 0
        if measured is not None and (what := shapes.problem(stage, measured)):
            raise ValueError(f"round {number}: {what}")
        if ok and (what := shapes.contradiction(stage, measured or {}, outcome.OK)):
            raise ValueError(f"round {number}: {what}")


def _check_schema(found: Mapping[str, Any]) -> None:
    """Raise ValueError if a row does not follow the schema of records, once it is compared with others."""
    whole = copy.deepcopy(dict(found))
    whole["work"] = limits.section(whole, None, [])
    speedups.add_machine_speeds([whole])
    speedups.add_speedups([whole])
    for error in jsonschema.Draft202012Validator(fields.schema(FIELDS)).iter_errors(whole):
        raise ValueError(f"{'.'.join(map(str, error.absolute_path))}: {error.message}")
