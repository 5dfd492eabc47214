"""The triads and products of timing/machine_limits.py, computed by torch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from scripts.features.limits import programs
from scripts.timing.machine_limits import PRODUCT, TRIAD, Sample
from scripts.torch_runtime.torch_device import TorchDevice

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def take(device: TorchDevice, threads: int) -> Iterator[Sample]:
    """Yield the samples of a device. Raises WrongResult."""
    small = programs.cached_array_bytes(device.kind, threads)
    for each in (*small, *programs.array_bytes(device.kind, threads)):
        yield _triad(device, each)
    for dtype in DTYPES:
        smaller: Sample | None = None
        for n in programs.SIZES[device.kind]:
            if smaller and min(smaller.seconds) * (n / smaller.size) ** 3 > programs.TOO_LONG:
                print(
                    f"note: the product {dtype} of torch, size {n}, would take over {programs.TOO_LONG:g} s: left out"
                )
                break
            smaller = _product(device, dtype, n)
            yield smaller


def _triad(device: TorchDevice, each: int) -> Sample:
    """a = b + s × c on float32 arrays of `each` bytes."""
    b, c = (
        torch.full((each // 4,), value, device=device.device)
        for value in (programs.ADDED, programs.SCALED)
    )
    a = torch.zeros_like(b)
    seconds = programs.timed(lambda: torch.add(b, c, alpha=programs.SCALE, out=a), device.finish)
    programs.check_triad("triad of torch", a.min().item(), a.max().item())
    return Sample(TRIAD, "torch", "f32", 3 * each, seconds)


def _product(device: TorchDevice, dtype: str, n: int) -> Sample:
    left, right = programs.signs(n)
    a, b = (torch.from_numpy(m).to(device.device, DTYPES[dtype]) for m in (left, right))
    out = torch.empty_like(a)
    seconds = programs.timed(lambda: torch.mm(a, b, out=out), device.finish)
    rows = out[: programs.CHECKED_ROWS].float().cpu().numpy()
    programs.check_product(f"product {dtype} of torch", rows, left, right)
    return Sample(PRODUCT, "torch", dtype, n, seconds)
