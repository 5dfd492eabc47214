"""Where the time of a call goes, by nn.Module, for torch.compile with inductor on the CPU.

Inductor's generated code is a list of kernel calls. Here it gets a line before each of them that notes the
time, so the time of a kernel lasts until the next one. Each kernel knows the nodes of the graph that it
computes, and they know their modules. A kernel of several modules counts for each of them with
equal shares.

Uses internals of inductor: the wrapper class of a backend, and the table of kernels and nodes
(`trace.provenance_tracking_level`). Written for the PyTorch that envs/torch-mlir.yaml pins.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch._inductor.config
import torch._inductor.debug
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.virtualized import V

from scripts.tools.profile.by_module import Module, Times, medians

MS = 1e-6
"""Milliseconds of a nanosecond."""
END = -1
"""The mark at the end of a graph: what comes until the next mark is not of a kernel."""
_UNKNOWN = Module(None, "")


_kernels: list[tuple[Module, ...]] = []
"""The modules of the nodes of each kernel call of the generated code; a path is None if it is not known."""
_marks: list[tuple[int, int]] = []


def mark(number: int) -> None:
    """Note the time at which a kernel begins. The generated code calls this."""
    _marks.append((number, time.perf_counter_ns()))


class _MarkingWrapper(PythonWrapperCodegen):
    """Generates code that calls `mark` before each kernel."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return PythonWrapperCodegen.create(
                is_subgraph, subgraph_name, parent_wrapper, partition_signatures
            )
        return _MarkingWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.imports.writeline(f"from {__name__} import mark as _mark")

    def write_provenance_debug_handle(
        self, kernel_name: str, debug_handle: int | None = None
    ) -> None:
        super().write_provenance_debug_handle(kernel_name, debug_handle)
        known = torch._inductor.debug._inductor_triton_kernel_to_post_grad_node_info
        names = known.get(f"{kernel_name}:{debug_handle}", [])
        nodes = {node.name: node for node in V.graph.graph.nodes}
        modules = [_module(nodes[name].meta) for name in names if name in nodes]
        _kernels.append(tuple(dict.fromkeys(modules)) or (_UNKNOWN,))
        self.writeline(f"_mark({len(_kernels) - 1})")

    def generate_return(self, output_refs: list[str]) -> None:
        self.wrapper_call.writeline(f"_mark({END})")
        super().generate_return(output_refs)


# L['self'].encoder._modules['layers'][0] is encoder.layers.0.
_ROOT = re.compile(r"^L\[['\"]\w+['\"]\]")
_ITEM = re.compile(r"\[['\"]?(?P<name>[^\]'\"]+)['\"]?\]")
_GETATTR = re.compile(r"getattr\((?P<of>[^()]+), ['\"](?P<name>[^'\"]+)['\"]\)")


def path_of(source: str) -> str:
    """The path of a module below the model, from dynamo's expression for it."""
    while match := _GETATTR.search(source):
        source = f"{source[: match.start()]}{match['of']}.{match['name']}{source[match.end() :]}"
    source = _ROOT.sub("", source).replace("._modules", "")
    return _ITEM.sub(r".\g<name>", source).removeprefix(".")


def _module(meta: Mapping[str, Any]) -> Module:
    """The innermost module of a node."""
    stack = meta.get("nn_module_stack")
    if not stack:
        return _UNKNOWN
    source, kind = list(stack.values())[-1]
    name = kind if isinstance(kind, str) else kind.__qualname__
    return Module(path_of(source), name.rsplit(".", 1)[-1])


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Let everything that inductor compiles for the CPU in this context call `mark`. Its caches are not used."""
    common.init_backend_registration()
    usual = common.device_codegens["cpu"]
    common.device_codegens["cpu"] = replace(usual, wrapper_codegen=_MarkingWrapper)
    changes = {"trace.provenance_tracking_level": 2, "force_disable_caches": True}
    try:
        with torch._inductor.config.patch(changes):
            yield
    finally:
        common.device_codegens["cpu"] = usual


def inductor(call: Callable[[], Any], calls: int) -> dict[Module, float]:
    """The time of each module per call, in milliseconds: the median of `calls` calls.

    The first call of `call`, which compiles, must have been made in `marking`. Another call that does not count is
    made here.
    """
    call()
    timed = []
    for _ in range(calls):
        _marks.clear()
        start = time.perf_counter_ns()
        call()
        end = time.perf_counter_ns()
        timed.append(_by_module([(END, start), *_marks, (END, end)]))
    _marks.clear()
    return medians(timed)


def _by_module(noted: Sequence[tuple[int, int]]) -> Times:
    """The time of one call by module, from what was noted during it: kernels and the times at which they began."""
    times: dict[Module, float] = defaultdict(float)
    for (number, begun), (_, ended) in itertools.pairwise(noted):
        # Outside kernels there are guards of dynamo, and allocations.
        modules = _kernels[number] if number != END else (_UNKNOWN,)
        for module in modules:
            times[module] += (ended - begun) * MS / len(modules)
    return times
