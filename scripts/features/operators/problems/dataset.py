"""Read BackendBench's dataset of operator problems: parquet or JSON, from a path or the hub. Traces may take its place.

https://huggingface.co/datasets/GPUMODE/backendbench_tests. A second file of the dataset, the
mapping, lists the models that each problem was seen in.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.features.operators.problems import traces
from scripts.features.operators.problems.argument_values import ArgumentsError, read_arguments
from scripts.features.operators.problems.problem import Facts, Problem, merged

PROBLEMS = "backend_bench_problems.parquet"
MAPPING = "operator_input_models_mapping.parquet"
"""The files of the dataset on the hub."""
_REQUIRED = (
    "op_name", "args", "runnable", "included_in_benchmark", "why_excluded", "is_synthetic",
    "runtime_ms", "relative_runtime_to_kernel_launch", "is_overhead_dominated_op", "count",
)  # fmt: skip
_MAPPING_COLUMNS = ("operator name", "args", "used in model")
_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+(@[\w./-]+)?")
_SUFFIXES = (".parquet", ".json", ".jsonl")

Row = Mapping[str, Any]


class DatasetError(ValueError):
    """A dataset cannot be read; names the file, what was found and what was expected."""


def may_be(named: str) -> bool:
    """Return whether a name is the path of a file, or has the form of a hub id."""
    path = Path(named).expanduser()
    return os.path.isfile(path) or bool(_HUB_ID.fullmatch(named) and path.suffix not in _SUFFIXES)


def located(named: str, file: str) -> Path:
    """Return the path of a file of a dataset. `named`: a path, or the id of a dataset on the hub
    (`owner/name`, `owner/name@revision`). For an id, `file` is downloaded from that dataset unless
    it is in the cache. Raises DatasetError if `named` is neither, or if the download fails."""
    path = Path(named).expanduser()
    if os.path.exists(path):
        return path
    if not may_be(named):
        raise DatasetError(f"{named}: no such file, expected a path or a hub id such as owner/name")
    try:
        import huggingface_hub
    except ImportError as error:
        raise DatasetError(
            f"{named}: no such file; to fetch it from the hub, install huggingface_hub "
            "(pip install -r requirements-hub.txt)"
        ) from error
    owner, _, revision = named.partition("@")
    which = {"repo_type": "dataset", "revision": revision or None}
    try:
        return Path(huggingface_hub.hf_hub_download(owner, file, **which))
    except Exception as error:  # from the hub, the network or the disk
        raise DatasetError(f"{named}: the hub gave no {file}: {error}") from error


def read_source(
    named: str | None, mapping: str | None, files: Sequence[Path]
) -> tuple[list[Problem], list[str]]:
    """Read a dataset and perhaps its mapping, each a path or the id of a dataset on the hub; without a dataset, trace
    files. Return the problems, and notes for the user. Raises DatasetError, TraceError and OSError."""
    if named:
        models = located(mapping, MAPPING) if mapping else None
        return read(located(named, PROBLEMS), models)
    empty = [file for file in files if not file.stat().st_size]
    notes = [f"{file} is empty: its model could not be traced" for file in empty]
    return list(merged(problem for file in files for problem in traces.read(file))), notes


def read(path: Path, mapping: Path | None = None) -> tuple[list[Problem], list[str]]:
    """Return the problems in a file of the dataset, and notes for the user. Source models are read
    from the column `in_models` of the file, else from the `mapping`. If there is neither, they are
    unknown, and a note says so. Raises DatasetError."""
    rows = _rows(path, _REQUIRED)
    notes: list[str] = []
    of_mapping: Mapping[tuple[str, str], tuple[str, ...]] = {}
    if mapping is not None:
        of_mapping = _read_mapping(mapping)
    elif "in_models" not in rows[0]:
        notes.append(
            f"{path}: no column in_models and no mapping: source models are unknown, so problems"
            " are weighted by count alone"
        )
    problems = [_problem(f"{path}: row {i}", row, of_mapping) for i, row in enumerate(rows, 1)]
    if of_mapping and not any(problem.models for problem in problems):
        raise DatasetError(f"{mapping}: no problem of {path} is in it")
    return problems, notes


def _read_mapping(path: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the source models by (operator, arguments), in the order of the file."""
    mapping: dict[tuple[str, str], dict[str, None]] = {}
    for row in _rows(path, _MAPPING_COLUMNS):
        key = str(row["operator name"]), str(row["args"])
        mapping.setdefault(key, {})[str(row["used in model"])] = None
    return {key: tuple(models) for key, models in mapping.items()}


def _rows(path: Path, wanted: Iterable[str]) -> list[Row]:
    """Return the rows of a file, which must have the `wanted` columns."""
    rows = _parquet(path) if path.suffix == ".parquet" else _json(path)
    if not rows:
        raise DatasetError(f"{path}: no row")
    if missing := [name for name in wanted if name not in rows[0]]:
        raise DatasetError(
            f"{path}: no column {', '.join(missing)}; found {', '.join(map(str, rows[0]))}"
        )
    return rows


def _parquet(path: Path) -> list[Row]:
    import duckdb  # the import is slow, and most runs read no dataset

    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            cursor = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error as error:
        raise DatasetError(f"{path}: not read as parquet: {error}") from error


def _json(path: Path) -> list[Row]:
    """Return the rows of a JSON list of objects, or of lines of JSON objects."""
    try:
        text = path.read_text(encoding="utf-8").strip()
        lines = [text] if text.startswith("[") else text.splitlines()
        parsed = [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: not valid JSON: {error}") from error
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}") from error
    rows = parsed[0] if text.startswith("[") else parsed
    if not all(isinstance(row, dict) for row in rows):
        raise DatasetError(f"{path}: expected a list of objects, or an object per line")
    return rows


def _problem(
    where: str, row: Row, of_mapping: Mapping[tuple[str, str], tuple[str, ...]]
) -> Problem:
    op, args = row.get("op_name"), row.get("args")
    if not isinstance(op, str) or not isinstance(args, str):
        raise DatasetError(f"{where}: op_name {op!r} and args {args!r}, expected two texts")
    try:
        read_arguments(args)
        return Problem(
            op,
            args,
            count=int(row["count"]),
            models=_models(row.get("in_models")) or of_mapping.get((op, args), ()),
            facts=Facts(
                runnable=bool(row["runnable"]),
                included_in_benchmark=bool(row["included_in_benchmark"]),
                why_excluded=tuple(map(str, row["why_excluded"] or ())),
                is_synthetic=bool(row["is_synthetic"]),
                runtime_ms=_number(row["runtime_ms"]),
                relative_runtime_to_kernel_launch=_number(row["relative_runtime_to_kernel_launch"]),
                is_overhead_dominated_op=bool(row["is_overhead_dominated_op"]),
            ),
            source_uuid=str(row.get("uuid") or ""),
        )
    except ArgumentsError as error:
        raise DatasetError(f"{where}: arguments of {op}: {error}") from error
    except (KeyError, OverflowError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        raise DatasetError(f"{where}: {type(error).__name__}: {error}") from error


def _models(value: Any) -> tuple[str, ...]:
    """Return the model names of `in_models`: a list, its text, or comma-separated names."""
    if isinstance(value, str):
        value = value.strip()
        value = ast.literal_eval(value) if value.startswith("[") else value.split(",")
    return tuple(name for name in (str(item).strip() for item in value or ()) if name)


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(float(value)) else float(value)
