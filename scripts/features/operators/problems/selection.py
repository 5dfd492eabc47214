"""Select problems of a source by kind, operator, size and source model, and set their dtype."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from scripts.features.operators.problems.problem import Problem, merged

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
