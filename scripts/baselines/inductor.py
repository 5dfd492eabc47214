"""torch.compile with the inductor backend, default mode, static shapes, cold caches."""

from __future__ import annotations

import torch
import torch._dynamo.utils
import torch._inductor.config


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """The callable to measure; it compiles in its first call."""
    # A cache from an earlier run would make the first call and compile_s mean nothing.
    torch._inductor.config.force_disable_caches = True
    return torch.compile(module, backend="inductor", dynamic=False, fullgraph=False)


def compile_seconds() -> float | None:
    """Seconds in dynamo and inductor so far, by PyTorch's own account."""
    times = torch._dynamo.utils.compilation_time_metrics
    return sum(times.get("entire_frame_compile", [])) or sum(
        times.get("_compile.compile_inner", [])
    )
