"""Where the time of a call goes, by nn.Module, from PyTorch's profiler: for eager mode.

A module's time is that of its own forward pass without the modules that it calls. The times of all
modules add up to the call.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

MS = 1e-3
_MODULE = "module:"
"""What the names of a module's ranges in the profile begin with; the module's path follows."""


@dataclass
class ModuleTime:
    """A module's part of one call. `module`: its path, "" for the model, None if it is not known.
    `operators`: milliseconds by operator or kernel, which `ms` includes."""

    module: str | None
    kind: str
    ms: float = 0.0
    operators: dict[str, float] = field(default_factory=dict)

    def add(self, operator: str, ms: float) -> None:
        """Note the time of an operator."""
        self.operators[operator] = self.operators.get(operator, 0.0) + ms


def eager(call: Callable[[], Any], model: torch.nn.Module, calls: int) -> list[ModuleTime]:
    """The time of each module per call, in milliseconds: the median of `calls` calls, after one that does not count.

    `call` calls `model` in this process, on the CPU.
    """
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    call()
    taken = []
    with _named_ranges(model):
        for _ in range(calls):
            with profile(activities=[ProfilerActivity.CPU]) as profiled:
                call()
            taken.append(_by_module(profiled.events(), kinds))
    return medians(taken)


def medians(taken: Sequence[Mapping[str | None, ModuleTime]]) -> list[ModuleTime]:
    """The median of each module and operator over several calls, each given by module."""
    found = []
    for path, one in taken[0].items():
        alike = [call[path] for call in taken if path in call]
        operators = {
            name: statistics.median(other.operators.get(name, 0.0) for other in alike)
            for name in one.operators
        }
        ms = statistics.median(other.ms for other in alike)
        found.append(ModuleTime(path, one.kind, ms, operators))
    return found


def _by_module(events: Iterable[Any], kinds: Mapping[str, str]) -> dict[str | None, ModuleTime]:
    """The time of one call by module, from the events of its profile."""
    found: dict[str | None, ModuleTime] = {}
    for event in events:
        path = _path(event)
        own = event.time_range.elapsed_us() - _inner_us(event)
        if path is not None:
            found.setdefault(path, ModuleTime(path, kinds[path])).ms += own * MS
        elif (above := event.cpu_parent) is not None and (path := _path(above)) is not None:
            found.setdefault(path, ModuleTime(path, kinds[path])).add(event.name, own * MS)
    return found


@contextlib.contextmanager
def _named_ranges(model: torch.nn.Module) -> Iterator[None]:
    """Give each forward pass of a module a range in the profile, while the context lasts."""
    handles = []
    for path, module in model.named_modules():
        ranges: list[Any] = []  # a module may call itself

        def enter(*_: Any, path: str = path, ranges: list[Any] = ranges) -> None:
            ranges.append(record_function(f"{_MODULE}{path}"))
            ranges[-1].__enter__()

        def leave(*_: Any, ranges: list[Any] = ranges) -> None:
            ranges.pop().__exit__(None, None, None)

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _path(event: Any) -> str | None:
    """The module of an event, or None for an event that is no module's range."""
    return event.name.removeprefix(_MODULE) if event.name.startswith(_MODULE) else None


def _inner_us(event: Any) -> float:
    """Microseconds of the outermost module ranges inside an event."""
    total = 0.0
    for child in event.cpu_children:
        inner = child.time_range.elapsed_us() if _path(child) is not None else _inner_us(child)
        total += inner
    return total
