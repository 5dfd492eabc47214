"""An operator problem: an operator, its arguments, and the facts that its source gives."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.features.operators.problems import argument_values
from scripts.features.operators.problems.argument_values import Arguments


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
