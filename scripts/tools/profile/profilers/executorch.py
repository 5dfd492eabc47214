"""Profiles ExecuTorch by its event tracer (ETDump), which times XNNPACK's operators and ExecuTorch's own kernels.

XNNPACK's operators do not say where they come from. Products are mapped to those of the captured graph by their order, if there are as
many; what runs between two products, by its kind to the nodes between these.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from executorch.devtools import Inspector
from executorch.runtime import Runtime

from scripts.baselines import executorch as baseline
from scripts.baselines.sessions import converted
from scripts.baselines.sessions.runtime import Work
from scripts.frontends.lowering import locations
from scripts.frontends.lowering.locations import Origin
from scripts.frontends.torch_model.loading import FLAT_PREFIX
from scripts.tools.profile.profilers import PRODUCTS, Kernel, Profiler, base_name
from scripts.tools.profile.rounds import NANOSECOND, CallTimes, Run, timed_ms

WRAPPERS = frozenset(("OPERATOR_CALL", "DELEGATE_CALL", "Method::execute"))
"""Events around others."""
PRODUCT_NAMES = ("Convolution", "Deconvolution", "Fully Connected", "Batch Matrix Multiply", "native_call_convolution", "native_call_mm", "native_call_bmm", "native_call_addmm", "native_call_linear")  # fmt: skip
LAYOUT_NAMES = ("Transpose", "Static Reshape", "Copy", "Convert", "native_call__to_dim_order_copy", "native_call_permute_copy", "native_call_clone", "native_call__clone_dim_order", "native_call_view_copy")  # fmt: skip
OTHERS = {
    "HardSwish": ("hardswish",),
    "Mean": ("mean", "adaptive_avg_pool2d"),
    "Global Average Pooling": ("mean", "adaptive_avg_pool2d"),
    "Average Pooling": ("avg_pool2d", "adaptive_avg_pool2d"),
    "Max Pooling": ("max_pool2d",),
    "Softmax": ("softmax", "scaled_dot_product_attention"),
    "Sigmoid": ("sigmoid", "silu"),
    "GELU": ("gelu",),
    "Tanh": ("tanh",),
    "Clamp": ("relu", "relu6", "hardtanh", "clamp", "hardsigmoid"),
    "Add": ("add", "hardsigmoid"),
    "Subtract": ("sub", "rsub"),
    "Multiply": ("mul", "silu"),
    "Divide": ("div", "hardsigmoid"),
}
"""The operators of ATen that an operator of XNNPACK computes or is a part of, by the start of its name."""
NATIVE = "native_call_"
"""What the names of ExecuTorch's own kernels begin with."""


def open_profiler(work: Work, runtime: Any, device: Any) -> Profiler:
    """The model of a cell, lowered to ExecuTorch."""
    session = runtime.open_session(work, device)
    loaded = session.step.loaded
    origins = locations.of_nodes(converted.exported(loaded).graph.nodes, FLAT_PREFIX)
    nodes = [*origins.nodes.values()]
    inputs = [tensor.contiguous() for _, tensor in loaded.inputs]

    def take(calls: int) -> list[CallTimes]:
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            program = Runtime.get().load_program(
                converted.folder() / baseline.FILE, enable_etdump=True
            )
            method = program.load_method("forward")
            walls_ms = timed_ms(lambda: method.execute(inputs), 1 + calls)
            recorded = Path(folder, "calls.etdp")
            program.write_etdump_result_to_file(str(recorded), str(Path(folder, "none.bin")))
            blocks = Inspector(etdump_path=str(recorded)).event_blocks
        events = [event for block in blocks if block.name == "Execute" for event in block.events]
        inner = [event for event in events if event.name not in WRAPPERS and event.perf_data]
        known = mapped([event.name for event in inner], nodes)
        kernels = [
            Kernel(event.name, (node,) if node else (), event.name.startswith(LAYOUT_NAMES))
            for event, node in zip(inner, known, strict=True)
        ]

        def runs(number: int) -> Iterator[Run]:
            for event, kernel in zip(inner, kernels, strict=True):
                begun = event.start_time[number]
                yield kernel, begun, begun + event.perf_data.raw[number] / NANOSECOND

        return [CallTimes.of_runs(ms, runs(at), NANOSECOND) for at, ms in enumerate(walls_ms)][1:]

    return Profiler(session, take, origins.modules)


def mapped(names: Sequence[str], nodes: Sequence[Origin]) -> list[Origin | None]:
    """The node of each operator that runs, by the names of these in order; None where it is not known."""
    ran, captured = [-1], [-1]
    ran += [at for at, name in enumerate(names) if name.startswith(PRODUCT_NAMES)]
    captured += [at for at, node in enumerate(nodes) if base_name(node.operator) in PRODUCTS]
    known: list[Origin | None] = [None] * len(names)
    if len(ran) != len(captured):
        return known
    ends = zip([*ran[1:], len(names)], [*captured[1:], len(nodes)], strict=True)
    for begun, at, (end, last) in zip(ran, captured, ends, strict=True):
        if begun >= 0:
            known[begun] = nodes[at]
        between = nodes[at + 1 : last]
        seen: Counter[tuple[str, ...]] = Counter()
        for place in range(begun + 1, end):
            kinds = _operators(names[place])
            candidates = [node for node in between if base_name(node.operator) in kinds]
            if candidates:
                known[place] = candidates[min(seen[kinds], len(candidates) - 1)]
            seen[kinds] += 1
    return known


def _operators(name: str) -> tuple[str, ...]:
    """The operators of ATen that one of XNNPACK, or a kernel of ExecuTorch, may be of."""
    if name.startswith(NATIVE):
        return (name.removeprefix(NATIVE).partition(".")[0].removesuffix("_copy"),)
    return next((operators for start, operators in OTHERS.items() if name.startswith(start)), ())
