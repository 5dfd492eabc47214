"""Rows that were measured on other machines, from the records of scripts.stages.measure_elsewhere.

A record has the row of the cell as it was when the bundle was made, and what was measured. Everything that is derived
from measurements is computed here, as for other rows. They are compared with rows of the same device only, so usually with other
imported rows or with none.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

from scripts.core import atomic
from scripts.matrix import stages
from scripts.records import fields, latency_section, shapes, speedups
from scripts.records import limit_shares as limits
from scripts.records.columns import FIELDS
from scripts.run import outputs, unmeasured
from scripts.supervise import outcome
from scripts.supervise.diagnose import diagnose
from scripts.supervise.outcome import Outcome
from scripts.timing.group_timing import GroupTiming, MemberTiming
from scripts.timing.measurement import Verified

FORMAT = 2
MEMBER = "module"
"""The name of the module in the timing."""
VERIFY, TIME = "verify", "time"
_NAME = re.compile(r"\w[\w.-]*")
_KEYS = {
    "name": str,
    "system": str,
    "cores": int,
    "row": dict,
    "fingerprint": str,
    "returncode": int,
    "log": str,
}


def place(results: Path, data: Mapping[str, Any]) -> Path:
    """Where a record is kept, as run/outputs.py finds it. A later one of the same cell and machine replaces it."""
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
        raise ValueError(f"not a record of vmfbench bundle --measure ({error!r})") from error


def _row(data: Any, log: str) -> dict[str, Any]:
    _check(data)
    found = copy.deepcopy(data["row"])
    experiment, values = found["experiment"], data["verified"] or {}
    target = experiment["target"]
    # A target of another toolchain has an `@` already.
    experiment |= {
        "target": f"{target}{'+' if '@' in target else '@'}{data['name']}",
        "imported": data["name"],
    }
    timing = msgspec.convert(data["timing"], GroupTiming) if data["timing"] else None
    member = timing.members[MEMBER] if timing else None
    ended = _ended(data, member, log)
    latency = None
    if timing and ended.status == outcome.OK:
        latency = latency_section.of(
            timing, f"{_cell(data['row'])}@{data['name']}", MEMBER,
            experiment["test"], experiment["phase"], experiment["batch_size"], None,
        )  # fmt: skip
    verified = msgspec.convert(data["verified"], Verified) if data["verified"] else None
    found |= {
        "outcome": {
            key: getattr(ended, key) for key in fields.names(FIELDS, "outcome") if key != "stale"
        },
        "verification": values.get("verification") or {"code": unmeasured.unmeasured(ended)},
        "latency": latency,
        "runs": [asdict(one) for one in verified.runs] or None if verified else None,
        "run": {key: values.get(key) for key in fields.names(FIELDS, "run")}
        | {"max_rss_mb": (member and member.peak_rss_mb) or values.get("max_rss_mb")},
        "versions": found["versions"] | values.get("versions", {}),
        "imported": {"system": data["system"], "cores": data["cores"]},
    }
    found.pop("work", None)
    _check_schema(found)
    return found


def _cell(of: Mapping[str, Any]) -> str:
    experiment = of["experiment"]
    return f"{of['model']['name']}/{experiment['frontend']}/{experiment['target']}"


def _ended(data: Mapping[str, Any], timed: MemberTiming | None, log: str) -> Outcome:
    """The outcome: that of the verification, or of a timing that failed."""
    found = timed if data["returncode"] == 0 else diagnose(data["returncode"], data["log"])
    assert found is not None  # _check has looked
    return Outcome(
        status=found.status,
        stage=TIME if found is timed and found.status != outcome.OK else VERIFY,
        cell=_cell(data["row"]),
        reason=found.reason,
        detail=found.detail,
        log=log,
        command="python -m scripts.stages.measure_elsewhere",
        fingerprint=data["fingerprint"],
    )


def _check(data: Any) -> None:
    """Raise ValueError if something is no record of scripts.stages.measure_elsewhere."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(
            f"not a record.json of format {FORMAT} of a bundle of vmfbench bundle --measure"
        )
    for key, kind in _KEYS.items():
        if not isinstance(data.get(key), kind):
            raise ValueError(f"{key} is {type(data.get(key)).__name__}, expected {kind.__name__}")
    if not _NAME.fullmatch(data["name"]):
        raise ValueError(f"name {data['name']!r}: expected letters, digits, and - . _")
    code, verified, timing = data["returncode"], data["verified"], data["timing"]
    if verified is not None:
        what = shapes.problem(stages.STAGES[VERIFY], verified)
        if code == 0 and not what:
            what = shapes.contradiction(verified, outcome.OK)
        if what:
            raise ValueError(f"verified: {what}")
    if timing is not None and (what := shapes.problem(stages.STAGES[TIME], timing)):
        raise ValueError(f"timing: {what}")
    if code == 0 and (not verified or MEMBER not in (timing or {}).get("members", {})):
        raise ValueError("it is verified and has no timing")


def _check_schema(found: Mapping[str, Any]) -> None:
    """Raise ValueError if a row does not follow the schema of records, once it is compared with others."""
    whole = copy.deepcopy(dict(found))
    whole["work"] = limits.section(whole, None, [])
    speedups.add_speedups([whole])
    for error in jsonschema.Draft202012Validator(fields.schema(FIELDS)).iter_errors(whole):
        raise ValueError(f"{'.'.join(map(str, error.absolute_path))}: {error.message}")
