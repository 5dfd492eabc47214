"""Profiles torch.compile with inductor on a CPU, by the kernels of its generated code.

That code is a list of kernel calls. Here it gets a line before each of them that notes the time, so the time of a kernel lasts
until the next one. Each kernel knows the nodes of the graph that it computes, and they know their modules.

Uses internals of inductor: the wrapper class of a backend, the table of kernels and nodes
(`trace.provenance_tracking_level`), and the frame that dynamo compiles. Written for the PyTorch that envs/torch-mlir.yaml pins.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch._inductor.config
import torch._inductor.debug
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.virtualized import V

from scripts.baselines.sessions import torch_session
from scripts.baselines.sessions.runtime import Work, settle
from scripts.frontends.lowering.locations import Origin, module_stack
from scripts.tools.profile import parts
from scripts.tools.profile.profilers import Kernel, Profiler
from scripts.tools.profile.rounds import NANOSECOND, CallTimes, timed_ms

END = -1
"""The mark at the end of a graph: what comes until the next mark is not of a kernel."""
COPIES = frozenset(("aten.clone", "aten.copy_", "aten.permute", "aten.transpose", "aten._to_copy", "aten.view"))  # fmt: skip
"""Operators that only change layout or type."""

_kernels: list[tuple[str, tuple[Origin, ...]]] = []
"""The name and the nodes of each kernel call of the generated code."""
_kinds: dict[str, str] = {}
"""The class of each module by its path."""
_marks: list[tuple[int, int]] = []
_paths: dict[int, str] = {}
"""The path of each nn.Module of the model by its id."""


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
        computed = (_node(nodes[name]) for name in names if name in nodes)
        _kernels.append((kernel_name, tuple(dict.fromkeys(computed))))
        self.writeline(f"_mark({len(_kernels) - 1})")

    def generate_return(self, output_refs: list[str]) -> None:
        self.wrapper_call.writeline(f"_mark({END})")
        super().generate_return(output_refs)


# L['self'].encoder._modules['layers'][0] is encoder.layers.0.
_ROOT = re.compile(r"^L\[['\"](?P<name>\w+)['\"]\]")
_ITEM = re.compile(r"\[['\"]?(?P<name>[^\]'\"]+)['\"]?\]")
_GETATTR = re.compile(r"getattr\((?P<of>[^()]+), ['\"](?P<name>[^'\"]+)['\"]\)")


def path_of(source: str) -> tuple[str, str]:
    """The variable that dynamo's expression for a module begins with, and the path of the module below it. torch.export writes paths: "" and the path."""
    while match := _GETATTR.search(source):
        source = f"{source[: match.start()]}{match['of']}.{match['name']}{source[match.end() :]}"
    match = _ROOT.match(source)
    below = source[match.end() :] if match else source
    path = _ITEM.sub(r".\g<name>", below.replace("._modules", "")).removeprefix(".")
    return match["name"] if match else "", path


def _node(node: Any) -> Origin:
    """A node of inductor's graph, with its innermost module. After a graph break, a graph begins inside a module: paths are below that, and nodes without
    a path are its own."""
    stack = module_stack(node.meta.get("nn_module_stack"))
    source, kind = stack[-1] if stack else ("L['self']", "")
    variable, below = path_of(source)
    frame = InstructionTranslator.current_tx()
    root = _paths.get(id(frame.f_locals.get(variable))) if variable else ""
    path = None if root is None else ".".join(filter(None, (root, below)))
    if path is not None and kind:
        _kinds[path] = kind
    return Origin(node.name, str(node.target), path)


@contextlib.contextmanager
def marking(model: torch.nn.Module) -> Iterator[None]:
    """Let everything of a model that inductor compiles for the CPU in this context call `mark`. Its caches are not used."""
    _paths.update({id(module): path for path, module in model.named_modules()})
    common.init_backend_registration()
    usual = common.device_codegens["cpu"]
    common.device_codegens["cpu"] = replace(usual, wrapper_codegen=_MarkingWrapper)
    changes = {"trace.provenance_tracking_level": 2, "force_disable_caches": True}
    try:
        with torch._inductor.config.patch(changes):
            yield
    finally:
        common.device_codegens["cpu"] = usual


def open_profiler(work: Work, runtime: Any, device: Any) -> Profiler:
    """The model of a cell, as inductor compiles it."""
    split = parts.Parts(torch_session.build_ahead(work).module)
    session = runtime.open_session(work, device)
    with marking(session.step.loaded.module):
        session()  # compiles
    settle(runtime)

    def take(calls: int) -> list[CallTimes]:
        session()
        return times_of_calls(session, split, calls)

    return Profiler(session, take, split.kinds or _kinds)


def times_of_calls(call: Callable[[], Any], split: parts.Parts, calls: int) -> list[CallTimes]:
    """The times of so many calls of what was compiled in `marking`. Outside kernels there are guards of dynamo, and allocations."""
    timed = []
    for _ in range(calls):
        _marks.clear()
        [ms] = timed_ms(call, 1)
        runs = [
            (_kernel(number, split), begun, ended)
            for (number, begun), (_, ended) in itertools.pairwise(_marks)
            if number != END
        ]
        timed.append(CallTimes.of_runs(ms, runs, NANOSECOND))
    _marks.clear()
    return timed


def _kernel(number: int, split: parts.Parts) -> Kernel:
    name, nodes = _kernels[number]
    merged = tuple(replace(node, module=split.module_of(node.module)) for node in nodes)
    copies = all(node.operator.rpartition(".")[0] in COPIES for node in nodes)
    return Kernel(f"{name}_{number}", merged, bool(nodes) and copies)
