"""Puts failures together by cause, and compares causes with those that are known (workflow/known_failures.yaml)."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.results.known_failures import WRONG, KnownFailure

SLOW = "slow"
"""The status of a graph that takes over SLOWER times as long by one path as by another, and LEAST_MS longer, in each of TURNS measurements."""
TURNS, SLOWER, LEAST_MS = 2, 5.0, 0.1
MOST = 40
"""Graphs of a vague kind that are reduced, per lowering path."""
_VAGUE = re.compile(r"^wrong|^hangs|'torch\.constant\.|failed to link|inferred input/output")
"""Kinds whose cause shows only in the reduced graph."""


@dataclass(frozen=True)
class Failure:
    """A graph that failed. `path`: the lowering path. `kind`: see Ended.kind. `values`: the rule of its inputs, "" for those it was drawn with;
    `dtypes`: theirs.
    `origin`: the graph of which it is a mutation, as JSON."""

    path: str
    seed: int
    number: int
    operators: tuple[str, ...]
    kind: str
    status: str
    stage: str
    detail: str
    origin: Mapping[str, Any] | None = None
    values: str = ""
    dtypes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Of its reduction."""
        return f"{self.program}-{self.values}" if self.values else self.program

    @property
    def program(self) -> str:
        """What graphs with other values have in common."""
        if self.origin is None:
            return f"{self.seed}-{self.number}"
        digest = hashlib.sha256(json.dumps(self.origin, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.seed}-{digest}-{self.number}"


@dataclass
class Cause:
    """What failures have in common. `reduced`: what the worker said about the smallest graph (fuzz_graphs.reduce), {} if none was
    reduced. `count`: failures. `known`: the entry of KNOWN. `right_on`: other paths on which that graph does not fail."""

    first: Failure
    reduced: Mapping[str, Any] = field(default_factory=dict)
    count: int = 0
    known: KnownFailure | None = None
    right_on: Sequence[str] = ()

    @property
    def status(self) -> str:
        return self.first.status

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(self.reduced.get("operators") or self.first.operators)

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.reduced.get("dtypes", self.first.dtypes)))

    @property
    def detail(self) -> str:
        return (self.reduced.get("ended") or {}).get("detail") or self.first.detail


def to_reduce(failures: Iterable[Failure]) -> list[Failure]:
    """The failures to reduce, wrong values and small graphs first: one of each kind, and many of those whose message says little."""
    by_kind: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for failure in failures:
        by_kind[failure.path, failure.kind].append(failure)
    chosen: list[Failure] = []
    for same in by_kind.values():
        same.sort(key=lambda failure: (len(failure.operators), failure.number))
        programs = {failure.program: failure for failure in reversed(same)}
        chosen += [*reversed(programs.values())][: MOST if _VAGUE.search(same[0].kind) else 1]
    return sorted(chosen, key=lambda failure: (failure.status != WRONG, len(failure.operators)))


def slow(
    timed: Iterable[tuple[str, Mapping[str, Any]]],
) -> dict[tuple[str, str], tuple[Failure, Mapping[str, Any]]]:
    """The graphs that a path computes slowly. `timed`: by path, what its worker said of each time that a graph was timed. Returns each failure and what was said of its
    graph, by path and name."""
    by_graph: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for path, result in timed:
        if result.get("ms") is not None:
            by_graph[json.dumps(result["task"]["timed"])][path].append(result)
    failures = {}
    for by_path in by_graph.values():
        ms = {path: [result["ms"] for result in results] for path, results in by_path.items() if len(results) >= TURNS}  # fmt: skip
        fastest = min(ms, key=lambda path: max(ms[path]), default="")
        for path, values in ms.items():
            least, other = min(values), max(ms[fastest])
            if least <= max(SLOWER * other, other + LEAST_MS):
                continue
            result = by_path[path][0]
            task, operators = result["task"], tuple(result["operators"])
            kind, detail = f"slow run: {' '.join(sorted(set(operators)))}", f"{least:.3g} ms, {fastest} {other:.3g}"  # fmt: skip
            failure = Failure(path, task["seed"], task["number"], operators, kind, SLOW, "run", detail, task.get("origin"))  # fmt: skip
            failures[path, failure.name] = failure, result
    return failures


def causes(
    failures: Sequence[Failure],
    reductions: Mapping[tuple[str, str], Mapping[str, Any]],
    known: Sequence[KnownFailure] = (),
    right_on: Callable[[Cause], Sequence[str]] = lambda _: (),
) -> list[Cause]:
    """The causes of failures, wrong values first; of each status, those first that are not known, and those that other lowering paths do not have.

    `reductions`: by lowering path and name of the failure. `right_on`: the other paths on which a cause's reduced graph does not fail.
    """
    by_key: dict[Any, Cause] = {}
    for failure in failures:
        reduced = reductions.get((failure.path, failure.name)) or {}
        key: Any = (failure.path, failure.kind)
        if _VAGUE.search(failure.kind):
            # Those of several operators that were not reduced, or did not fail again, have no cause yet.
            own = failure.operators if len(failure.operators) == 1 else ()
            key = (*key, *sorted(set(reduced.get("operators") or own)))
        cause = by_key.setdefault(key, Cause(failure, reduced))
        cause.count += 1
        if reduced.get("reduced") and _size(reduced) < _size(cause.reduced):
            cause.first, cause.reduced = failure, reduced
    for cause in by_key.values():
        # Wrong values of several operators may be those of any.
        if cause.status != WRONG or cause.reduced.get("reduced") or len(cause.operators) == 1:
            cause.known = next((entry for entry in known if entry.is_cause(cause)), None)
        cause.right_on = right_on(cause)
    order = (WRONG, "crashed", "hangs", "refused", SLOW)

    def rank(cause: Cause) -> tuple[int, bool, bool, int]:
        # Baselines, whose names have no target, take almost all graphs.
        other_takes = any("/" in path for path in cause.right_on)
        return order.index(cause.status), bool(cause.known), not other_takes, -cause.count

    return sorted(by_key.values(), key=rank)


def _size(reduced: Mapping[str, Any]) -> int:
    return len(reduced["operators"]) if reduced.get("reduced") else 1 << 20
