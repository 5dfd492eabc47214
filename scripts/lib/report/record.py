"""Makes the record of every cell, also of failed ones: a line of results.jsonl and a row of the CSV.

A record shows how far its cell came. `status`, `stage`, `reason` and `detail` are those of the first
stage in its chain that failed (or ok, at measure). `blocked_by` names that stage and cell if later
stages of the chain were skipped because of it. columns.py describes each value, and says which of them
are columns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scripts.lib.config import plugins, stages, tuning
from scripts.lib.config.cell import Cell, Kind
from scripts.lib.config.entries import Baseline, Frontend, Model, Target
from scripts.lib.config.matrix import Matrix, baseline_cell, iree_cell
from scripts.lib.config.precision import DEFAULT_MATMUL_PRECISION
from scripts.lib.config.stages import Stage, status_path
from scripts.lib.config.toolchains import PINNED
from scripts.lib.config.tuning import TUNED
from scripts.lib.core import atomic
from scripts.lib.driver import fingerprint, verdict
from scripts.lib.modeling import source
from scripts.lib.report import limits, rounds, shapes, speedups, versions
from scripts.lib.report.columns import FIELDS
from scripts.lib.report.fields import names
from scripts.lib.report.rounds import Measured
from scripts.lib.supervision import damage, outcome, remedies
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.supervision.tuning.report import Report
from scripts.lib.supervision.tuning.report import read as read_report
from scripts.lib.timing.latency import trust
from scripts.lib.verification import codes

# Fields that a record copies from an outcome, a measurement and a signature.
_OF_OUTCOME = [name for name in names(FIELDS, "outcome") if name != "stale"]
_OF_MEASUREMENT = names(FIELDS, "run")
_OF_SIGNATURE = names(FIELDS, "reference")
_OF_REMEDY = names(FIELDS, "remedy")
_OF_TRIED = names(FIELDS, "remedy.tried[]")
_ALSO_READ = {"reference": ("signature.json",), "gradients": ("signature.json",)}
"""Files of a stage that records are made from, and that are not inputs of the aggregation's rule."""


def records(matrix: Matrix, root: Path = Path(), further: Iterable[dict] = ()) -> list[dict]:
    """The records of all cells, then of all baselines, in the order of the matrix, then `further` ones.

    Raises ValueError if the file with the limits of a device has another form.
    """
    found = [iree_record(root, matrix, *cell) for cell in matrix.cells()]
    found += [baseline_record(root, matrix, *cell) for cell in matrix.baseline_cells()]
    found += further
    compare(found, matrix, root)
    return found


def compare(found: list[dict], matrix: Matrix, root: Path) -> None:
    """Add to records what compares them with each other and with what their devices can do.

    Raises ValueError if the file with the limits of a device has another form.
    """
    measured = limits.read(matrix, root)
    for record in found:
        record["work"] = limits.section(record, _work(root, record), measured)
    speedups.add_machine_speeds(found)
    speedups.add_speedups(found)


def iree_record(
    root: Path, matrix: Matrix, model: Model, frontend: Frontend, target: Target
) -> dict:
    """The record of one IREE cell, from the files of its stages."""
    row_cell = iree_cell(model, frontend, target)
    module = row_cell.to(Kind.MODULE)
    remedy = _remedy(root, module) if matrix.attempts(frontend.name, target) else {}
    chain = matrix.chain(row_cell)
    if remedy.get("name"):
        chain = stages.remedied(chain)
    record = _record(root, matrix, row_cell, chain, None, model, target.device_kind)
    record["remedy"] = {key: remedy[key] for key in _OF_REMEDY if key in remedy} or None
    record["experiment"] |= {
        "test": frontend.test,
        "optimizer": matrix.train if frontend.test == "train" else None,
        "tuned": target.tuned_by or None,
        "toolchain": versions.toolchain(frontend.name, target),
    }
    record["experiment"] |= of_target(row_cell, target)
    record["compile"] = remedy.get("compile") or _read_if_whole(
        root, stages.STAGES["compile"], module, stages.REPORT
    )
    iree = versions.iree(root, matrix, target.env, record["versions"].get("iree"))
    _add_export(root, matrix, record, row_cell.to(Kind.PROGRAM), frontend)
    record["versions"] |= iree
    return record


def tuned_record(root: Path, matrix: Matrix, row: Cell) -> tuple[dict, Report | None]:
    """The record of a row of results/tuned.csv, and the report of its tuning (None: there is none)."""
    model, target = matrix.models[row["model"]], matrix.tuning.targets[row["target"]]
    target = target.of(model)
    record = _record(root, matrix, row, matrix.chain(row), None, model, target.device_kind)
    found = _read_if_whole(root, stages.STAGES["tune"], row.to(Kind.TUNING), stages.REPORT)
    report = read_report(found) if found else None
    chosen = report and report.of(report.tuned if row["frontend"] == TUNED else report.default)
    record["versions"] = dict.fromkeys(versions.OF_EVERY_RECORD) | record["versions"]
    if chosen:
        spec = tuning.spec_flags(model.name, row["target"], chosen.spec)
        target = replace(target, opt_level=chosen.opt_level, flags=(*chosen.flags, *spec))
        record["compile"] = chosen.compile
        exported = Cell.of(Kind.PROGRAM, model=model.name, frontend=chosen.frontend)
        _add_export(root, matrix, record, exported, matrix.frontends[chosen.frontend])
    record["experiment"] |= {
        "test": "eval",
        "tuned": None,
        "toolchain": PINNED,
    } | of_target(row, target)
    record["versions"] |= versions.iree(root, matrix, target.env, record["versions"]["iree"])
    return record, report


def baseline_record(
    root: Path, matrix: Matrix, model: Model, baseline: Baseline, test: str
) -> dict:
    """The record of one test of one baseline of one model."""
    row_cell = baseline_cell(model, baseline, test)
    chain = matrix.chain(row_cell)
    record = _record(root, matrix, row_cell, chain, baseline, model, baseline.device)
    record["experiment"] |= of_baseline(row_cell, baseline) | {
        "precision": matrix.precision(model, baseline, test),
        "matmul_precision": matrix.measure.get("matmul_precision", DEFAULT_MATMUL_PRECISION),
        "optimizer": matrix.train if test == "train" else None,
    }
    if baseline.compile:
        record["experiment"]["compile"] = baseline.compile
    if baseline.rewrites:
        record["experiment"]["rewrites"] = baseline.rewrites
        measured = _measured(root, stages.STAGES["baseline"], row_cell)
        record["export"] = {"rewrites": measured.get("rewrites", [])}
    declared = plugins.runtime(baseline.runtime).versions
    versions.add(record, versions.pins(matrix, baseline.env), declared, record["versions"])
    if matrix.runs_program(row_cell):
        program = matrix.program(row_cell)
        _add_export(root, matrix, record, program, matrix.programs[baseline.program])
    return record


def of_target(row: Cell, target: Target) -> dict[str, Any]:
    """The values of the section `experiment` that an IREE cell has by its target."""
    return {
        "precision": "none",
        "xla_flags": None,
        "runtime": "iree",
        **row.columns(),
        "backend": target.backend,
        "arch": target.arch,
        "opt_level": target.opt_level,
        "flags": list(target.flags),
        "device_uri": target.device,
    }


def of_baseline(row: Cell, baseline: Baseline) -> dict[str, Any]:
    """The same of a cell of a baseline, by its entry."""
    runtime = baseline.runtime.replace("_", "-")  # a module's name has no dash
    return row.columns() | {
        "xla_flags": baseline.xla_flags or None,
        "runtime": runtime,
        "frontend": baseline.program or None,
        "target": baseline.name if baseline.name != runtime else None,
        "backend": None,
        "device_uri": baseline.device,
    }


def _add_export(
    root: Path, matrix: Matrix, record: dict, exported: Cell, frontend: Frontend
) -> None:
    """Add the report of the program's export."""
    record["experiment"] |= {"exporter": frontend.exporter, "exporter_options": frontend.options}
    export = _read_if_whole(root, stages.STAGES["export"], exported, stages.REPORT)
    record["export"] = export
    found = {key.removesuffix("_version"): value for key, value in export.items() if key.endswith("_version")}  # fmt: skip
    declared = plugins.exporter(frontend.exporter).versions
    versions.add(record, versions.pins(matrix, frontend.env), declared, found)


def _remedy(root: Path, module: Cell) -> dict:
    """The report of the remedies of a module, with the failure that they were tried for (`first`); {} if its
    compilation did not fail, or they have not been tried."""
    asked = outcome.read_or_damaged(root / stages.STAGES["compile"].path(module, stages.STATUS))
    report = _read_if_whole(root, stages.STAGES["remedy"], module, stages.REPORT)
    if not report or not remedies.is_remediable(asked):
        return {}
    first = {key: getattr(asked, key) for key in ("status", "reason", "detail", "log")}
    tried = [{key: one[key] for key in _OF_TRIED} for one in report["tried"]]
    return report | {"first": first, "tried": tried}


def _record(
    root: Path,
    matrix: Matrix,
    row: Cell,
    chain: list[tuple[Stage, Cell]],
    entry: Baseline | None,
    model: Model,
    device: str,
) -> dict:
    """The part of a record that IREE cells and baselines have in common; `entry` is the baseline's.
    `chain`: the stages of the row, with the remedy in place of a compilation that it has made good."""
    again = matrix.second_round(row)
    outcomes, second = ([_ended(root, *one) for one in of] for of in (chain, again))
    code = fingerprint.code_of_stage(stages.modules(chain[-1][0], entry))
    stale = any(fingerprint.is_stale(found, code) for found in (outcomes[-1], *second))
    # If the first round succeeded, the second round can still fail the cell.
    if outcomes[-1].status == outcome.OK:
        outcomes += [found for found in second if found.status != outcome.OK]
    last, decisive = outcomes[-1], deciding(root, outcomes)
    stage, of = [*chain, *again][len(outcomes) - 1]
    whole = decisive.status != outcome.DAMAGED
    measured = _measured(root, stage, of) if whole else {}
    timed = rounds.timed(taken := [measured, *(_measured(root, *one) for one in again if whole)])
    ran = _usage(root / stage.path(of, stages.STATUS)) if last.status != outcome.SKIPPED else None
    return {
        "model": {"name": model.name, "suite": model.suite, "file": model.file, "options": model.options},
        "experiment": {
            "dtype": model.dtype,
            "batch_size": model.batch_size,
            "phase": model.phase,
            "device": device,
        },
        "reference": _reference(root, model),
        "outcome": {key: getattr(decisive, key) for key in _OF_OUTCOME}
        | {"blocked_by": last.blocked_by, "stale": stale and decisive.status == outcome.OK},
        "verification": _verification(decisive, measured),
        "latency": latency_of(timed, model.phase, model.batch_size) | rounds.left_out(taken) if timed else None,
        "runs": rounds.runs(timed) if timed else None,
        "run": {key: measured.get(key) for key in _OF_MEASUREMENT}
        | {
            "host": asdict(rounds.host(timed)) if timed else None,
            "stage_rss_mb": ran.max_rss_mb if ran else None,
            "seconds": ran.seconds if ran else None,
        },
        "export": None,
        "compile": None,
        "remedy": None,
        "versions": dict(measured.get("versions", {})),
    }  # fmt: skip


def _measured(root: Path, stage: Stage, of: Cell) -> dict:
    return _read_if_whole(root, stage, of, stages.MEASUREMENT)


def deciding(root: Path, outcomes: list[Outcome]) -> Outcome:
    """The first stage that failed itself, else the last one.

    If a stage outside the chain (an environment) blocked it, the outcome of that stage.
    """
    for result in outcomes:
        if result.status == outcome.SKIPPED and not result.blocked_by:
            return result
    for result in outcomes:
        if result.status == outcome.OK:
            continue
        if result.status == outcome.SKIPPED and result.blocked_by:
            stage, _, blocking = result.blocked_by.partition(" ")
            return outcome.read_or_damaged(root / status_path(stage, blocking))
        return result
    return outcomes[-1]


def _ended(root: Path, stage: Stage, of: Cell) -> Outcome:
    """The outcome of a stage of a cell; `damaged` if a file that the record needs is damaged."""
    found = outcome.read_or_damaged(root / stage.path(of, stages.STATUS))
    if found.status != outcome.DAMAGED:
        for file in (*stage.aggregated, *_ALSO_READ.get(stage.name, ())):
            if file != stages.STATUS and (what := _damage(root, stage, of, file, found)):
                return replace(
                    found, status=outcome.DAMAGED, reason=outcome.DAMAGED_FILE, detail=what
                )
    return found


def _damage(root: Path, stage: Stage, of: Cell, file: str, ended: Outcome) -> str:
    """What is wrong with a JSON file of a stage, or "". The file of a stage that succeeded must not be
    empty."""
    path = root / stage.path(of, file)
    try:
        if what := damage.difference(path):
            return what
        if not (found := _read(path, stage)):
            empty = f"{path} is empty; the next run makes it again"
            return empty if ended.status == outcome.OK else ""
        if file == stages.MEASUREMENT and (
            what := shapes.contradiction(stage, found, ended.status)
        ):
            return f"{path}: {what}; the next run makes it again"
        return ""
    except (OSError, ValueError) as error:
        return str(error)


def _usage(status_path: Path) -> Usage | None:
    """The usage of a stage; None if it is not known."""
    try:
        return outcome.read_usage(status_path)
    except (OSError, ValueError):
        return None


def _verification(decisive: Outcome, measured: dict) -> dict:
    """The comparison with golden, or the code that says why there is none."""
    if measured:
        return measured["verification"]
    code = verdict.unmeasured(decisive)
    return {"code": code} | ({"detail": decisive.detail} if code == codes.SKIPPED else {})


def _reference(root: Path, model: Model) -> dict:
    """The information about the model from the reference stage, without outputs; {} if it failed."""
    signature = _read_if_whole(root, stages.STAGES["reference"], model.name, "signature.json")
    found = {key: signature[key] for key in _OF_SIGNATURE if signature.get(key)}
    return found | {"digests": _digests(root, model)} if signature else {}


def _digests(root: Path, model: Model) -> dict[str, str]:
    """The digests of the model's weights and inputs, and of its code; without those that are not known."""
    used = _usage(root / stages.STAGES["reference"].path(model.name, stages.STATUS))
    files = {"weights": "weights.irpa", "inputs": "inputs.npz"}
    made = used.artifacts if used else {}
    found = {
        name: f"{made[file].bytes} {made[file].crc32}"
        for name, file in files.items()
        if file in made
    }
    code = _code(str(root / model.file))
    return found | ({"code": code} if code else {})


@functools.cache
def _code(file: str) -> str:
    """A hash of the code of a model file; "" if it cannot be read."""
    try:
        return source.code_digest(file)
    except (source.ModelFileError, OSError):
        return ""


def _work(root: Path, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The work of a call, by the signature of its test; None if it is not known."""
    stage = "gradients" if record["experiment"]["test"] == "train" else "reference"
    model = record["model"]["name"]
    return _read_if_whole(root, stages.STAGES[stage], model, "signature.json").get("work")


def _of_language_model(latency_ms: float, phase: str | None, batch_size: int) -> dict[str, float]:
    """The usual figures for language models: milliseconds from a prompt to its first new token (prefill),
    and new tokens per second of the whole batch (decode)."""
    if phase == "prefill":
        return {"ttft_ms": latency_ms}
    if phase == "decode":
        return {"tokens_per_s": batch_size * 1e3 / latency_ms}
    return {}


def latency_of(timed: Sequence[Measured], phase: str | None, batch_size: int) -> dict:
    """The latency over the rounds that were timed, with the figures of language models."""
    section = latency_section(timed)
    return section | _of_language_model(section["median_ms"], phase, batch_size)


def latency_section(timed: Sequence[Measured]) -> dict:
    """The latency over the rounds that were timed. Speed-ups are added later."""
    latency = rounds.latency(timed)
    drift = rounds.speed_drift(timed)
    grade = trust(latency, rounds.host(timed), drift)
    return {
        "median_ms": latency.median,
        "mean_ms": latency.mean,
        "min_ms": latency.min,
        "p95_ms": latency.p95,
        "stdev_ms": latency.stdev,
        "cv": latency.cv,
        "repetitions": latency.count,
        "iterations": latency.iterations,
        "cpu_per_real": latency.cpu_per_real,
        "trust": grade.grade,
        "trust_reasons": list(grade.reasons),
        "machine_drift": drift,
        "values_ms": list(latency.values_ms),
        "cpu_ms": list(latency.cpu_ms),
        "rounds": [rounds.described(one) for one in timed],
    }


def _read(path: Path, stage: Stage) -> dict:
    """The JSON of an artifact; {} for the empty file of a failed stage. Raises OSError or ValueError, naming
    the file, if it is damaged or does not have the shape that the stage writes."""
    if not path.stat().st_size:
        return {}
    found = atomic.read_json(path)
    if found != {} and (what := shapes.problem(stage, found)):
        raise ValueError(f"{path}: {what}; the next run makes it again")
    return found


def _read_if_whole(root: Path, stage: Stage, of: Cell | str, file: str) -> dict:
    """The same, but {} for a damaged file too. The status of its stage reports the damage (_ended)."""
    try:
        return _read(root / stage.path(of, file), stage)
    except (OSError, ValueError):
        return {}
