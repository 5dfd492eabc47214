"""Gives the graph of an exported program modules again, for profiles by nn.Module.

The program of a .pt2 file is one flat graph whose nodes say which module they are of. Profilers need modules. So each run of
consecutive nodes of one module becomes a part, which is a module, and times of parts are those of its module.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

from scripts.features.profile.by_module import Module
from scripts.lowering.locations import module_stack

_PART = "part_{}"
_NAME = "submod_" + _PART
"""What split_module calls a part."""


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
    """The work of a call (torch_model/work.py) with that of modules in place of that of parts."""
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
