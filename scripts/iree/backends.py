"""IREE's compiler backends: the only place with the flags and devices of each of them.

Written for the IREE that envs/iree.yaml pins; a test runs every backend's flags through its
iree-compile and fails on an unknown or a deprecated one. Releases from 3.8 on take the same flags, but
for those that a backend declares as `renamed`.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from scripts.core import machine

OPT_LEVELS = ("O0", "O1", "O2", "O3")
"""Values of --iree-opt-level."""


@dataclass(frozen=True)
class Backend:
    """A compiler backend, and the devices that run what it compiles.

    `flags` are always given to iree-compile; `arch_flag` takes the architecture, `arch` is the default one ("" leaves
    it to IREE). `device` is the default device URI, `drivers` are the runtime's drivers for such devices. Latencies are
    compared within one `device_kind`; `torch_device` is what PyTorch calls that kind. `allocator_flags` are for
    iree-benchmark-module. `signs` are globs of files that show that a device may be present: a cell that found no
    device is tried again when they change. `opt_level` is the default one. `plugins`: the target plugins of
    iree-compile that it needs. `limit_archs`: architectures for which the programs that measure a device's limits are
    compiled; "" is the default one. `renamed`: its flags that older releases call otherwise, with the release since
    which they have their name, and the name before. `newer_archs`: the release since which it knows an architecture,
    for those that not every release knows.
    """

    name: str
    flags: tuple[str, ...]
    arch_flag: str
    arch: str
    device: str
    drivers: tuple[str, ...]
    device_kind: str
    torch_device: str
    allocator_flags: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    gpu_signs: tuple[str, ...] = ()
    opt_level: str = "O2"
    plugins: tuple[str, ...] = ()
    limit_archs: tuple[str, ...] = ("",)
    renamed: dict[str, tuple[tuple[int, int], str]] = field(default_factory=dict)
    newer_archs: dict[str, tuple[int, int]] = field(default_factory=dict)

    def missing_signs(self, arch: str = "") -> tuple[str, ...]:
        """The signs of a device of this architecture ("": of any), if this machine has none of them; () if there is one, and for a CPU."""
        signs = (arch and self.gpu_signs) or self.signs
        return () if any(map(glob.glob, signs)) else signs


HOST = "host"
"""The architecture of the CPU on which iree-compile runs."""
_DATA_TILING = "--iree-dispatch-creation-data-tiling"
_NO_STRENGTH_REDUCTION = "--disable-lsr"

_NOT_OF_TARGETS = {
    **dict.fromkeys(("help", "help-hidden", "help-list", "help-list-hidden", "version", "iree-hal-list-target-backends", "iree-list-plugins"), "ends the compiler"),
    **dict.fromkeys(("o", "compile-to", "compile-from", "compile-mode", "output-format", "split-input-file", "verify-diagnostics"), "changes what the compiler writes"),
    "iree-opt-level": "is what the key opt_level sets",
    **dict.fromkeys(("iree-hal-target-device", "iree-hal-target-backends", "iree-hal-local-target-device-backends"), "is what the key backend sets"),
}  # fmt: skip
"""Flags of iree-compile that a target cannot have, and why. Those that take an architecture are the backends' own."""

CONSTANTS = ("hal_target_local", "hal_target_llvm_cpu")
"""The plugins that run what can be computed when compiling, for any target (constant evaluation)."""
_DRM, _NVIDIA = "/dev/dri/renderD*", "/dev/nvidia[0-9]*"

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend(
            name="llvm-cpu",
            flags=(
                "--iree-hal-target-device=local",
                "--iree-hal-local-target-device-backends=llvm-cpu",
                # With the default of 32 KiB, BERT and GPT-2 do not compile. The measurement sets the
                # runtime's worker stacks (--task_worker_stack_size) accordingly.
                "--iree-llvmcpu-stack-allocation-limit=262144",
            ),
            arch_flag="--iree-llvmcpu-target-cpu",
            arch=HOST,
            device="local-task",
            drivers=("local-task", "local-sync"),
            device_kind="cpu",
            torch_device="cpu",
            # Without it, calls would include the time of malloc.
            allocator_flags=("--device_allocator=caching",),
            plugins=CONSTANTS,
        ),
        # No allocator flags: Vulkan rejects every parameter with the caching allocator ("cannot
        # allocate a Vulkan buffer …", IREE 3.13).
        Backend(
            name="vulkan",
            flags=("--iree-hal-target-device=vulkan",),
            arch_flag="--iree-vulkan-target",
            arch="",
            device="vulkan",
            drivers=("vulkan",),
            device_kind="vulkan",
            torch_device="vulkan",
            signs=(_DRM, "/usr/share/vulkan/icd.d/*.json", "/etc/vulkan/icd.d/*.json"),
            # Of the drivers for a CPU there is a JSON file alone.
            gpu_signs=(_DRM, _NVIDIA, "/dev/dxg"),
            plugins=(*CONSTANTS, "hal_target_vulkan_spirv"),
            # Without an architecture, products do not use the matrix units of a GPU.
            limit_archs=("", "ada", "rdna3"),
            # Older ones crash after "Unknown Vulkan target".
            newer_archs={"ada": (3, 12)},
        ),
        # No allocator flags: CUDA and HIP have memory pools (--cuda_async_allocations).
        Backend(
            name="cuda",
            flags=("--iree-hal-target-device=cuda",),
            arch_flag="--iree-cuda-target",
            arch="sm_80",
            device="cuda",
            drivers=("cuda",),
            device_kind="cuda",
            torch_device="cuda",
            signs=(_NVIDIA,),
            plugins=(*CONSTANTS, "hal_target_cuda"),
        ),
        Backend(
            name="rocm",
            flags=("--iree-hal-target-device=hip",),
            arch_flag="--iree-rocm-target",
            arch="gfx942",
            device="hip",
            drivers=("hip",),
            device_kind="rocm",
            torch_device="cuda",
            signs=("/dev/kfd", _DRM),
            plugins=(*CONSTANTS, "hal_target_rocm"),
            renamed={"--iree-rocm-target": ((3, 11), "--iree-hip-target")},
        ),
    )
}
"""Every backend by its name."""

INPUT_PLUGINS = {
    "input_torch": ("torch", "tm_tensor"),
    "input_stablehlo": ("stablehlo", "chlo", "vhlo"),
    "input_tosa": ("tosa",),
}
"""The input plugins of iree-compile, with the dialects that each of them adds."""
TARGET_PLUGINS = (
    *("hal_target_cuda", "hal_target_llvm_cpu", "hal_target_local", "hal_target_metal_spirv"),
    *("hal_target_rocm", "hal_target_vmvx", "hal_target_vulkan_spirv"),
)

_CHOOSE_PLUGINS = (
    *("--iree-hal-target", "--iree-hal-local-target", "--iree-plugin", "--iree-load-plugin"),
    "--iree-input-type",
)
"""Starts of flags that name a target, a plugin or the kind of the input."""


def flag_problem(flag: str) -> str:
    """Why a flag cannot be one of a target; "" if it can be as far as this is known."""
    name = flag.partition("=")[0].lstrip("-")
    if name in {backend.arch_flag.lstrip("-") for backend in BACKENDS.values()}:
        return "is what the key arch sets; leave it out"
    why = _NOT_OF_TARGETS.get(name, "")
    return f"{why}; leave it out" if why else ""


def compile_flags(
    backend: str, arch: str | None, opt_level: str | None, extra: Sequence[str]
) -> list[str]:
    """iree-compile flags of a target; `arch` or `opt_level` None or "" is the backend's default."""
    declared = BACKENDS[backend]
    arch = arch or declared.arch
    return [
        *declared.flags,
        *([f"{declared.arch_flag}={arch}"] if arch else []),
        f"--iree-opt-level={opt_level or declared.opt_level}",
        *extra,
        *flags_for_cpu(arch, extra, machine.cpu_vendor()),
    ]


def flags_for_cpu(arch: str, given: Sequence[str], vendor: str) -> list[str]:
    """The flags that make a program faster on a CPU of this vendor. `given`: those of its target, which may say otherwise.

    LLVM's loop strength reduction gives the FMAs of a data-tiled product addresses of a base and an index register. Intel's cores
    split such an FMA into two micro-operations ("unlamination", Intel 64 and IA-32 Architectures Optimization Reference Manual), so
    without that pass programs are up to 1.16 times as fast (docs/performance.md#on-an-intel-xeon).
    """
    names = {flag.partition("=")[0] for flag in given}
    wanted = arch == HOST and vendor == "GenuineIntel" and _DATA_TILING in names
    return [_NO_STRENGTH_REDUCTION] if wanted and _NO_STRENGTH_REDUCTION not in names else []


def release_of(version: str) -> tuple[int, int] | None:
    """Return the release of a version of IREE: (3, 12) of `3.12.0rc20260917`; None if it names none."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def renamed(flags: Sequence[str], release: str) -> list[str]:
    """Return flags in the words of a release of iree-compile (`3.12.0`); "" is the pinned one."""
    number = release_of(release)
    every = (entry for backend in BACKENDS.values() for entry in backend.renamed.items())
    older = {name: before for name, (since, before) in every if number and number < since}
    words = (flag.partition("=") for flag in flags)
    return [
        f"{before}{equals}{value}"
        for name, equals, value in words
        if (before := older.get(name, name))
    ]


def unused_plugins(flags: Sequence[str], program: str) -> list[str]:
    """Return the flags that disable the plugins of iree-compile that a program (its text) does not need.

    The code and the diagnostics stay the same to the byte, but the compiler takes an eighth less time: for each of
    its many canonicalisations it goes through the operations of all dialects. A release ignores the name of a plugin
    that it does not have. `flags`: from compile_flags; [] is returned if they are for several targets, or choose
    plugins or the kind of the input themselves, or if the program names targets.
    """

    def choosing(flags: Sequence[str]) -> list[str]:
        return [flag for flag in flags if flag.startswith(_CHOOSE_PLUGINS)]

    chosen = choosing(flags)
    needed = next((b.plugins for b in BACKENDS.values() if choosing(b.flags) == chosen), None)
    if needed is None or "#hal." in program:
        return []
    inputs = [
        name for name, words in INPUT_PLUGINS.items() if not any(word in program for word in words)
    ]
    unused = [*(name for name in TARGET_PLUGINS if name not in needed), *inputs]
    return [f"--iree-plugin=-{name}" for name in unused]


def driver_of(device: str) -> str:
    """`vulkan` of the device URI `vulkan://0`."""
    return device.split(":", 1)[0]


def runs_on_cpu(device: str) -> bool:
    """Whether a device URI is a CPU device, for which threads can be set."""
    backend = _of_device(device)
    return backend is not None and backend.device_kind == "cpu"


def allocator_flags(device: str) -> list[str]:
    """The allocator flags of iree-benchmark-module for a device URI."""
    backend = _of_device(device)
    return list(backend.allocator_flags) if backend else []


def _of_device(device: str) -> Backend | None:
    """The backend whose modules run on a device URI; None if no backend names the driver."""
    driver = driver_of(device)
    return next((b for b in BACKENDS.values() if driver in b.drivers), None)
