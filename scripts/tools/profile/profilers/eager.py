"""Profiles eager mode on a CPU: the outermost operators of ATen in the forward pass of each nn.Module, by PyTorch's profiler.

What is neither inside an operator nor outside the model is between kernels: Python, and the dispatch of operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from scripts.baselines.sessions import torch_session
from scripts.baselines.sessions.runtime import Work
from scripts.frontends.lowering.locations import Origin
from scripts.frontends.torch_model.step import count_work
from scripts.tools.profile import parts
from scripts.tools.profile.profilers import Kernel, Profiler
from scripts.tools.profile.rounds import MICROSECOND, CallTimes, timed_ms

_MODULE = "module:"
"""What the names of a module's ranges in the profile begin with; the module's path follows."""
COPIES = frozenset(("copy_", "clone", "contiguous", "_to_copy", "to"))
"""Operators that only change layout or type."""


def open_profiler(work: Work, runtime: Any, device: Any) -> Profiler:
    """The model of a cell, as eager mode runs it."""
    split = parts.Parts(torch_session.build_ahead(work).module)
    session = runtime.open_session(work, device)
    model = session.step.loaded.module

    def take(calls: int) -> list[CallTimes]:
        session()
        return list(times_of_calls(session, model, split, calls))

    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    return Profiler(
        session,
        take,
        split.kinds or kinds,
        lambda: split.merged_work(asdict(count_work(session, session.step.loaded))),
    )


def times_of_calls(
    call: Callable[[], Any], model: torch.nn.Module, split: parts.Parts, calls: int
) -> Iterator[CallTimes]:
    """The times of so many calls, which run `model` in this process."""
    with _named_ranges(model):
        for _ in range(calls):
            with profile(activities=[ProfilerActivity.CPU]) as recording:
                [ms] = timed_ms(call, 1)
            yield _times(recording.events(), ms, split)


def _times(events: Any, ms: float, split: parts.Parts) -> CallTimes:
    """The times of a call that took `ms` milliseconds, from the events of its profile. The time of an operator is that of all operators inside
    it, but not in a module inside it."""
    kernels_ms: dict[Any, float] = defaultdict(float)
    inside = 0.0
    todo: list[tuple[Any, str | None, Kernel | None]] = [(event, None, None) for event in events if event.cpu_parent is None]  # fmt: skip
    while todo:
        event, path, kernel = todo.pop()
        if event.name.startswith(_MODULE):
            inside += event.time_range.elapsed_us() * MICROSECOND if path is None else 0.0
            path, kernel = event.name.removeprefix(_MODULE), None
        elif path is not None:
            if kernel is None:
                operator = event.name.replace("::", ".")
                name = operator.rpartition(".")[2]
                node = Origin(name, operator, split.module_of(path))
                kernel = Kernel(operator, (node,), name in COPIES)
            kernels_ms[kernel] += event.self_cpu_time_total * MICROSECOND
        todo += [(child, path, kernel) for child in event.cpu_children]
    return CallTimes(ms, kernels_ms, inside - sum(kernels_ms.values()), ms - inside)


@contextmanager
def _named_ranges(model: torch.nn.Module) -> Iterator[None]:
    """Give each forward pass of a module a range in the profile, while the context lasts."""
    paths = {module: path for path, module in model.named_modules()}
    ranges: list[Any] = []

    def enter(module: torch.nn.Module, *_: Any) -> None:
        path = paths.get(module)
        ranges.append(nullcontext() if path is None else record_function(f"{_MODULE}{path}"))
        ranges[-1].__enter__()

    def leave(*_: Any) -> None:
        ranges.pop().__exit__(None, None, None)

    with (
        torch.nn.modules.module.register_module_forward_pre_hook(enter),
        torch.nn.modules.module.register_module_forward_hook(leave, always_call=True),
    ):
        yield
