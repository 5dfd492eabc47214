"""The program of a .pt2 file, split by nn.Module for profilers.

The program is one flat graph whose nodes say which module they are of, and profilers need modules. So each run of
consecutive nodes of one module becomes a part, which is a module, and times of parts are those of its module.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

from scripts.frontends.lowering.locations import module_stack

_PART = "part_{}"
_NAME = "submod_" + _PART
"""What split_module calls a part."""


class Parts:
    """The parts into which a graph was split, in place; none of a model that is no graph. `kinds`: the class of each module by its
    path."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._modules: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        if isinstance(model, torch.fx.GraphModule):
            self._split(model)

    def _split(self, model: torch.fx.GraphModule) -> None:
        part_of: dict[str, str] = {}
        stacks = [(node, module_stack(node.meta.get("nn_module_stack"))) for node in model.graph.nodes if node.op == "call_function"]  # fmt: skip
        runs = itertools.groupby(stacks, lambda item: item[1][-1:])
        for number, (innermost, run) in enumerate(runs):
            path, kind = innermost[0] if innermost else ("", "")
            self._modules[_NAME.format(number)] = path
            self.kinds[path] = kind
            part_of |= {node.name: _PART.format(number) for node, _ in run}
        roots = [stack[0][1] for _, stack in stacks if stack and not stack[0][0]]
        self.kinds[""] = roots[0] if roots else type(model).__name__
        codegen = model.graph._codegen
        split = split_module(model, model, lambda node: part_of[node.name], keep_original_order=True)  # fmt: skip
        for name, part in split.named_children():
            if name in self._modules:
                model.add_module(name, part)
        graph = split.graph
        graph.set_codegen(codegen)
        model.graph = graph

    def module_of(self, path: str | None) -> str | None:
        """The module of a part, or of what is inside it, as the body of a region without gradients; another path as it is."""
        if path is None:
            return None
        return self._modules.get(path, self._modules.get(path.partition(".")[0], path))

    def merged_work(self, work: Mapping[str, Any]) -> dict[str, Any]:
        """The work of a call (`step.count_work`) with that of modules in place of that of parts."""
        merged: dict[str, Counter[str]] = defaultdict(Counter)
        for part, counted in work["modules"].items():
            merged[str(self.module_of(part))].update(counted)
        return {**work, "modules": merged}
