"""Where the time of a call goes, by nn.Module, from PyTorch's profiler: for eager mode.

A module's time is that of its own forward pass without the modules that it calls. The times of all
modules add up to the call.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

MS = 1e-3
_MODULE = "module:"
"""What the names of a module's ranges in the profile begin with; the module's path follows."""


class Module(NamedTuple):
    """A module: its path, "" for the model, None if it is not known; and its class."""

    path: str | None
    kind: str


Times = Mapping[Module, float]
"""The milliseconds of one call by module."""


def eager(call: Callable[[], Any], model: torch.nn.Module, calls: int) -> dict[Module, float]:
    """The time of each module per call, in milliseconds: the median of `calls` calls, after one that does not count.

    `call` calls `model` in this process, on the CPU.
    """
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    call()
    timed = []
    with _named_ranges(model):
        for _ in range(calls):
            with profile(activities=[ProfilerActivity.CPU]) as profiled:
                call()
            timed.append(_by_module(profiled.events(), kinds))
    return medians(timed)


def medians(timed: Sequence[Times]) -> dict[Module, float]:
    """The median of each module over several calls."""
    return {
        module: statistics.median(times[module] for times in timed if module in times)
        for module in timed[0]
    }


def _by_module(events: Iterable[Any], kinds: Mapping[str, str]) -> Times:
    """The time of one call by module, from the events of its profile."""
    times: dict[Module, float] = defaultdict(float)
    for event in events:
        if (path := _path(event)) is not None:
            own_us = event.time_range.elapsed_us() - _inner_us(event)
            times[Module(path, kinds[path])] += own_us * MS
    return times


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
    return sum(
        child.time_range.elapsed_us() if _path(child) is not None else _inner_us(child)
        for child in event.cpu_children
    )
