"""Converts a model's weights to float64 for a call: all at once, or block by block.

All at once needs twice the bytes of float32 weights, four times those of bfloat16. Block by block, the
layers of a transformer are converted one at a time, each while it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial

import psutil
import torch
from torch import nn

from scripts.torch_model import footprint

Kept = list[tuple[dict, str, torch.Tensor]]


def fits(module: nn.Module, limit: float) -> bool:
    """Whether the process stays within `limit` bytes with all weights converted at once."""
    weights = [w for w in (*module.parameters(), *module.buffers()) if w.is_floating_point()]
    more = sum(w.numel() * (8 - w.element_size()) for w in weights)
    largest = max((w.numel() * w.element_size() for w in weights), default=0)
    return psutil.Process().memory_info().rss + more + largest <= limit


@contextlib.contextmanager
def widened(module: nn.Module) -> Iterator[None]:
    """The module in float64, for calls without gradients; block by block if necessary.

    If all weights fit at once, the module stays in float64 afterwards, because its old weights are
    released. Raises RuntimeError if not even single blocks fit.
    """
    limit, _ = footprint.limit_bytes("reference")
    if fits(module, limit):
        module.double()
        yield
        return
    parts = blocks(module)
    inside = {id(part) for block in parts for part in block.modules()}
    apart = [part for part in module.modules() if id(part) not in inside]
    at_once = _wide_bytes(apart) + max((_wide_bytes(b.modules()) for b in parts), default=0)
    if psutil.Process().memory_info().rss + at_once > limit:
        raise RuntimeError(f"{at_once / 1e9:.1f} GB of float64 weights, block by block, do not fit")
    print(f"note: float64 in {len(parts)} blocks: all at once does not fit", flush=True)
    outside = _widen(apart)
    widened_now: dict[int, Kept] = {}

    def enter(block: nn.Module, *_: object) -> None:
        widened_now[id(block)] = _widen(block.modules())

    def leave(block: nn.Module, *_: object) -> None:
        _restore(widened_now.pop(id(block), []))

    hooks = [block.register_forward_pre_hook(enter) for block in parts]
    hooks += [block.register_forward_hook(leave, always_call=True) for block in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _restore(outside)


def is_wide(module: nn.Module) -> bool:
    """Whether every weight is in float64 now."""
    weights = (*module.parameters(), *module.buffers())
    return all(w.dtype is torch.float64 for w in weights if w.is_floating_point())


def blocks(module: nn.Module) -> list[nn.Module]:
    """The parts that run one after the other: the elements of the outermost lists of modules."""
    parts: list[nn.Module] = []
    for child in module.children():
        repeated = isinstance(child, nn.ModuleList | nn.Sequential) and len(child) > 1
        parts += list(child.children()) if repeated else blocks(child)
    return parts


def _wide_bytes(parts: Iterable[nn.Module]) -> int:
    """Bytes of the parts' own floating-point weights in float64, shared ones once."""
    own = {
        id(weight): weight
        for part in parts
        for place in (part._parameters, part._buffers)
        for weight in place.values()
        if weight is not None and weight.is_floating_point()
    }
    return 8 * sum(weight.numel() for weight in own.values())


def _widen(parts: Iterable[nn.Module]) -> Kept:
    """Replace the parts' own weights by float64 copies; return the original ones."""
    kept: Kept = []
    copies: dict[int, torch.Tensor] = {}
    for part in parts:
        for place in (part._parameters, part._buffers):
            for name, weight in place.items():
                if weight is None or not weight.is_floating_point():
                    continue
                kept.append((place, name, weight))
                if id(weight) not in copies:
                    make = partial(nn.Parameter, requires_grad=False) if place is part._parameters else lambda t: t  # fmt: skip
                    copies[id(weight)] = make(weight.detach().double())
                place[name] = copies[id(weight)]
    return kept


def _restore(kept: Kept) -> None:
    for place, name, weight in kept:
        place[name] = weight
