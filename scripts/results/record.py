"""Makes the record of every cell, also of failed ones: a line of results.jsonl and a row of the CSV.

A record shows how far its cell came. `status`, `stage`, `reason` and `detail` are those of the first
stage in its chain that failed (or ok, at its verification). `blocked_by` names that stage and cell if later
stages of the chain were skipped because of it. columns.py describes each value, and says which of them
are columns. Versions of packages are as measured or as tools say of themselves, else as pinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.config import plugins, stages
from scripts.config.cell import TRAIN, Cell, Kind
from scripts.config.choices import DEFAULT_MATMUL_PRECISION
from scripts.config.entries import Baseline, Frontend, Model, Target
from scripts.config.rows import Matrix, baseline_cell, iree_cell
from scripts.config.stages import REPORT, STATUS, VERIFICATION, Stage
from scripts.core import atomic
from scripts.core.version import VERSION
from scripts.iree import tools
from scripts.measure.timing.calls import Run
from scripts.measure.timing.group_timing import GroupTiming
from scripts.measure.verify import verification
from scripts.results import (
    at_hand,
    known_failures,
    latency_section,
    remedied,
    speedups,
    stage_files,
)
from scripts.results.columns import FIELDS, names
from scripts.results.results_file import cell_of
from scripts.run import environments, fingerprint, outputs
from scripts.run.environments import COMPILER
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

# Fields that a record copies from an outcome, a measurement and a signature.
_OF_OUTCOME = [name for name in names(FIELDS, "outcome") if name != "stale"]
_OF_RUN = names(FIELDS, "run")
_RUN = asdict(Run(0.0))
_OF_SIGNATURE = names(FIELDS, "reference")
_OF_COMPILE = names(FIELDS, "compile")
_OF_REMEDY = names(FIELDS, "remedy")
_OF_TRIED = names(FIELDS, "remedy.tried[]")


def records(matrix: Matrix, root: Path = Path(), further: Iterable[dict] = ()) -> list[dict]:
    """The records of all cells, then of all baselines, in the order of the matrix, then `further` ones.

    Raises ValueError if the file with the limits of a device has another form.
    """
    all_records = [iree_record(root, matrix, *cell) for cell in matrix.cells()]
    all_records += [baseline_record(root, matrix, *cell) for cell in matrix.baseline_cells()]
    all_records += further
    compare(all_records, matrix.limited_devices(), root)
    return all_records


def compare(rows: list[dict], devices: Iterable[str], root: Path) -> None:
    """Add to records what compares them with each other and with what `devices`, by name, can do.

    Raises ValueError if the file with the limits of a device has another form.
    """
    measured = speedups.read_limits(devices, root)
    for record in rows:
        is_train = record["experiment"]["test"] == TRAIN
        stage = stages.STAGES["gradients" if is_train else "reference"]
        model = record["model"]["name"]
        signature = stage_files.read_if_whole(root, stage, model, "signature.json")
        if is_train and signature.get("left_out"):
            record["reference"]["left_out"] = signature["left_out"]
        record["work"] = speedups.work_section(record, signature.get("work"), measured)
    speedups.add_speedups(rows)
    add_dynamic_costs(rows)


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
    record = common_record(root, matrix, row_cell, chain, model, target.device_kind)
    record["remedy"] = {key: remedy[key] for key in _OF_REMEDY if key in remedy} or None
    record["experiment"] |= {
        "test": frontend.test,
        "optimizer": matrix.train if frontend.test == "train" else None,
        "tuned": target.tuned_by or None,
        "toolchain": row_cell.toolchain,
    }
    record["experiment"] |= of_target(row_cell, target)
    report = remedy.get("compile") or stage_files.read_if_whole(
        root, stages.STAGES["compile"], module, REPORT
    )
    record["compile"] = {key: report[key] for key in _OF_COMPILE if key in report}
    iree = iree_versions(root, matrix, target.env, record["versions"].get("iree"))
    operators = add_export(root, matrix, record, row_cell.to(Kind.PROGRAM), frontend)
    known_failures.name_cause(record, operators)
    record["versions"] |= iree
    add_python_version(root, matrix, record, target.env, frontend.env)
    return record


def baseline_record(
    root: Path,
    matrix: Matrix,
    model: Model,
    baseline: Baseline,
    test: str,
    timed_stage: str = "time",
) -> dict:
    """The record of one test of one baseline of one model. `timed_stage`: the stage of its group."""
    row_cell = baseline_cell(model, baseline, test)
    chain = matrix.chain(row_cell)
    record = common_record(root, matrix, row_cell, chain, model, baseline.device, timed_stage)
    record["experiment"] |= of_baseline(row_cell, baseline) | {
        "precision": baseline.precision,
        "matmul_precision": matrix.measure.get("matmul_precision", DEFAULT_MATMUL_PRECISION),
        "optimizer": matrix.train if test == "train" else None,
    }
    if baseline.compile:
        record["experiment"]["compile"] = baseline.compile
    if baseline.rewrites:
        record["experiment"]["rewrites"] = baseline.rewrites
        measured = stage_files.read_if_whole(
            root, stages.STAGES["baseline"], row_cell, VERIFICATION
        )
        record["export"] = {"rewrites": measured.get("rewrites", [])}
    declared = plugins.runtime(baseline.runtime).versions
    add_versions(record, pinned_versions(matrix, baseline.env), declared, record["versions"])
    of_export = baseline.env
    if matrix.runs_program(row_cell):
        program = matrix.program(row_cell)
        record["experiment"]["frontend"] = program.frontend
        frontend = matrix.programs[program.frontend]
        add_export(root, matrix, record, program, frontend)
        of_export = frontend.env
    add_python_version(root, matrix, record, baseline.env, of_export)
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
    """The values of the section `experiment` that a cell of a baseline has by its entry."""
    runtime = baseline.runtime_name
    return row.columns() | {
        "xla_flags": baseline.xla_flags or None,
        "runtime": runtime,
        "frontend": None,
        "target": baseline.name if baseline.name != runtime else None,
        "backend": None,
        "device_uri": baseline.device,
    }


def add_export(
    root: Path, matrix: Matrix, record: dict, exported: Cell, frontend: Frontend
) -> dict[str, list[str]]:
    """Add the report of the program's export; return the operators of the program."""
    record["experiment"] |= {"exporter": frontend.exporter, "exporter_options": frontend.options}
    export = stage_files.read_if_whole(root, stages.STAGES["export"], exported, REPORT)
    operators = export.pop("operators", {})
    record["export"] = export
    of_exporter = {key.removesuffix("_version"): value for key, value in export.items() if key.endswith("_version")}  # fmt: skip
    declared = plugins.exporter(frontend.exporter).versions
    add_versions(record, pinned_versions(matrix, frontend.env), declared, of_exporter)
    return operators


def _remedy(root: Path, module: Cell) -> dict:
    """The report of the remedies of a module, with the failure that they were tried for (`first`); {} if its
    compilation did not fail, or they have not been tried."""
    compiled = outcome.read_or_damaged(root / stages.STAGES["compile"].path(module, STATUS))
    report = stage_files.read_if_whole(root, stages.STAGES["remedy"], module, REPORT)
    if not report or not compiled.is_remediable:
        return {}
    first = {key: getattr(compiled, key) for key in ("status", "reason", "detail", "log")}
    tried = [{key: attempt[key] for key in _OF_TRIED} for attempt in report["tried"]]
    return report | {"first": first, "tried": tried}


def common_record(
    root: Path,
    matrix: Matrix,
    row: Cell,
    chain: list[tuple[Stage, Cell]],
    model: Model,
    device: str,
    timed_stage: str = "time",
) -> dict:
    """The part of a record that IREE cells and baselines have in common.
    `chain`: the stages of the row, with the remedy in place of a compilation that it has made good. `timed_stage`: the
    stage of its group."""
    outcomes = [stage_files.ended(root, *place) for place in chain]
    verified_by, last_stage = outcomes[-1], chain[-1]
    timed_by, group = matrix.timed(row, timed_stage)
    timing: GroupTiming | None = None
    if verified_by.status == outcome.OK:
        ended, timing = stage_files.timed(root, timed_by, group, str(row))
        if ended.status != outcome.OK:
            outcomes.append(ended)
            last_stage = timed_by, group
    ran = [(verified_by, chain[-1][0])]
    if timing:
        ran.append((stage_files.ended(root, timed_by, group), timed_by))
    is_stale = any(fingerprint.is_stale(ended, str(by.version)) for ended, by in ran)
    last, decisive = outcomes[-1], stage_files.deciding(root, outcomes)
    whole = decisive.status != outcome.DAMAGED
    measured = stage_files.read_if_whole(root, *chain[-1], VERIFICATION) if whole else {}
    own = timing.members.get(str(row)) if timing and decisive.status == outcome.OK else None
    stage, cell = last_stage
    skipped = last.status == outcome.SKIPPED
    used = None if skipped else stage_files.usage(root / stage.path(cell, STATUS))
    return {
        "model": {"name": model.name, "suite": model.suite, "file": model.file, "options": model.options},
        "experiment": {key: getattr(model, key) for key in ("dtype", "batch_size", "phase")}
        | {"device": device},
        "reference": _reference(root, model),
        "outcome": {key: getattr(decisive, key) for key in _OF_OUTCOME}
        | {"blocked_by": last.blocked_by, "stale": is_stale and decisive.status == outcome.OK},
        "verification": measured.get("verification") or _unverified(decisive),
        "latency": latency_section.of_timing(
            timing, str(group), str(row), row.test, model.phase, model.batch_size,
            stage_files.anchor(root, timing),
        ) if timing and own else None,
        "runs": [
            _RUN | {key: run[key] for key in _RUN.keys() & run} for run in measured.get("runs") or ()
        ] or None,
        "run": {key: measured.get(key) for key in _OF_RUN} | {
            "threads": measured.get("threads") or row.threads,
            "max_rss_mb": (own and own.peak_rss_mb) or measured.get("max_rss_mb"),
            "stage_rss_mb": used.max_rss_mb if used else None,
            "seconds": used.seconds if used else None,
        },
        "export": None,
        "compile": None,
        "remedy": None,
        "versions": dict(measured.get("versions", {})),
        "vmfbench": VERSION,
    }  # fmt: skip


def _unverified(decisive: Outcome) -> dict:
    """The section `verification` of a row that was not verified: the code that says why."""
    code = outputs.code_of_unmeasured(decisive)
    return {"code": code} | ({"detail": decisive.detail} if code == verification.SKIPPED else {})


def _reference(root: Path, model: Model) -> dict:
    """The information about the model from the reference stage, without outputs; {} if it failed."""
    signature = stage_files.read_if_whole(
        root, stages.STAGES["reference"], model.name, "signature.json"
    )
    values = {key: signature[key] for key in _OF_SIGNATURE if signature.get(key)}
    return values | {"digests": _digests(root, model)} if signature else {}


def _digests(root: Path, model: Model) -> dict[str, str]:
    """The digests of the model's weights and inputs, and of its code; without those that are not known."""
    used = stage_files.usage(root / stages.STAGES["reference"].path(model.name, STATUS))
    artifacts = used.artifacts if used else {}
    digests = {
        name: f"{artifacts[file].bytes} {artifacts[file].crc32}"
        for name, file in (("weights", "weights.irpa"), ("inputs", "inputs.npz"))
        if file in artifacts
    }
    code = at_hand.digest(str(root / model.file))
    return digests | ({"code": code} if code else {})


VERSIONS_OF_EVERY_RECORD = ("torch", "torch_xla", "frontend", "iree")
"""The packages whose versions every record has, None if it does not use them."""


def add_versions(
    record: dict[str, Any],
    pins: Mapping[str, str],
    declared: Mapping[str, str],
    versions: Mapping[str, str | None],
) -> None:
    """Add the versions that an exporter or runtime declares: those found, else those that its environment
    pins. The build in a version (`2.15.0+cu132`) is a separate value, because pins have none."""
    known: dict[str, str | None] = {}
    for distribution, called in declared.items():
        version, _, build = (versions.get(called) or pins.get(distribution) or "").partition("+")
        known |= {called: version or None} | ({f"{called}_build": build} if build else {})
    record["versions"] = dict.fromkeys(VERSIONS_OF_EVERY_RECORD) | record["versions"] | known


def pinned_versions(matrix: Matrix, env: str) -> dict[str, str]:
    """The versions that an environment of a matrix pins, by package."""
    return environments.of_run(matrix.toolchains).pins(env)


def iree_versions(
    root: Path, matrix: Matrix, env: str, measured: str | None
) -> dict[str, str | None]:
    """The version of IREE in an environment, and what its compiler says about itself where that was recorded.

    `measured`: the version of the runtime that has measured. It represents the compiler too, unless that
    is a local build.
    """
    build = tools.identified(_tools_said(root, env).get("iree-compile", ""))
    pinned = pinned_versions(matrix, env).get(COMPILER)
    of_build = None if pinned else build.partition(" ")[0]
    known: dict[str, str | None] = {"iree": of_build or measured or pinned}
    return known | ({"iree_build": build} if build else {})


def add_python_version(
    root: Path, matrix: Matrix, record: dict[str, Any], env: str, of_export: str
) -> None:
    """Add the version of Python: the one that verified the row, else that of the environment of the stage where it ended.

    `env`, `of_export`: the environments of the row and of its export. Left out where no file has it.
    """
    reference = dict.fromkeys(("reference", "gradients"), matrix.reference_env)
    by_stage = {**reference, "export": of_export}
    if "python" not in record["versions"]:
        python = _tools_said(root, by_stage.get(record["outcome"]["stage"], env)).get("python")
        record["versions"] |= {"python": python} if python else {}


def _tools_said(root: Path, env: str) -> dict[str, str]:
    """The output of the environment's tools when it was made; {} for one of conda or of an older version, and if the file is
    damaged."""
    path = root / stages.STAGES["env"].path(env, tools.SAID)
    try:
        return {} if stage_files.is_left_out(path) else atomic.read_json(path)
    except (OSError, ValueError):
        return {}


def add_dynamic_costs(records: Sequence[dict[str, Any]]) -> None:
    """Compare each latency of a program for all sizes with that for this size: of the same path and target, or runtime.

    A row that a remedy has made good by another path is compared with none.
    """
    timed = [
        record for record in records if record["latency"] and not remedied.by_other_path(record)
    ]
    by_name = {(str(cell_of(record)), speedups.device_of(record)): record for record in timed}
    for record in timed:
        row = cell_of(record)
        if not row.dynamic:
            continue
        base = by_name.get((str(row.without("dynamic")), speedups.device_of(record)))
        # How many times faster the program for one size is.
        own, other = record["latency"], base and base["latency"]
        record["latency"] |= speedups.ratio_values("dynamic_cost", own, other)
