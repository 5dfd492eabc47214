"""Devices of PyTorch's own: the CPU, and CUDA GPUs."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from scripts.core.machine import cpu_name
from scripts.timing.calls import Counters
from scripts.torch_runtime.runtime import NoDevice


class TorchDevice:
    """A device on which a baseline runs. `kind` is cpu or cuda. Raises NoDevice if it does not exist."""

    def __init__(self, kind: str, threads: int) -> None:
        if kind == "cuda" and not torch.cuda.is_available():
            raise NoDevice("torch.cuda.is_available() is False")
        self.kind = kind
        self.name = torch.cuda.get_device_name() if kind == "cuda" else cpu_name()
        self.device = torch.device(kind)
        torch.set_num_threads(threads)

    def set_matmul_precision(self, precision: str) -> None:
        """`highest`, `high` or `medium`, as torch.set_float32_matmul_precision."""
        torch.set_float32_matmul_precision(precision)

    def autocast(self, dtype: torch.dtype) -> AbstractContextManager:
        """Automatic mixed precision with `dtype`."""
        return torch.autocast(self.kind, dtype)

    def finish(self) -> None:
        """Return when the device has finished all work."""
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def counters(self) -> Counters | None:
        """Nothing of the kind."""
        return None

    def peak_memory_mb(self) -> float | None:
        """Peak memory of tensors on the device, in MiB; None if the device uses the host's memory."""
        return torch.cuda.max_memory_allocated() / 2**20 if self.kind == "cuda" else None

    def fallback_operators(self) -> list[str] | None:
        """None: there are no operators that fall back to the CPU."""
        return None

    def clear_metrics(self) -> None:
        """Nothing of the kind."""

    def metrics_report(self) -> str:
        """Nothing of the kind."""
        return ""
