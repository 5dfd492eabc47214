"""A result record for every cell, always: nested for JSONL, flat for the CSV.

A record says how far its cell came. `status`, `stage`, `reason` and `detail` are those of the
first stage in its chain that did not end well (or ok, at measure); `blocked_by` names that
stage and cell where later stages of the chain were skipped for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.lib.config import plugins
from scripts.lib.config.matrix import Baseline, Frontend, Matrix, Model, Target, baseline_cell
from scripts.lib.core import atomic
from scripts.lib.driver import environments
from scripts.lib.driver.plan import IREE_ENV, status_path
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome
from scripts.lib.timing.latency import GRADES, Latency
from scripts.lib.timing.measurement import Run

COLUMNS = (
    "model", "suite", "phase", "test", "dtype", "precision", "batch_size", "runtime", "frontend", "target", "backend",
    "device", "device_name", "threads", "status", "stage", "reason", "detail", "blocked_by",
    "verification_code", "max_abs_error", "rmse_vs_fp64", "greedy_tokens", "latency_ms", "mean_ms", "min_ms",
    "p95_ms", "stdev_ms", "cv", "repetitions", "trust", "trust_reason", "speedup_vs_eager",
    "speedup_trust", "ttft_ms", "tokens_per_s",
    "load_ms", "first_call_ms", "export_s", "trace_s", "compile_s", "execute_s", "vmfb_bytes",
    "dispatch_count", "compile_rss_mb", "run_rss_mb", "device_memory_mb", "torch_version",
    "frontend_version", "torch_xla_version", "iree_version", "rewrites", "inputs_from",
    "weights_bytes", "float_weights_bytes", "quantization_sqnr_db", "fingerprint", "log",
)  # fmt: skip
"""Columns of results/latency.csv, in order."""


def records(matrix: Matrix, root: Path = Path()) -> list[dict]:
    """The records of all cells, then of all baselines, in the order of the matrix."""
    found = [iree_record(root, *cell) for cell in matrix.cells()]
    found += [baseline_record(root, matrix, *cell) for cell in matrix.baseline_cells()]
    bases: dict[tuple, dict] = {}
    for record in found:
        if record["experiment"]["runtime"] == "eager" and record["latency"]:
            bases.setdefault(_comparable(record), record["latency"])
    for record in found:
        latency, base = record["latency"], bases.get(_comparable(record))
        if latency and base:
            latency["speedup_vs_eager"] = base["median_ms"] / latency["median_ms"]
            # A ratio is worth no more than the worse of the two that it is of.
            latency["speedup_trust"] = max(latency["trust"], base["trust"], key=GRADES.index)
    return found


def iree_record(root: Path, model: Model, frontend: Frontend, target: Target) -> dict:
    """The record of one IREE cell, from what its stages left."""
    exported = f"{model.name}/{frontend.name}"
    cell = f"{exported}/{target.name}"
    chain = [("reference", model.name), ("export", exported), ("compile", cell), ("measure", cell)]
    record = _record(root, chain, model, target.device_kind)
    record["experiment"] |= {
        "test": "eval",
        "precision": "none",
        "xla_flags": None,
        "runtime": "iree",
        "frontend": frontend.name,
        "target": target.name,
        "backend": target.backend,
        "arch": target.arch,
        "opt_level": target.opt_level,
        "flags": list(target.flags),
        "device_uri": target.device,
    }
    compiled = _report(root, "compile", cell)
    record["compile"] = compiled
    iree = record["versions"].get("iree") or _pin(IREE_ENV, "iree-base-compiler")
    _add_export(root, record, exported, frontend)
    record["versions"]["iree"] = iree
    return record


def baseline_record(
    root: Path, matrix: Matrix, model: Model, baseline: Baseline, test: str
) -> dict:
    """The record of one test of one baseline of one model."""
    cell = baseline_cell(model.name, baseline.name, test)
    runtime = baseline.runtime.replace("_", "-")  # a module's name has no dash
    chain = [("reference", model.name), ("baseline", cell)]
    exported = f"{model.name}/{baseline.program}"
    if baseline.program:
        chain.insert(1, ("export", exported))
    record = _record(root, chain, model, baseline.device)
    record["experiment"] |= {
        "test": test,
        "precision": matrix.precision(model, baseline, test),
        "matmul_precision": matrix.measure.get("matmul_precision", "highest"),
        "optimizer": matrix.train if test == "train" else None,
        "xla_flags": baseline.xla_flags or None,
        "runtime": runtime,
        "frontend": baseline.program or None,
        "target": baseline.name if baseline.name != runtime else None,
        "backend": None,
        "device_uri": baseline.device,
    }
    versions = plugins.runtime(baseline.runtime).versions
    _add_versions(record, baseline.env, versions, record["versions"])
    if baseline.program:
        _add_export(root, record, exported, matrix.programs[baseline.program])
    return record


VERSIONS = ("torch", "torch_xla", "frontend", "iree")
"""What every record says the versions of, None where it has no such thing."""


def _add_versions(
    record: dict, env: str, declared: Mapping[str, str], found: Mapping[str, str | None]
) -> None:
    """The versions that an exporter or runtime declares: those found, else what its environment
    pins."""
    pinned = {called: _pin(env, distribution) for distribution, called in declared.items()}
    known = {called: found.get(called) or pin for called, pin in pinned.items()}
    record["versions"] = dict.fromkeys(VERSIONS) | record["versions"] | known


def _add_export(root: Path, record: dict, exported: str, frontend: Frontend) -> None:
    """What the export of the program says of it."""
    record["experiment"] |= {"exporter": frontend.exporter, "exporter_options": frontend.options}
    export = record["export"] = _report(root, "export", exported)
    found = {key.removesuffix("_version"): value for key, value in export.items() if key.endswith("_version")}  # fmt: skip
    _add_versions(record, frontend.env, plugins.exporter(frontend.exporter).versions, found)


def row(record: dict) -> dict[str, Any]:
    """The flat CSV row of a record; None where there is nothing to say."""
    experiment, result = record["experiment"], record["outcome"]
    verification, latency = record["verification"], record["latency"] or {}
    run, compiled = record["run"], record.get("compile") or {}
    export, cold = record.get("export") or {}, (record.get("runs") or [{}])[0]
    quantization = record["reference"].get("quantization") or {}
    flat = {
        "model": record["model"]["name"],
        "suite": record["model"]["suite"],
        "phase": experiment["phase"],
        **{k: experiment[k] for k in ("test", "dtype", "precision", "batch_size", "runtime", "frontend", "target", "backend", "device")},
        "device_name": run.get("device_name"),
        "threads": run.get("threads"),
        **{k: result[k] or None for k in ("status", "stage", "reason", "detail", "blocked_by", "fingerprint", "log")},
        "verification_code": verification["code"],
        "max_abs_error": verification.get("max_abs_error"),
        "rmse_vs_fp64": verification.get("rmse_vs_fp64"),
        "greedy_tokens": _greedy(verification),
        **{f"{k}_ms": latency.get(f"{k}_ms") for k in ("mean", "min", "p95", "stdev")},
        "latency_ms": latency.get("median_ms"),
        "cv": latency.get("cv"),
        "repetitions": latency.get("repetitions"),
        "trust": latency.get("trust"),
        "trust_reason": "; ".join(latency.get("trust_reasons", [])) or None,
        "speedup_vs_eager": latency.get("speedup_vs_eager"),
        "speedup_trust": latency.get("speedup_trust"),
        "ttft_ms": latency.get("ttft_ms"),
        "tokens_per_s": latency.get("tokens_per_s"),
        "load_ms": run.get("load_ms"),
        "first_call_ms": run.get("first_call_ms"),
        "export_s": export.get("export_s"),
        "trace_s": cold.get("trace_s"),
        "compile_s": compiled.get("compile_s", run.get("compile_s")),
        "execute_s": cold.get("execute_s"),
        "vmfb_bytes": compiled.get("vmfb_bytes"),
        "dispatch_count": compiled.get("dispatch_count"),
        "compile_rss_mb": compiled.get("max_rss_mb"),
        "run_rss_mb": run.get("max_rss_mb"),
        "device_memory_mb": run.get("device_memory_mb"),
        **{f"{k}_version": record["versions"].get(k) for k in ("torch", "frontend", "torch_xla", "iree")},
        "rewrites": "; ".join(export.get("rewrites", [])) or None,
        "inputs_from": record["reference"].get("inputs_from") or None,
        "weights_bytes": record["reference"].get("weights_bytes"),
        "float_weights_bytes": quantization.get("float_bytes"),
        "quantization_sqnr_db": quantization.get("sqnr_db"),
    }  # fmt: skip
    return {column: flat[column] for column in COLUMNS}


def _record(root: Path, chain: list[tuple[str, str]], model: Model, device: str) -> dict:
    """What IREE cells and baselines have in common."""
    outcomes = [outcome.read(root / status_path(stage, cell)) for stage, cell in chain]
    last = outcomes[-1]
    decisive = _decisive(root, outcomes)
    measured = _read_if_whole(root / Path(status_path(*chain[-1])).with_name("measurement.json"))
    usage = outcome.read_usage(root / status_path(*chain[-1]))
    ran = usage is not None and last.status != outcome.SKIPPED
    return {
        "model": {"name": model.name, "suite": model.suite, "file": model.file, "options": model.options},
        "experiment": {
            "dtype": model.dtype,
            "batch_size": model.batch_size,
            "phase": model.phase,
            "device": device,
        },
        "reference": _reference(root, model),
        "outcome": {
            "status": decisive.status,
            "stage": decisive.stage,
            "reason": decisive.reason,
            "detail": decisive.detail,
            "blocked_by": last.blocked_by,
            "log": decisive.log,
            "command": decisive.command,
            "fingerprint": decisive.fingerprint,
        },
        "verification": _verification(decisive, measured),
        "latency": _latency(measured, model),
        "runs": _runs(measured),
        "run": {
            **{key: measured.get(key) for key in ("device_name", "threads", "load_ms", "first_call_ms", "compile_s", "command", "device_memory_mb", "profile")},
            "host": measured.get("host"),
            "max_rss_mb": measured.get("max_rss_mb"),
            "stage_rss_mb": usage.max_rss_mb if ran else None,
            "seconds": usage.seconds if ran else None,
        },
        "export": None,
        "compile": None,
        "versions": dict(measured.get("versions", {})),
    }  # fmt: skip


def _decisive(root: Path, outcomes: list[Outcome]) -> Outcome:
    """The first stage that did not end well by its own fault, else the last.

    A stage blocked by one outside the chain (its environment) stands for that one.
    """
    for result in outcomes:
        if result.status == outcome.SKIPPED and not result.blocked_by:
            return result
    for result in outcomes:
        if result.status == outcome.OK:
            continue
        if result.status == outcome.SKIPPED and result.blocked_by:
            stage, _, cell = result.blocked_by.partition(" ")
            return outcome.read(root / status_path(stage, cell))
        return result
    return outcomes[-1]


def _verification(decisive: Outcome, measured: dict) -> dict:
    """The comparison that was made, or the code for why there is none."""
    if measured:
        return measured["verification"]
    if decisive.status == outcome.SKIPPED:
        return {"code": "VERIFIER_SKIPPED", "detail": decisive.detail}
    if decisive.stage in ("reference", "gradients"):
        return {"code": "EAGER_FAILED"}
    if decisive.stage in ("measure", "baseline") and decisive.status in ("error", "crashed"):
        return {"code": "EXCEPTION_RAISED"}
    return {"code": "VERIFIER_DIDNT_RUN"}


def _reference(root: Path, model: Model) -> dict:
    """What the reference stage says of the model, beside its outputs; {} where it failed."""
    signature = _read_if_whole(root / f"results/reference/{model.name}/signature.json")
    keys = ("inputs_from", "weights_bytes", "quantization")
    return {key: signature[key] for key in keys if signature.get(key)}


def _greedy(verification: dict) -> str | None:
    """`16/16`: greedy tokens that are transformers', of those compared."""
    if verification.get("greedy_expected") is None:
        return None
    return f"{verification['greedy_tokens']}/{verification['greedy_expected']}"


def _of_language_model(latency_ms: float, model: Model) -> dict[str, float]:
    """What users of language models count in: milliseconds from a prompt to its first new token
    (prefill), new tokens a second of the whole batch (decode)."""
    if model.phase == "prefill":
        return {"ttft_ms": latency_ms}
    if model.phase == "decode":
        return {"tokens_per_s": model.batch_size * 1e3 / latency_ms}
    return {}


def _latency(measured: dict, model: Model) -> dict | None:
    if not measured or measured["latency"] is None:
        return None
    stored = measured["latency"]
    latency = Latency(tuple(stored["values_ms"]), tuple(stored["cpu_ms"]), stored["iterations"])
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
        "trust": measured["trust"]["grade"],
        "trust_reasons": measured["trust"]["reasons"],
        "speedup_vs_eager": None,
        "speedup_trust": None,
        **_of_language_model(latency.median, model),
        "values_ms": list(latency.values_ms),
        "cpu_ms": list(latency.cpu_ms),
    }


def _runs(measured: dict) -> list[dict] | None:
    """The cold run, then the repetitions; None where nothing was timed.

    IREE's repetitions are those of its latency, its cold run is the first call.
    """
    if not measured or measured["latency"] is None:
        return None
    if measured.get("runs"):
        return measured["runs"]
    latency = measured["latency"]
    count = latency["iterations"]
    steady = [(value * count * 1e-3, count) for value in latency["values_ms"]]
    cold = (measured["first_call_ms"] * 1e-3, 1)
    return [asdict(Run(total_s, calls)) for total_s, calls in (cold, *steady)]


def _comparable(record: dict) -> tuple:
    """What two latencies must share for their ratio to mean anything."""
    experiment, run = record["experiment"], record["run"]
    return (
        record["model"]["name"],
        *(experiment[key] for key in ("test", "dtype", "precision", "batch_size", "device")),
        run["device_name"],
        run["threads"],
    )


def _report(root: Path, stage: str, cell: str) -> dict:
    return _read_if_whole(root / f"results/{stage}/{cell}/report.json")


def _read_if_whole(path: Path) -> dict:
    """The JSON of an artifact; {} for the empty file of a stage that did not make it."""
    return atomic.read_json(path) if path.stat().st_size else {}


def _pin(env: str, package: str) -> str | None:
    return environments.pins(env).get(package)


def cell_of(record: Mapping[str, Any]) -> str:
    """model/frontend/target, or model/baseline/test."""
    experiment = record["experiment"]
    if experiment["runtime"] == "iree":
        return f"{record['model']['name']}/{experiment['frontend']}/{experiment['target']}"
    name = experiment["target"] or experiment["runtime"]
    return baseline_cell(record["model"]["name"], name, experiment["test"])
