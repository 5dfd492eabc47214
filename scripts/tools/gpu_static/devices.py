"""What GPUs can do at most, by the documents of their vendors, and how many workgroups of a kernel run on a part of one at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SIMDS = 4
"""The parts of a compute unit (AMD) or multiprocessor (NVIDIA), each of which has REGISTERS 32-bit registers per lane."""
REGISTERS, REGISTER_STEP = 512, 8
"""On both: AMD's CDNA 3 has 512 per lane, allocated in eights (LLVM, "User Guide for AMDGPU Backend"); NVIDIA's multiprocessors have 65,536, which are 512 for
each of the 32 lanes of four parts, allocated in 256 per warp (CUDA C++ Programming Guide, "Compute Capabilities")."""


@dataclass(frozen=True)
class Device:
    """A GPU. `archs`: the targets that are compiled for it, by backend. `units`: its compute units or multiprocessors. `wave`:
    threads of a wavefront or warp. `waves`, `workgroups`: that a unit holds at most. `shared_bytes`: local memory (LDS, shared
    memory) of a unit, allocated in `shared_step`; each workgroup takes `shared_reserved` more. `gb_per_s`: of its memory.
    `tflop_per_s`: dense peak by kind of instruction and type of the operands; types that the documents do not have are missing.
    `sources`: of the figures."""

    name: str
    archs: Mapping[str, str]
    units: int
    wave: int
    waves: int
    workgroups: int
    shared_bytes: int
    shared_step: int
    shared_reserved: int
    gb_per_s: float
    tflop_per_s: Mapping[str, float]
    sources: str


MATRIX, VECTOR = "matrix", "vector"
"""Kinds of instructions, the first word of the keys of `Device.tflop_per_s`."""

DEVICES = (
    Device(
        "MI300X",
        {"rocm": "gfx942"},
        units=304,
        wave=64,
        waves=32,
        workgroups=32,
        shared_bytes=64 * 1024,
        shared_step=512,
        shared_reserved=0,
        gb_per_s=5300,
        tflop_per_s={"vector f32": 163.4, "vector f64": 81.7, "matrix f32": 163.4, "matrix f64": 163.4, "matrix tf32": 653.7, "matrix f16": 1307.4, "matrix f8": 2614.9, "matrix i8": 2614.9},
        sources="AMD Instinct MI300X data sheet; AMD CDNA 3 white paper; LLVM, llvm-calc-occupancy (waves)",
    ),
    Device(
        "A100",
        {"cuda": "sm_80"},
        units=108,
        wave=32,
        waves=64,
        workgroups=32,
        shared_bytes=164 * 1024,
        shared_step=128,
        shared_reserved=1024,
        gb_per_s=2039,
        tflop_per_s={"vector f32": 19.5, "vector f64": 9.7, "vector f16": 78.0, "matrix f64": 19.5, "matrix tf32": 156.0, "matrix f16": 312.0, "matrix i8": 624.0},
        sources="NVIDIA A100 data sheet (80 GB, SXM); NVIDIA A100 Tensor Core GPU Architecture; CUDA C++ Programming Guide, compute capability 8.0",
    ),
    Device(
        "RTX 4090",
        {"cuda": "sm_89", "vulkan": "ada"},
        units=128,
        wave=32,
        waves=48,
        workgroups=24,
        shared_bytes=100 * 1024,
        shared_step=128,
        shared_reserved=1024,
        gb_per_s=1008,
        tflop_per_s={"vector f32": 82.6, "vector f16": 82.6, "matrix tf32": 82.6, "matrix f16": 165.2, "matrix f8": 330.3, "matrix i8": 660.6},
        sources="NVIDIA Ada GPU Architecture, appendix A (FP16 with FP32 sums); CUDA C++ Programming Guide, compute capability 8.9",
    ),
)  # fmt: skip
"""The devices of the default targets."""


def find(backend: str, arch: str) -> Device | None:
    """The device that a target stands for; None if none is declared."""
    return next((device for device in DEVICES if device.archs.get(backend) == arch), None)


def occupancy(
    device: Device, threads: int, registers: int | None, shared_bytes: int
) -> tuple[float, str]:
    """The share of the waves of a unit that workgroups of a kernel fill at most, and what limits it: "" if they fill it.

    `threads`: of a workgroup. `registers`: of a thread, rounded up by the hardware; None if they are not known, and then the share
    is an upper bound. `shared_bytes`: of a workgroup. 0.0 if not even one fits.
    """
    waves = math.ceil(threads / device.wave)
    fits = {"workgroup size": device.waves // waves, "workgroups": device.workgroups}
    if registers:
        fits["registers"] = SIMDS * (REGISTERS // _up(registers, REGISTER_STEP)) // waves
    if taken := shared_bytes and shared_bytes + device.shared_reserved:
        fits["shared memory"] = device.shared_bytes // _up(taken, device.shared_step)
    least = min(fits, key=fits.__getitem__)
    share = fits[least] * waves / device.waves
    return share, "" if share == 1 else least


def _up(number: int, step: int) -> int:
    return math.ceil(number / step) * step
