"""Where the time of a call goes, by nn.Module, from PyTorch's profiler: for eager mode.

A module's time is that of its own forward pass without the modules that it calls. The times of all
modules add up to the call.

The program of a .pt2 file is one flat graph whose nodes say which module they are of. Profilers need modules. So each run of
consecutive nodes of one module becomes a part, which is a module (`split`), and times of parts are those of its module.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.passes.split_module import split_module
from torch.profiler import ProfilerActivity, profile, record_function

from scripts.frontends.lowering.locations import module_stack

MS = 1e-3
_MODULE = "module:"
"""What the names of a module's ranges in the profile begin with; the module's path follows."""
_PART = "part_{}"
_NAME = "submod_" + _PART
"""What split_module calls a part."""


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


def split(model: torch.fx.GraphModule) -> dict[str, Module]:
    """Split a graph into parts, in place; return the module of each by the part's name, and the model's by ""."""
    modules: dict[str, Module] = {}
    part_of: dict[str, str] = {}
    stacks = [(node, module_stack(node.meta.get("nn_module_stack"))) for node in model.graph.nodes if node.op == "call_function"]  # fmt: skip
    runs = itertools.groupby(stacks, lambda item: item[1][-1:])
    for number, (innermost, run) in enumerate(runs):
        modules[_NAME.format(number)] = Module(*innermost[0]) if innermost else Module("", "")
        part_of |= {node.name: _PART.format(number) for node, _ in run}
    roots = [stack[0][1] for _, stack in stacks if stack and not stack[0][0]]
    modules[""] = Module("", roots[0] if roots else type(model).__name__)
    codegen = model.graph._codegen
    parts = split_module(model, model, lambda node: part_of[node.name], keep_original_order=True)
    for name, part in parts.named_children():
        if name in modules:
            model.add_module(name, part)
    graph = parts.graph
    graph.set_codegen(codegen)
    model.graph = graph
    return modules


def merged_times(times: Mapping[Module, float], modules: Mapping[str, Module]) -> dict[Module, float]:  # fmt: skip
    """The times of modules, from those of parts; a time that is of no part stays as it is."""
    merged: dict[Module, float] = defaultdict(float)
    for part, ms in times.items():
        merged[part if part.path is None else _module_of(part.path, modules) or part] += ms
    return dict(merged)


def merged_work(work: dict[str, Any], modules: Mapping[str, Module]) -> dict[str, Any]:
    """The work of a call (`step.count_work`) with that of modules in place of that of parts."""
    merged: dict[str, dict[str, int]] = {}
    for part, counted in work["modules"].items():
        module = _module_of(part, modules)
        known = merged.setdefault(str(module.path) if module else part, dict.fromkeys(counted, 0))
        for key, number in counted.items():
            known[key] += number
    return work | {"modules": merged}


def _module_of(path: str, modules: Mapping[str, Module]) -> Module | None:
    """The module of a part, or of what is inside it, as the body of a region without gradients."""
    return modules.get(path) or modules.get(path.partition(".")[0])
