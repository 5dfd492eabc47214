"""Profiles of a step by PyTorch's profiler and dynamo, never while it is timed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

US = 1e-6


def collect(kinds: Collection[str], step: Callable[[], Any], device: Any) -> dict[str, Any]:
    """Make one more call of the step for each requested kind (`measure.collect`).

    `profiler`: CPU and device seconds of the call. `operators`: the same by operator; on an XLA device
    only for operators that ran on the CPU instead, on others for every aten operator.
    `dynamo_counters`: dynamo's counters in this process.
    """
    profiles: dict[str, Any] = {}
    if {"profiler", "operators"} & set(kinds):
        recording = profiled(step, device)
        if "profiler" in kinds:
            profiles["profiler"] = totals(recording)
        if "operators" in kinds:
            profiles["operators"] = operators(recording, device.fallback_operators())
    if "dynamo_counters" in kinds:
        profiles["dynamo_counters"] = dynamo_counters()
    return profiles


def profiled(step: Callable[[], Any], device: Any, iterations: int = 1) -> profile:
    """PyTorch's profile of a number of calls, including the device's work."""
    activities = [ProfilerActivity.CPU]
    if device.kind == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as recording:
        for _ in range(iterations):
            held = step()  # a lazy result that nobody holds is never computed
            device.finish()
            del held
    return recording


def totals(recording: profile) -> dict[str, float]:
    """CPU and device seconds from a profile."""
    events = recording.key_averages()
    cpu = sum(e.self_cpu_time_total for e in events if e.device_type == DeviceType.CPU) * US
    cuda = sum(e.self_device_time_total for e in events if e.device_type == DeviceType.CUDA) * US
    return {"total_cpu_time_s": cpu, "total_cuda_time_s": cuda}


def operators(recording: profile, only: Collection[str] | None) -> dict[str, dict[str, float]]:
    """Seconds and calls by aten operator; only those in `only`, if that is given."""
    return {
        event.key: {
            "self_cpu_time_s": event.self_cpu_time_total * US,
            "self_cuda_time_s": event.self_device_time_total * US,
            "total_cpu_time_s": event.cpu_time_total * US,
            "total_cuda_time_s": event.device_time_total * US,
            "num_of_calls": event.count,
        }
        for event in recording.key_averages()
        if (event.key in only if only is not None else event.key.startswith("aten::"))
    }


def dynamo_counters() -> dict[str, dict[str, int]]:
    """torch._dynamo's counters as plain values: frames, graph breaks, inductor's fusions, …"""
    from torch._dynamo.utils import counters

    return {group: dict(counted) for group, counted in counters.items() if counted}
