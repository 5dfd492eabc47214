"""Devices of PyTorch's own (the CPU and CUDA GPUs), and those of PyTorch/XLA."""

from __future__ import annotations

import importlib.metadata
import os
from contextlib import AbstractContextManager

import torch

from scripts.baselines.sessions.runtime import Device, NoDevice
from scripts.core.machine import cpu_name
from scripts.frontends.torch_model.errors import first_line
from scripts.measure.timing.calls import Counters

# torch.set_float32_matmul_precision's names to XLA's.
_MATMUL_PRECISION = {"highest": "highest", "high": "high", "medium": "default"}


class TorchDevice(Device):
    """A CPU or a CUDA GPU. Raises NoDevice if it does not exist."""

    def __init__(self, kind: str, threads: int) -> None:
        if kind == "cuda" and not torch.cuda.is_available():
            raise NoDevice("torch.cuda.is_available() is False")
        self.kind = kind
        self.name = torch.cuda.get_device_name() if kind == "cuda" else cpu_name()
        self.device = torch.device(kind)
        torch.set_num_threads(threads)

    def set_matmul_precision(self, precision: str) -> None:
        torch.set_float32_matmul_precision(precision)

    def autocast(self, dtype: torch.dtype) -> AbstractContextManager:
        """Automatic mixed precision with `dtype`."""
        return torch.autocast(self.kind, dtype)

    def finish(self) -> None:
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def peak_memory_mb(self) -> float | None:
        return torch.cuda.max_memory_allocated() / 2**20 if self.kind == "cuda" else None


class XlaDevice(Device):
    """A device of PyTorch/XLA, through PJRT: a call is traced, then compiled and run at a sync. Raises NoDevice if it does not
    exist."""

    def __init__(self, kind: str, threads: int) -> None:
        # Read when the PJRT client is made, at the first use of a device.
        os.environ["PJRT_DEVICE"] = kind.upper()
        # The size of XLA's own thread pool on the CPU, which torch.set_num_threads does not set.
        os.environ["NPROC"] = str(threads)
        torch.set_num_threads(threads)
        import torch_xla
        import torch_xla.core.xla_model as xm
        import torch_xla.debug.metrics as metrics

        self._xla, self._xm, self._metrics = torch_xla, xm, metrics
        version = importlib.metadata.version("torch_xla")
        try:
            self.device = torch_xla.device()
        except RuntimeError as error:
            raise NoDevice(f"torch_xla {version}: {first_line(error)}") from error
        # The autograd engine counts devices once, at the first backward pass.
        torch.zeros(1, device=self.device)
        self.kind = kind
        self.name = cpu_name() if kind == "cpu" else str(self.device)

    def set_matmul_precision(self, precision: str) -> None:
        torch.set_float32_matmul_precision(precision)
        self._xla._XLAC._xla_set_mat_mul_precision(_MATMUL_PRECISION[precision])

    def autocast(self, dtype: torch.dtype) -> AbstractContextManager:
        """Automatic mixed precision with `dtype`."""
        return torch.autocast("xla", dtype)

    def finish(self) -> None:
        """Launch what was traced, and return when the device has finished all work.

        `sync(wait=True)` alone returns when the computation is enqueued: on PJRT's CPU client, ResNet-18
        then seems to take 0.5 ms, and takes 55 ms (docs/timing_errors.md).
        """
        self._xla.sync(wait=True)
        self._xm.wait_device_ops()

    def counters(self) -> Counters:
        """CompileTime and ExecuteTime of PyTorch/XLA's own metrics so far."""
        compiled, executed = map(self._metric, ("CompileTime", "ExecuteTime"))
        return Counters(*compiled, *executed)

    def _metric(self, name: str) -> tuple[int, float]:
        data = self._metrics.metric_data(name)  # (count, total nanoseconds, samples) or None
        return (data[0], data[1] * 1e-9) if data else (0, 0.0)

    def peak_memory_mb(self) -> float | None:
        if self.kind == "cpu":
            return None
        return self._xm.get_memory_info(self.device)["peak_bytes_used"] / 2**20

    def fallback_operators(self) -> list[str] | None:
        return self._metrics.executed_fallback_ops()

    def clear_metrics(self) -> None:
        self._metrics.clear_all()

    def metrics_report(self) -> str:
        return self._metrics.metrics_report()
