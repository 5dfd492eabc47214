"""How each runtime of a baseline is profiled: the module of its name has `open_profiler`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from scripts.frontends.lowering.locations import Origin
from scripts.tools.profile.rounds import CallTimes

RUNTIMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))
"""The runtimes of baselines that can be profiled."""
LAYOUT = "layout"
"""The kind of a kernel that only changes how a tensor is laid out."""

PRODUCTS = frozenset(
    {
        *("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "einsum"),
        *("convolution", "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_weight_int4pack_mm"),
    }
)
"""Operators of ATen that are products. What is fused with one takes little of the time."""


def base_name(operator: str) -> str:
    """`mm` of `aten.mm.default`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


class Kernel(NamedTuple):
    """What a runtime runs at once. `nodes`: what it computes, as far as it could be mapped to the captured graph. `is_layout`: whether it only moves data."""

    name: str
    nodes: tuple[Origin, ...] = ()
    is_layout: bool = False

    def described(self) -> dict[str, Any]:
        """What profile.json says about it."""
        kind = LAYOUT if self.is_layout else ""
        return {"function": self.name, "nodes": [*map(astuple, self.nodes)], "kind": kind}


@dataclass(frozen=True)
class Profiler:
    """A model that is ready to be profiled. `call`: one call without a profiler. `take`: the times of so many profiled calls, after
    one that does not count, by Kernel. `kinds`: the class of each nn.Module by its path. `work`: of a call, counted by PyTorch
    (step.count_work), if the runtime counts it."""

    call: Callable[[], object]
    take: Callable[[int], Sequence[CallTimes]]
    kinds: Mapping[str, str] = field(default_factory=dict)
    work: Callable[[], Mapping[str, Any]] = dict
