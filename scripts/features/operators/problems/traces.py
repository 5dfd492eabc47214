"""Read and write trace files: the operators that a model calls, their arguments, and call counts.

    Operator: aten.add.Tensor
    cnt: 156, ((T([1, 512, 768], f16), T([1, 512, 768], f16)), {})

This is the format of PyTorch's operator traces, as BackendBench reads them. A count of 0 marks synthetic arguments.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.core import atomic
from scripts.features.operators.problems.argument_values import ArgumentsError, read_arguments
from scripts.features.operators.problems.problem import Problem, merged

_OPERATOR = re.compile(r"Operator:\s*(\S+)\s*\Z")
_COUNT = re.compile(r"cnt:\s*([0-9]{1,18}),\s*")
_OPERATOR_NAME = re.compile(r"\w+\.\w+(\.\w+)?")
RENAMED = {"aten.sum.SymInt": "aten.sum.dim_IntList"}
"""New names of overloads of older versions of PyTorch."""


class TraceError(ValueError):
    """A line is not in the format; names the file, the line, and the text found and expected."""


def read(path: str | Path) -> list[Problem]:
    """Return the problems of a trace file, named after its model. Raises TraceError, OSError."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: found a byte that is no UTF-8 at {error.start}, expected 'Operator: <name>'") from error  # fmt: skip
    return list(merged(_problems(path, lines)))


def _problems(path: Path, lines: Iterable[str]) -> Iterator[Problem]:
    op = ""
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if match := _OPERATOR.match(line):
            op = RENAMED.get(match[1], match[1])
            if not _OPERATOR_NAME.fullmatch(op):
                raise TraceError(
                    f"{where}: operator {op!r}, expected a name such as aten.add.Tensor"
                )
        elif match := _COUNT.match(line):
            if not op:
                raise TraceError(f"{where}: a count before the first 'Operator: …'")
            args = line[match.end() :].strip()
            try:
                read_arguments(args)
            except ArgumentsError as error:
                raise TraceError(f"{where}: arguments of {op}: {error}") from error
            count = int(match[1])
            yield Problem(op, args, count, models=(path.stem,), calls=(count,))
        elif line.strip():
            raise TraceError(
                f"{where}: found {line[:60]!r}, expected 'Operator: <name>' or 'cnt: <n>, <arguments>'"
            )


def write(path: str | Path, counts: Mapping[tuple[str, str], int]) -> None:
    """Write the number of calls of each (operator, arguments), by operator, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    lines: list[str] = []
    for op, calls in itertools.groupby(ordered, key=lambda item: item[0][0]):
        lines.append(f"Operator: {op}")
        lines += [f"cnt: {count}, {args}" for (_, args), count in calls]
    atomic.write_text(path, "".join(f"{line}\n" for line in lines))
