"""Rows that were measured on other machines, from the records of scripts.tools.reproduce.measure_elsewhere.

A record has the row of the cell as it was when the bundle was made, and what was measured. Everything that is derived
from measurements is computed here, as for other rows. They are compared with rows of the same device only, so usually with other
imported rows or with none.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scripts.config import stages
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming
from scripts.measure.verify.verification import Verified
from scripts.results import columns, latency_section, results_file, speedups, stage_files
from scripts.results.columns import FIELDS
from scripts.run import outputs
from scripts.supervise import outcome
from scripts.supervise.diagnose import diagnose
from scripts.supervise.outcome import Outcome

FORMAT = 2
MEMBER = "module"
"""The name of the module in the timing."""
VERIFY, TIME = "verify", "time"


class Measured(msgspec.Struct):
    """A record of scripts.tools.reproduce.measure_elsewhere: `row` is that of the cell as it was when the bundle was made."""

    format: Literal[2]
    name: Annotated[str, msgspec.Meta(pattern=r"\A\w[\w.-]{0,99}\Z")]
    system: Annotated[str, msgspec.Meta(max_length=200)]
    cores: int
    row: dict[str, Any]
    fingerprint: str
    returncode: int
    log: str
    verified: Verified | None
    timing: GroupTiming | None

    @property
    def cell(self) -> str:
        experiment = self.row["experiment"]
        return f"{self.row['model']['name']}/{experiment['frontend']}/{experiment['target']}"


def place(results: Path, measured: Measured) -> Path:
    """Where a record is kept, as run/outputs.py finds it. A later one of the same cell and machine replaces it."""
    return results / "imported" / measured.name / f"{measured.cell.replace('/', '__')}.json"


def rows(results: Path = Path("results")) -> list[dict[str, Any]]:
    """The rows of all imported records. Raises ValueError, with the name of the file and what to do."""
    imported_rows = []
    for path in map(Path, outputs.imported(results)):
        try:
            imported_rows.append(row(load(path), str(path)))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path}: {error}; import the record again, or delete the file"
            ) from error
    return imported_rows


def load(path: Path) -> Any:
    """Read the file of a record. Raises OSError, or ValueError if it is not JSON: numbers are finite, text is Unicode."""
    if (size := path.stat().st_size) > results_file.MOST_CHARS:
        raise ValueError(f"found {size:,} bytes, expected at most {results_file.MOST_CHARS:,}")
    try:
        return msgspec.json.decode(path.read_bytes())
    except RecursionError as error:
        raise ValueError("its lists are nested too deeply") from error


def row(data: Any, log: str) -> dict[str, Any]:
    """The row of a record, without comparisons. `log`: the file that has its log. Raises ValueError if it is none."""
    try:
        return _row(read(data), data["verified"] or {}, log)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a record of vmfbench bundle --measure ({error!r})") from error


def read(data: Any) -> Measured:
    """Check a record. Raises ValueError if it is none."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(
            f"not a record.json of format {FORMAT} of a bundle of vmfbench bundle --measure"
        )
    try:
        measured = msgspec.convert(data, Measured)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    for key, stage in (("verified", VERIFY), ("timing", TIME)):
        if data[key] is not None and (what := stage_files.problem(stages.STAGES[stage], data[key])):
            raise ValueError(f"{key}: {what}")
    if measured.returncode == 0:
        if not measured.verified or not measured.timing or MEMBER not in measured.timing.members:
            raise ValueError("it is verified and has no timing")
        if what := stage_files.contradiction(data["verified"], outcome.OK):
            raise ValueError(f"verified: {what}")
    return measured


def _row(measured: Measured, values: Mapping[str, Any], log: str) -> dict[str, Any]:
    """The row. `values`: those of the verification as they were written."""
    row = copy.deepcopy(measured.row)
    experiment, name = row["experiment"], measured.name
    # A target of another toolchain has an `@` already.
    target = experiment["target"]
    experiment |= {"target": f"{target}{'+' if '@' in target else '@'}{name}", "imported": name}
    timing, verified = measured.timing, measured.verified
    member = timing.members[MEMBER] if timing else None
    ended = _ended(measured, member, log)
    latency = None
    if timing and ended.status == outcome.OK:
        latency = latency_section.of_timing(
            timing, f"{measured.cell}@{name}", MEMBER,
            experiment["test"], experiment["phase"], experiment["batch_size"], None,
        )  # fmt: skip
    row |= {
        "outcome": {
            key: getattr(ended, key) for key in columns.names(FIELDS, "outcome") if key != "stale"
        },
        "verification": values.get("verification") or {"code": outputs.code_of_unmeasured(ended)},
        "latency": latency,
        "runs": [asdict(run) for run in verified.runs] or None if verified else None,
        "run": {key: values.get(key) for key in columns.names(FIELDS, "run")}
        | {"max_rss_mb": (member and member.peak_rss_mb) or values.get("max_rss_mb")},
        "versions": row["versions"] | values.get("versions", {}),
        "imported": {"system": measured.system, "cores": measured.cores},
    }
    row.pop("work", None)
    msgspec.convert(row, results_file.MODELS.decoder.type)  # its names are parts of paths
    _check_declared(row)
    return row


def _ended(measured: Measured, timed: MemberTiming | None, log: str) -> Outcome:
    """The outcome: that of the verification, or of a timing that failed."""
    ending = timed if measured.returncode == 0 else diagnose(measured.returncode, measured.log)
    assert ending is not None  # `read` has looked
    return Outcome(
        status=ending.status,
        stage=TIME if ending is timed and ending.status != outcome.OK else VERIFY,
        cell=measured.cell,
        reason=ending.reason,
        detail=ending.detail,
        log=log,
        command="python -m scripts.tools.reproduce.measure_elsewhere",
        fingerprint=measured.fingerprint,
    )


def _check_declared(row: Mapping[str, Any]) -> None:
    """Raise ValueError if a row is not as records are declared, once it is compared with others."""
    whole = copy.deepcopy(dict(row))
    whole["work"] = speedups.work_section(whole, None, [])
    speedups.add_speedups([whole])
    if what := results_file.MODELS.problem(whole):
        raise ValueError(f"{what:.300}")
