"""JSON lines as PyTorch/XLA's experiment runner writes: result_analyzer.py, aggregate.py.

Each line is a model under a runtime. Its `metrics` are lists, with element 0 from the cold run. A cell
that was not measured has `{"error": "<status>: <detail>"}` instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from fnmatch import fnmatchcase

from scripts.results.results_file import BadRecords, Record, Run
from scripts.tools.report.formats import Export, distinct, named

FILE = "torchbench-xla.jsonl"

SAMPLES = 4
"""aggregate.py drops the first three times of a row and needs at least one more."""

# The (xla, dynamo) of a runtime; the readers assert that there is no other combination.
_RUNTIMES = {
    "eager": (None, None),
    "inductor": (None, "inductor"),
    "xla": ("PJRT", None),
    "openxla": ("PJRT", "openxla"),
    "iree": ("PJRT", "openxla"),
}


def add_options(group: argparse._ArgumentGroup) -> None:
    """Options for names that the readers do not know."""
    group.add_argument(
        "--accelerator-model",
        metavar="NAME",
        help="write this accelerator_model for every row: aggregate.py stops at any name but"
        " those of three GPUs, such as 'NVIDIA A100-SXM4-40GB'",
    )
    group.add_argument(
        "--alias-iree",
        metavar="FRONTEND/TARGET",
        help="write the IREE cells of this frontend and target (a glob) as dynamo openxla on xla PJRT, in place"
        " of the openxla rows; without it they are left out",
    )


def render(export: Export, args: argparse.Namespace) -> str:
    """One line per record.

    Raises BadRecords if aggregate.py, which ignores dtype, precision, target and flags, would
    confuse two measured rows, and if one accelerator name would stand for two devices.
    """
    records = _chosen(export, args.alias_iree)
    names = _accelerator_models(export, records, args.accelerator_model)
    measured = [record for record in records if record.runs]

    def key(r: Record) -> tuple:
        return names[r["device"]], _RUNTIMES[r["runtime"]], r["model"], r["test"], r["batch_size"]

    merged_as = "one row to aggregate.py, which would keep the last of them"
    iree = [record for record in measured if record.is_iree]
    one_path = f"name one lowering path with --alias-iree: {_paths(iree)}"
    distinct(iree, lambda r: (*key(r), *r.parts), merged_as)
    distinct(iree, key, merged_as, one_path)
    distinct(measured, key, merged_as)
    if few := [record for record in measured if len(record.runs) < SAMPLES]:
        export.note(
            f"fewer than {SAMPLES} samples, so aggregate.py --metric exec leaves out: {named(few)}"
        )
    rows = [_row(record, names[record["device"]], export.timestamp) for record in records]
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _chosen(export: Export, alias: str | None) -> list[Record]:
    """The records that become rows. A note says which are left out."""
    iree = [record for record in export.records if record.is_iree]
    unknown = [record for record in export.records if record["runtime"] not in _RUNTIMES]
    others = [r for r in export.records if not r.is_iree and r["runtime"] in _RUNTIMES]
    if unknown:
        export.note(f"left out, the format has no such runtime: {named(unknown)}")
    if alias is None:
        if iree:
            export.note(
                f"left out {len(iree)} IREE cells, which the format has no name for;"
                f" --alias-iree FRONTEND/TARGET writes those of one lowering path: {_paths(iree)}"
            )
        if not others:
            raise BadRecords(
                "nothing to export: there are only IREE cells; add --alias-iree with one of: "
                + _paths(iree)
            )
        return others
    aliased = [r for r in iree if fnmatchcase("/".join(r.parts), alias)]
    if not aliased:
        raise BadRecords(
            f"--alias-iree '{alias}' matches no IREE cell; there are: {_paths(iree) or 'none'}"
        )
    # Readers distinguish IREE rows from openxla rows by xla_flags at most, aggregate.py not at all.
    if real := [record for record in others if record["runtime"] == "openxla"]:
        export.note(f"left out, --alias-iree takes the place of openxla: {named(real)}")
    return [r for r in export.records if r in aliased or (r in others and r not in real)]


def _paths(records: list[Record]) -> str:
    return ", ".join(sorted({"/".join(record.parts) for record in records}))


def _accelerator_models(export: Export, records: list[Record], alias: str | None) -> dict[str, str]:
    """A name for each device: the one given, else that of a measured cell, else the kind of device."""
    devices = sorted({record["device"] for record in records})
    if alias is not None:
        if len(devices) > 1:
            raise BadRecords(
                f"--accelerator-model would give {' and '.join(devices)} one name; choose one,"
                f" such as --only device={devices[0]}"
            )
        return dict.fromkeys(devices, alias)
    measured = {
        record["device"]: name
        for record in reversed(export.everything)
        if (name := record.data["run"].get("device_name"))
    }
    return {device: measured.get(device, device) for device in devices}


def _row(record: Record, accelerator_model: str, timestamp: float) -> dict:
    xla, dynamo = _RUNTIMES[record["runtime"]]
    runs, flags = _with_compile(record), record["xla_flags"]
    if record.is_iree:  # its lowering path: this is the only field with free text
        flags = (
            f"--iree_frontend={record['frontend']} --iree_target={record['target']}"
            f" --iree_device={record['device']}"
        )
    # The profiler's totals if `measure.collect` requested them: one number, because it is one call. Dynamo's counters and the
    # operators are not numbers and are only in results.jsonl.
    profile = (record.data["run"].get("profile") or {}).get("profiler", {})
    totals = {name: [seconds] for name, seconds in profile.items()}
    return {
        "model": {"suite_name": record["suite"], "model_name": record["model"]},
        "experiment": {
            "accelerator": record["device"],
            "accelerator_model": accelerator_model,
            "xla": xla,
            "xla_flags": flags,
            "dynamo": dynamo,
            "torch_xla2": None,
            # Whether a copy of the model stays on the GPU in addition to XLA's; here it is moved.
            "keep_model_data_on_cuda": False,
            "test": record["test"],
            "batch_size": record["batch_size"],
            "enable_functionalization": False,
        },
        "repeat": len(runs),
        "iterations_per_run": 1,
        "metrics": _metrics(runs, xla) | totals if runs else {"error": record.failure},
        "timestamp": timestamp,
        "verification_code": record.data["verification"]["code"],
    }


def _with_compile(record: Record) -> list[Run]:
    """The runs, with the seconds of iree-compile added to the cold run, which includes compilation for
    the other runtimes."""
    runs = record.runs
    seconds = (record.data.get("compile") or {}).get("compile_s")
    if not (record.is_iree and runs and seconds):
        return runs
    cold = dataclasses.replace(
        runs[0], total_s=runs[0].total_s + seconds, compile_s=seconds, compile_count=1
    )
    return [cold, *runs[1:]]


def _metrics(runs: list[Run], xla: str | None) -> dict[str, list[float]]:
    """Lists with one element per call. What was not measured is left out: readers accept only numbers."""
    metrics = {"total_time": [run.total_s for run in runs]}
    metrics["per_iter_time"] = metrics["total_time"]
    if xla is None:
        return metrics
    trace = [run.trace_s for run in runs if run.trace_s is not None]
    if len(trace) == len(runs):
        metrics["trace_total_time"] = metrics["trace_per_iter_time"] = trace
    for name, field in (("CompileTime", "compile"), ("ExecuteTime", "execute")):
        for metric, suffix in (("time_s", "s"), ("number", "count")):
            values = [getattr(run, f"{field}_{suffix}") for run in runs]
            # A counter that was never used in a run does not exist there and counts as zero.
            if any(value is not None for value in values):
                metrics[f"xla_{name}_{metric}"] = [value or 0 for value in values]
    return metrics
