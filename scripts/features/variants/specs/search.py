"""Finds a tuning spec for a module: faster lowering configurations for the dispatches that take most of its time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.features.variants.specs import dispatches, spec
from scripts.features.variants.specs.descent import Descent, descend
from scripts.features.variants.specs.dispatches import Dispatch, Operation
from scripts.features.variants.specs.lowering_config import LoweringConfig
from scripts.features.variants.specs.trials import DispatchTrials
from scripts.iree import tuning_spec

SHARE = 0.03
"""Dispatches below this share of the time are left as they are: no configuration of theirs makes the model faster by
more than that."""


@dataclass(frozen=True)
class Runs:
    """What runs the trials: the `flags` of the target, its `device`, and the threads."""

    flags: tuple[str, ...]
    device: str
    threads: int


@dataclass(frozen=True)
class Searched:
    """What was tried for an operation. `functions`: the dispatches that have it; `share`: of the time of a call, 0 to 1.
    `matched`: whether the compiler takes a configuration for it from a spec; if not, nothing was tried. `result`: None if
    the time was over before."""

    functions: tuple[str, ...]
    share: float
    operation: Operation
    matched: bool
    result: Descent | None

    @property
    def better(self) -> LoweringConfig | None:
        """The configuration for the spec, if one is faster."""
        found = self.result.found if self.result else self.operation.config
        return found if found != self.operation.config else None


def by_operation(
    found: Sequence[Dispatch], shares: Mapping[str, float]
) -> list[tuple[float, list[Dispatch]]]:
    """The dispatches that have the same operation together, with their share of the time, the largest first. Those that
    take less than SHARE are left out. The slowest dispatch of each is its first."""
    alike: dict[Operation, list[Dispatch]] = defaultdict(list)
    for one in found:
        alike[one.operation].append(one)
    weighed = []
    for same in alike.values():
        same.sort(key=lambda one: -_share(one, shares))
        weighed.append((sum(_share(one, shares) for one in same), same))
    weighed.sort(key=lambda pair: -pair[0])
    return [(share, same) for share, same in weighed if share >= SHARE]


def _share(one: Dispatch, shares: Mapping[str, float]) -> float:
    return sum(shares.get(name, 0.0) for name in one.functions)


def search(
    weighed: Sequence[tuple[float, Sequence[Dispatch]]],
    matched: Collection[Operation],
    runs: Runs,
    folder: Path,
    budget_s: float,
) -> list[Searched]:
    """Search for each operation that the compiler matches, in turn. Each may take its share of the seconds that are left."""
    end = time.monotonic() + budget_s
    todo = sum(share for share, same in weighed if same[0].operation in matched)
    made = []
    for number, (share, same) in enumerate(weighed):
        operation = same[0].operation
        found, now = None, time.monotonic()
        if operation in matched:
            if now < end:
                limit = now + (end - now) * share / todo
                place = folder / str(number)
                trials = DispatchTrials(same[0], runs.flags, place, runs.device, runs.threads, limit)  # fmt: skip
                found = descend(operation.config, operation.largest, trials)
            todo -= share
        functions = tuple(name for one in same for name in one.functions)
        made.append(Searched(functions, share, operation, operation in matched, found))
        print(_said(made[-1]), flush=True)
    return made


def _said(one: Searched) -> str:
    head = f"{one.functions[0]} ({one.share:.0%}): {one.operation.config}"
    if not one.matched:
        return f"{head}: the compiler takes no other one from a spec"
    if one.result is None:
        return f"{head}: not tried, the time was over"
    of = one.result
    return (
        f"{head} -> {of.found}, {of.gain:.2f} x alone, {of.tried} tried, {of.failed} not accepted"
    )


def matched(
    weighed: Sequence[tuple[float, Sequence[Dispatch]]],
    program: Path,
    flags: Sequence[str],
    folder: Path,
) -> set[Operation]:
    """The operations for which the compiler takes a configuration from a spec: one may have another form when the spec is
    read than when it was printed.

    Compiles the program up to the choice of configurations, with a spec that gives each operation another one. Exits as
    the compiler does if it fails.
    """
    other = {
        same[0]: config
        for _, same in weighed
        if (config := next(same[0].operation.config.neighbours(same[0].operation.largest), None))
    }
    if not other:
        return set()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.mlir"
    path.write_text(
        spec.text({one.operation: config for one, config in other.items()}), encoding="utf-8"
    )
    now: dict[str, set[LoweringConfig]] = {}
    flags = [*flags, f"{tuning_spec.FLAG}={path}"]
    flags += tuning_spec.serial(flags)
    for written in dispatches.write_benchmarks(program, flags, folder / "dispatches"):
        functions, configs = dispatches.configs(written.read_text(encoding="utf-8"))
        now |= dict.fromkeys(functions, configs)
    return {
        one.operation
        for one, config in other.items()
        if any(config in now.get(name, ()) for name in one.functions)
    }
