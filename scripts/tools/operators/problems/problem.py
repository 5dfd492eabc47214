"""An operator problem: an operator, its arguments, and the facts that its source gives; and the selection of problems."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from scripts.tools.operators.problems import argument_values
from scripts.tools.operators.problems.argument_values import Arguments

PROGRAM, ENTRY = "program.mlir", "main"
"""The file of a problem's program, in a folder with the name of the problem, and the function to call in it."""


@dataclass(frozen=True)
class Facts:
    """The fields of a problem in BackendBench's dataset, with the names that they have there.

    `runtime_ms`: milliseconds on the GPU of its authors. `relative_runtime_to_kernel_launch`: the same time as a
    multiple of the time of an empty launch. Both are None if the dataset has no number.
    """

    runnable: bool
    included_in_benchmark: bool
    why_excluded: tuple[str, ...]
    is_synthetic: bool
    runtime_ms: float | None
    relative_runtime_to_kernel_launch: float | None
    is_overhead_dominated_op: bool


@dataclass(frozen=True)
class Problem:
    """An operator (`aten.add.Tensor`) and its arguments as text.

    `count`: number of calls in its source. `models`: the models that call it; () if they are not known. `calls`: the
    calls of each of these models; () if only their sum is known. `facts`: the facts of a problem of the dataset, else
    None. `source_uuid`: its uuid in the source, if a dtype was replaced here.
    """

    op: str
    args: str
    count: int = 1
    models: tuple[str, ...] = ()
    facts: Facts | None = None
    source_uuid: str = ""
    calls: tuple[int, ...] = ()

    @functools.cached_property
    def uuid(self) -> str:
        """The id that BackendBench gives it: 64 hexadecimal digits."""
        return hashlib.sha256(self.args.encode() + self.op.encode()).hexdigest()

    @property
    def name(self) -> str:
        """A short name that is unique within a run and can be part of a path."""
        return f"{self.op}-{self.uuid[:12]}"

    @functools.cached_property
    def arguments(self) -> Arguments:
        """Its parsed arguments. Raises argument_values.ArgumentsError."""
        return argument_values.read_arguments(self.args)

    @functools.cached_property
    def elements(self) -> int:
        """Number of elements of all its tensor arguments together."""
        return sum(tensor.elements for tensor in argument_values.tensors(self.arguments))

    @property
    def is_empty(self) -> bool:
        """Whether one of its tensor arguments has no elements."""
        return not all(tensor.elements for tensor in argument_values.tensors(self.arguments))

    def with_float_dtype(self, dtype: str) -> Problem:
        """Return the problem with its floating-point dtypes replaced, or itself if none differs."""
        changed = argument_values.with_float_dtype(self.arguments, dtype)
        if changed == self.arguments:
            return self
        return dataclasses.replace(
            self, args=argument_values.show(changed), source_uuid=self.source_uuid or self.uuid
        )

    def line(self) -> str:
        """The problem as a line of JSON, which `read_problems` reads."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False) + "\n"


def read_problems(path: Path) -> list[Problem]:
    """The problems of a file with a line of JSON for each."""
    import msgspec  # the environments of the stages do not have it

    return [msgspec.json.decode(line, type=Problem) for line in path.read_bytes().splitlines()]


def merged(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield each problem once, in the order first seen, with added counts and merged models."""
    same: dict[str, list[Problem]] = {}
    for problem in problems:
        same.setdefault(problem.uuid, []).append(problem)
    for equal in same.values():
        if len(equal) == 1:
            yield equal[0]
            continue
        models = dict.fromkeys(model for problem in equal for model in problem.models)
        calls: Counter[str] = Counter()
        for problem in equal:
            calls.update(dict(zip(problem.models, problem.calls, strict=False)))
        is_known = all(len(problem.calls) == len(problem.models) for problem in equal)
        yield dataclasses.replace(
            equal[0],
            count=sum(problem.count for problem in equal),
            models=tuple(models),
            calls=tuple(calls[model] for model in models) if is_known else (),
        )


KINDS = ("included", "overhead", "synthetic", "runnable", "all")


@dataclass(frozen=True)
class Selection:
    """The options of a selection.

    `select`: one of KINDS. `operators`, `source_models`: globs; () selects all. `smallest`, `largest`: number of
    problems per operator, by their elements; None selects all. `max_elements`: maximum number of elements of all tensor
    arguments of a problem. `dtype`: replaces floating-point dtypes; "" keeps them.
    """

    select: str = "included"
    operators: tuple[str, ...] = ()
    source_models: tuple[str, ...] = ()
    smallest: int | None = None
    largest: int | None = None
    max_elements: int | None = None
    dtype: str = ""


def select(problems: Iterable[Problem], wanted: Selection) -> list[Problem]:
    """Return the problems that `wanted` selects, in the given order. Equal problems are merged,
    including those that a new dtype makes equal."""
    selected = [
        problem
        for problem in problems
        if _is_kind(problem, wanted.select)
        and _matches((problem.op,), wanted.operators)
        and _matches(problem.models, wanted.source_models)
    ]
    if wanted.dtype:
        selected = [problem.with_float_dtype(wanted.dtype) for problem in selected]
    selected = list(merged(selected))
    if wanted.max_elements is not None:
        selected = [problem for problem in selected if problem.elements <= wanted.max_elements]
    if wanted.smallest is None and wanted.largest is None:
        return selected
    kept = _extremes(selected, wanted.smallest or 0, wanted.largest or 0)
    return [problem for problem in selected if problem.uuid in kept]


def _is_kind(problem: Problem, kind: str) -> bool:
    """Return whether a problem is of a kind. Without a dataset, only `synthetic` is known."""
    facts = problem.facts
    match kind:
        case "all":
            return True
        case "included":
            return facts.included_in_benchmark if facts else problem.count > 0
        case "overhead":
            return bool(facts and facts.is_overhead_dominated_op)
        case "synthetic":
            return facts.is_synthetic if facts else problem.count == 0
        case "runnable":
            return facts.runnable if facts else True
    raise ValueError(f"select: found {kind!r}, expected one of {', '.join(KINDS)}")


def _matches(names: Iterable[str], globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for name in names for glob in globs)


def _extremes(problems: list[Problem], smallest: int, largest: int) -> set[str]:
    """Return the uuids of the smallest and largest problems of each operator; ties have a fixed order. Problems with an
    empty tensor are left out if there are others, because their results are mostly empty."""
    by_operator: dict[str, list[Problem]] = {}
    for problem in problems:
        by_operator.setdefault(problem.op, []).append(problem)
    kept: set[str] = set()
    for group in by_operator.values():
        several = [problem for problem in group if not problem.is_empty] or group
        ordered = sorted(several, key=lambda problem: (problem.elements, problem.uuid))
        kept.update(problem.uuid for problem in ordered[:smallest])
        kept.update(problem.uuid for problem in ordered[max(0, len(ordered) - largest) :])
    return kept
