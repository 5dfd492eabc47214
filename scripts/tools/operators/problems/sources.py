"""Read operator problems from their sources: trace files, and BackendBench's dataset; and write trace files.

A trace file has the operators that a model calls, their arguments, and call counts, in the format of PyTorch's operator
traces, as BackendBench reads them. A count of 0 marks synthetic arguments.

    Operator: aten.add.Tensor
    cnt: 156, ((T([1, 512, 768], f16), T([1, 512, 768], f16)), {})

The dataset is a parquet or JSON file, from a path or the hub: https://huggingface.co/datasets/GPUMODE/backendbench_tests. A
second file, the mapping, lists the models that each problem was seen in.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.tools.operators.problems.argument_values import ArgumentsError, read_arguments
from scripts.tools.operators.problems.problem import Facts, Problem, merged

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

_OPERATOR = re.compile(r"Operator:\s*(\S+)\s*\Z")
_COUNT = re.compile(r"cnt:\s*([0-9]{1,18}),\s*")
_OPERATOR_NAME = re.compile(r"\w+\.\w+(\.\w+)?")
RENAMED = {"aten.sum.SymInt": "aten.sum.dim_IntList"}
"""New names of overloads of older versions of PyTorch."""

Row = Mapping[str, Any]


class SourceError(ValueError):
    """A source cannot be read; names the file, what was found and what was expected."""


def read_trace(path: str | Path) -> list[Problem]:
    """Return the problems of a trace file, named after its model. Raises SourceError, OSError."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: found a byte that is no UTF-8 at {error.start}, expected 'Operator: <name>'") from error  # fmt: skip
    return list(merged(_traced(path, lines)))


def _traced(path: Path, lines: Iterable[str]) -> Iterator[Problem]:
    op = ""
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if match := _OPERATOR.match(line):
            op = RENAMED.get(match[1], match[1])
            if not _OPERATOR_NAME.fullmatch(op):
                raise SourceError(
                    f"{where}: operator {op!r}, expected a name such as aten.add.Tensor"
                )
        elif match := _COUNT.match(line):
            if not op:
                raise SourceError(f"{where}: a count before the first 'Operator: …'")
            args = line[match.end() :].strip()
            try:
                read_arguments(args)
            except ArgumentsError as error:
                raise SourceError(f"{where}: arguments of {op}: {error}") from error
            count = int(match[1])
            yield Problem(op, args, count, models=(path.stem,), calls=(count,))
        elif line.strip():
            raise SourceError(
                f"{where}: found {line[:60]!r}, expected 'Operator: <name>' or 'cnt: <n>, <arguments>'"
            )


def write_trace(path: str | Path, counts: Mapping[tuple[str, str], int]) -> None:
    """Write the number of calls of each (operator, arguments), by operator, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    lines: list[str] = []
    for op, calls in itertools.groupby(ordered, key=lambda item: item[0][0]):
        lines.append(f"Operator: {op}")
        lines += [f"cnt: {count}, {args}" for (_, args), count in calls]
    atomic.write_text(path, "".join(f"{line}\n" for line in lines))


def may_be(named: str) -> bool:
    """Return whether a name is the path of a file, or has the form of a hub id."""
    path = Path(named).expanduser()
    return os.path.isfile(path) or bool(_HUB_ID.fullmatch(named) and path.suffix not in _SUFFIXES)


def located(named: str, file: str) -> Path:
    """Return the path of a file of a dataset. `named`: a path, or the id of a dataset on the hub
    (`owner/name`, `owner/name@revision`). For an id, `file` is downloaded from that dataset unless
    it is in the cache. Raises SourceError if `named` is neither, or if the download fails."""
    path = Path(named).expanduser()
    if os.path.exists(path):
        return path
    if not may_be(named):
        raise SourceError(f"{named}: no such file, expected a path or a hub id such as owner/name")
    try:
        import huggingface_hub
    except ImportError as error:
        raise SourceError(
            f"{named}: no such file; to fetch it from the hub, install huggingface_hub "
            "(pip install -r requirements-hub.txt)"
        ) from error
    owner, _, revision = named.partition("@")
    which = {"repo_type": "dataset", "revision": revision or None}
    try:
        return Path(huggingface_hub.hf_hub_download(owner, file, **which))
    except Exception as error:  # from the hub, the network or the disk
        raise SourceError(f"{named}: the hub gave no {file}: {error}") from error


def read_source(
    named: str | None, mapping: str | None, files: Sequence[Path]
) -> tuple[list[Problem], list[str]]:
    """Read a dataset and perhaps its mapping, each a path or the id of a dataset on the hub; without a dataset, trace
    files. Return the problems, and notes for the user. Raises SourceError and OSError."""
    if named:
        models = located(mapping, MAPPING) if mapping else None
        return read_dataset(located(named, PROBLEMS), models)
    empty = [file for file in files if not file.stat().st_size]
    notes = [f"{file} is empty: its model could not be traced" for file in empty]
    return list(merged(problem for file in files for problem in read_trace(file))), notes


def read_dataset(path: Path, mapping: Path | None = None) -> tuple[list[Problem], list[str]]:
    """Return the problems in a file of the dataset, and notes for the user. Source models are read
    from the column `in_models` of the file, else from the `mapping`. If there is neither, they are
    unknown, and a note says so. Raises SourceError."""
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
        raise SourceError(f"{mapping}: no problem of {path} is in it")
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
        raise SourceError(f"{path}: no row")
    if missing := [name for name in wanted if name not in rows[0]]:
        raise SourceError(
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
        raise SourceError(f"{path}: not read as parquet: {error}") from error


def _json(path: Path) -> list[Row]:
    """Return the rows of a JSON list of objects, or of lines of JSON objects."""
    try:
        text = path.read_text(encoding="utf-8").strip()
        lines = [text] if text.startswith("[") else text.splitlines()
        parsed = [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not valid JSON: {error}") from error
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    rows = parsed[0] if text.startswith("[") else parsed
    if not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{path}: expected a list of objects, or an object per line")
    return rows


def _problem(
    where: str, row: Row, of_mapping: Mapping[tuple[str, str], tuple[str, ...]]
) -> Problem:
    op, args = row.get("op_name"), row.get("args")
    if not isinstance(op, str) or not isinstance(args, str):
        raise SourceError(f"{where}: op_name {op!r} and args {args!r}, expected two texts")
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
        raise SourceError(f"{where}: arguments of {op}: {error}") from error
    except (KeyError, OverflowError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        raise SourceError(f"{where}: {type(error).__name__}: {error}") from error


def _models(value: Any) -> tuple[str, ...]:
    """Return the model names of `in_models`: a list, its text, or comma-separated names."""
    if isinstance(value, str):
        value = value.strip()
        value = ast.literal_eval(value) if value.startswith("[") else value.split(",")
    return tuple(name for name in (str(item).strip() for item in value or ()) if name)


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(float(value)) else float(value)
