"""A compiled module with its parameters: called from Python to verify it, and as the command line and inputs of iree-benchmark-module to time it.

Whether a Vulkan device has what a module was compiled for is checked before (lacking_of_profile).
"""

from __future__ import annotations

import functools
import gc
import hashlib
import mmap
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import atomic, tensors
from scripts.core.dimensions import Dimension, problems
from scripts.core.machine import cpu_name
from scripts.core.tensors import PARAMETER_SCOPE
from scripts.iree.backends import allocator_flags, driver_of, runs_on_cpu
from scripts.iree.tools import tool

_VULKAN = "vulkan"
_ATTRIBUTE = b"#iree_gpu.target<"
_ATTRIBUTE_CHARS = 16_384
"""Longer than any such attribute of IREE 3.13."""


@dataclass(frozen=True)
class Module:
    """A function of a compiled module, and the device URI on which it runs. `weights`: the archive of the
    weights that the module loads, or None. `dimensions`: those of its inputs that are open."""

    vmfb: Path
    weights: Path | None
    device: str
    function: str = "main"
    dimensions: tuple[Dimension, ...] = ()


class WrongSizes(ValueError):
    """The inputs of a call have sizes that the program is not for. Says which, and what was expected."""


class NoDevice(Exception):
    """The runtime does not have this driver or device. Contains the driver's message."""


def runtime_flags(device: str, threads: int) -> list[str]:
    """Flags for both iree-benchmark-module and the Python runtime, so that both run alike.

    Worker stacks have 1 MiB, because modules may use up to the stack limit of their compilation.
    """
    if not runs_on_cpu(device):
        return []
    return [f"--task_topology_max_group_count={threads}", "--task_worker_stack_size=1048576"]


def device_info(device: str, threads: int) -> dict[str, Any]:
    """The driver's information about the device: `name`, `path`. Raises NoDevice if this machine does not have it.
    `threads`: of the sessions that follow, because a driver reads its flags when it is first used."""
    import iree.runtime as rt

    rt.flags.parse_flags(*runtime_flags(device, threads))
    driver = driver_of(device)
    if driver not in (known := rt.query_available_drivers()):
        raise NoDevice(f"this IREE has no driver {driver!r} (it has {', '.join(known)})")
    try:
        devices = rt.get_driver(driver).query_available_devices()
        if not devices:
            raise NoDevice(f"driver {driver!r} lists no device")
        if runs_on_cpu(device):
            return {**devices[0], "name": cpu_name()}
        _, _, wanted = device.partition("://")
        if wanted.isdigit() and int(wanted) < len(devices):
            return devices[int(wanted)]
        return next((d for d in devices if d["path"] == wanted), devices[0])
    except (RuntimeError, ValueError) as error:
        # "<source line>; <what is missing>; please …: Tried: <each path>"
        missing = str(error).split("; ")[1:2] or [str(error)]
        raise NoDevice(" ".join(missing[0].split())) from error


class Session:
    """One loaded module and one of its functions. `load_s`: seconds to load the module and upload the
    weights. All sessions of a process have the threads of the first use of their driver."""

    def __init__(
        self, module: Module, threads: int, held: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """`held`: weights (bytes by name) in place of those of the archive."""
        import iree.runtime as rt

        self._rt, self._dimensions = rt, module.dimensions
        rt.flags.parse_flags(*runtime_flags(module.device, threads))
        start = time.perf_counter()
        driver = rt.get_driver(module.device)
        allocators = [flag.partition("=")[2] for flag in allocator_flags(module.device)]
        self._device = driver.create_device_by_uri(module.device, allocators)
        instance = rt.VmInstance()
        modules = _modules(instance, self._device, module.vmfb, module.weights, held)
        self._context = rt.SystemContext(vm_modules=modules, config=rt.Config(device=self._device))
        self._function = self._context.modules[modules[-1].name][module.function]
        self._entry = modules[-1].lookup_function(module.function)
        self.load_s = time.perf_counter() - start

    def call(self, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
        """Run the function once: the outputs on the host, and the seconds from host inputs to host outputs. Raises WrongSizes."""
        self._check_sizes(inputs)
        start = time.perf_counter()
        results = self._function(*inputs)  # the computation is finished when this returns
        if not isinstance(results, tuple | list):
            results = (results,)
        outputs = [self._to_host(result) for result in results]
        return outputs, time.perf_counter() - start

    def uploaded(self, inputs: Sequence[np.ndarray]) -> Callable[[], object]:
        """A function that calls `main` on inputs on the device and leaves the results there, as
        iree-benchmark-module does. Raises WrongSizes."""
        self._check_sizes(inputs)
        rt = self._rt
        placed = [rt.asdevicearray(self._device, array) for array in inputs]
        arguments = rt.VmVariantList(len(placed))
        for array in placed:
            arguments.push_ref(array._buffer_view)
        # What function(*placed) does, without looking at its arguments and results again: that takes 0.03 ms.
        return _call_of(rt, self._context.vm_context, self._entry, arguments)

    def _check_sizes(self, inputs: Sequence[np.ndarray]) -> None:
        shapes = [array.shape for array in inputs]
        if wrong := list(problems(self._dimensions, shapes)):
            raise WrongSizes("; ".join(wrong))

    def close(self) -> None:
        """Free the module and the weights on the device. The session cannot be used after it.

        The objects of IREE's Python bindings refer to each other, so that only the garbage collector frees them (IREE
        3.13: ten sessions of a model of 475 MB held 9 GB).
        """
        del self._function, self._entry, self._context, self._device
        gc.collect()

    def _to_host(self, array) -> np.ndarray:
        """Copy to the host through a staging buffer of the device.

        DeviceArray.to_host() imports numpy's memory instead, which Vulkan rejects if it is not
        page-aligned ("minImportedHostPointerAlignment", IREE 3.13).
        """
        rt = self._rt
        view = array._buffer_view
        source = view.get_buffer()
        staging = self._device.allocator.allocate_buffer(
            memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
            allocation_size=source.byte_length(),
        )
        done = self._device.create_semaphore(0)
        self._device.queue_copy(
            source,
            staging,
            wait_semaphores=rt.HalFence.create_at(done, 0),
            signal_semaphores=rt.HalFence.create_at(done, 1),
        )
        rt.HalFence.create_at(done, 1).wait()
        dtype = rt.HalElementType.map_to_dtype(view.element_type)
        return np.array(staging.map().asarray(view.shape, dtype))


def _modules(
    instance: Any,
    device: Any,
    vmfb: Path,
    weights: Path | None,
    held: Mapping[str, np.ndarray] | None = None,
) -> list[Any]:
    """What the context of a program has: the module with its weights, if there is an archive of them, the runtime's own,
    and its own, the last one. `held`: see Session."""
    import iree.runtime as rt

    # VmModule.mmap opens the file for writing too.
    with vmfb.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    hal, program = rt.create_hal_module(instance, device), rt.VmModule.wrap_buffer(instance, mapped)
    if weights is None:
        return [hal, program]
    index = rt.ParameterIndex()
    if not held:
        index.load(str(weights))
    else:
        for name, data in {**tensors.read_archive(weights), **held}.items():
            index.add_buffer(tensors.archive_key(name), np.ascontiguousarray(data))
    provider = index.create_provider(scope=PARAMETER_SCOPE)
    return [rt.create_io_parameters_module(instance, provider), hal, program]


def load_command(flags: Sequence[str]) -> Callable[[], object]:
    """A function that makes one call as iree-benchmark-module does with these flags, on inputs on the device.

    `flags`: those of `run.command` of a row: one module, one archive of parameters at most, inputs as raw files.
    Options of the benchmark itself are left out.
    """
    import iree.runtime as rt

    given: dict[str, str] = {}
    inputs: list[str] = []
    others: list[str] = []
    for flag in flags:
        name, _, value = flag.partition("=")
        if name == "--input":
            inputs.append(value)
        elif name in ("--module", "--function", "--device", "--device_allocator", "--parameters"):
            given[name] = value
        elif not name.startswith("--benchmark_"):
            others.append(flag)
    rt.flags.parse_flags(*others)
    device = _device(given["--device"], given.get("--device_allocator"))
    instance = rt.VmInstance()
    weights = given.get("--parameters", "").removeprefix(f"{PARAMETER_SCOPE}=")
    vmfb = Path(given["--module"])
    modules = _modules(instance, device, vmfb, Path(weights) if weights else None)
    context = rt.VmContext(instance, modules)
    function = modules[-1].lookup_function(given["--function"])
    arguments = rt.VmVariantList(len(inputs))
    for text in inputs:
        arguments.push_ref(_uploaded(rt, device, text))
    return _call_of(rt, context, function, arguments)


def _call_of(rt: Any, context: Any, function: Any, arguments: Any) -> Callable[[], object]:
    """A function that calls a function of a module on arguments on the device, and leaves the results there."""

    def call() -> object:
        results = rt.VmVariantList(1)
        context.invoke(function, arguments, results)
        return results

    return call


@functools.cache
def _device(uri: str, allocator: str | None) -> Any:
    """The device of all programs of this process. It outlives them: buffers that are freed after their device crash the
    process (IREE 3.13)."""
    import iree.runtime as rt

    return rt.get_driver(uri).create_device_by_uri(uri, [allocator] if allocator else None)


_ELEMENTS = {
    "f64": ("FLOAT_64", 8),
    "f32": ("FLOAT_32", 4),
    "f16": ("FLOAT_16", 2),
    "bf16": ("BFLOAT_16", 2),
    "i64": ("INT_64", 8),
    "i32": ("INT_32", 4),
    "i16": ("INT_16", 2),
    "i8": ("INT_8", 1),
}
"""By the element of a type in a command line: the name of the runtime's element type, and its bytes."""


def _uploaded(rt: Any, device: Any, text: str) -> Any:
    """A buffer view on the device of an input such as `1x3x64x64xf32=@file`."""
    kind, _, path = text.partition("=@")
    *shape, element = kind.split("x")
    array = np.fromfile(path, np.uint8)
    hal, size = _ELEMENTS[element]
    view = array.view(f"u{size}").reshape([int(length) for length in shape])
    return device.allocator.allocate_buffer_copy(
        memory_type=rt.MemoryType.DEVICE_LOCAL,
        allowed_usage=rt.BufferUsage.DEFAULT,
        device=device,
        buffer=view,
        element_type=getattr(rt.HalElementType, hal),
    )


def lacking_of_profile(vmfb: Path, device: str, path: str) -> str:
    """Return as text which features of a module's Vulkan profile a device lacks; "" if it lacks none.

    A Vulkan target (`--iree-vulkan-target=ada`) is a profile: the types, subgroup sizes and matrix operations that the
    compiler may use. If a module needs more than the device supports, IREE's runtime may refuse it, or run it with
    undefined results. The profile is read from the text of the compiler's `#iree_gpu.target` attribute, which the module has
    for its error messages, and the features of the device from `iree-run-module --dump_devices`. Limits that are not in
    that output (shared memory, workgroup sizes) are not checked.

    `device`: a device URI of IREE's runtime, for any driver. `path`: the path of the device, as its driver lists it.
    """
    if driver_of(device) != _VULKAN:
        return ""
    module = vmfb.read_bytes()
    start = module.find(_ATTRIBUTE)
    if start < 0:
        return ""
    text = module[start : start + _ATTRIBUTE_CHARS].split(b"\0", 1)[0].decode("utf-8", "replace")
    missing = ", ".join(_missing_features(text, vulkan_features(_vulkan_dump(), path)))
    name = re.search(r'\barch = "([^"]*)"', text)
    return f"{missing} (profile {name[1] if name else ''})" if missing else ""


def vulkan_features(dump: str, path: str) -> dict[str, str]:
    """Return the features and subgroup sizes of the device at `path`.

    `dump`: the output of the tool for all devices. Raises ValueError if this device is not in it.
    """
    by_path: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in dump.splitlines():
        key, _, value = line.partition(": ")
        if key == "path":
            current = by_path.setdefault(value.strip(), {})
        elif key in ("features", "subgroup"):
            current |= dict(re.findall(r"(\w+)=(\S+)", value))
    if not by_path.get(path):
        raise ValueError(
            f"--dump_devices={_VULKAN} has no features of {path!r}; it has {list(by_path)}"
        )
    return by_path[path]


def _missing_features(profile: str, has: Mapping[str, str]) -> Iterator[str]:
    """Yield the features of a profile (its text) that the device lacks. Features that the tool does not list are not
    checked."""

    def words(key: str) -> set[str]:
        listed = re.search(rf"\b{key} =\s+([\w|]+)", profile)
        return set(listed[1].split("|")) if listed else set()

    wanted = {
        "shaderFloat16": "fp16" in words("compute"),
        "shaderInt8": "int8" in words("compute"),
        "storageBuffer16BitAccess": "b16" in words("storage"),
        "storageBuffer8BitAccess": "b8" in words("storage"),
        "shaderIntegerDotProduct": bool(words("dot") - {"none"}),
        "cooperativeMatrix": bool(re.search(r"\bmma = \[\s*<", profile)),
    }
    listed = re.search(r"\bsubgroup_size_choices = \[([\d, ]+)\]", profile)
    if listed and words("subgroup") - {"none"}:
        choices = [int(size) for size in listed[1].split(",")]
        low, high = (
            int(has.get(key, has["size"])) for key in ("minSubgroupSize", "maxSubgroupSize")
        )
        if not any(low <= size <= high for size in choices):
            sizes = " or ".join(map(str, choices))
            there = f"{low}" if low == high else f"{low} to {high}"
            yield f"subgroups of {sizes} (it has {there})"
    for feature, is_wanted in wanted.items():
        if is_wanted and has.get(feature) == "no":
            yield feature


def _vulkan_dump() -> str:
    command = [tool("iree-run-module"), f"--dump_devices={_VULKAN}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


LINKS = Path("results/cache/modules")
"""The folder of links to modules, in the working folder of a run. They are kept, because recorded commands name them."""
_TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def command_line(module: Module, inputs: Sequence[str], threads: int) -> list[str]:
    """The command line of the tool that times a module, with `inputs` as the flags of `write_inputs`."""
    return [
        tool("iree-benchmark-module"),
        f"--module={openable(module.vmfb)}",
        *([f"--parameters={PARAMETER_SCOPE}={module.weights}"] if module.weights else []),
        f"--function={module.function}",
        f"--device={module.device}",
        *runtime_flags(module.device, threads),
        *allocator_flags(module.device),
        *inputs,
    ]


def openable(module: Path) -> Path:
    """The path by which IREE's tools can open a module: its own, or that of a link to it if its own has an `@`.

    `--module=<path>@<symbol>` names a symbol of a dynamic library (IREE 3.13, tooling/context_util.c), so the tools
    cut every path at its first `@`, and cells of toolchains have one in the names of their folders.
    """
    if "@" not in str(module):
        return module
    digest = hashlib.sha256(str(module).encode()).hexdigest()[:12]
    link = LINKS / f"{digest}-{module.name}"
    wanted = os.path.relpath(module, LINKS)
    if not link.is_symlink() or os.readlink(link) != wanted:
        LINKS.mkdir(parents=True, exist_ok=True)
        scratch = link.with_name(f"{link.name}.{os.getpid()}")
        scratch.symlink_to(wanted)
        scratch.replace(link)
    return link


def write_inputs(
    folder: Path, arrays: Sequence[np.ndarray], types: Sequence[tensors.TensorType]
) -> list[str]:
    """Write the inputs as raw bytes into `folder`; return the flags of the tool that name them.

    The files are kept, so that the recorded command can be repeated by hand.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flags = []
    for number, (array, kind) in enumerate(zip(arrays, types, strict=True)):
        raw = folder / f"{number}.bin"
        array.tofile(raw)
        flags.append(f"--input={kind.iree}=@{raw}")
    return flags


class BenchmarkError(Exception):
    """The benchmark reported an error or no measurement."""


def read_ms(path: str | Path) -> list[float]:
    """The milliseconds per call of all repetitions of the benchmark in a file, in the order in which they ran.

    Aggregates are recognized by `run_type` and left out, because their position in the list differs
    between versions. Raises BenchmarkError for `error_occurred`, if there is no repetition, and for
    repetitions of more than one benchmark.
    """
    rows = [row for row in atomic.read_json(path)["benchmarks"] if row["run_type"] == "iteration"]
    for row in rows:
        if row.get("error_occurred"):
            raise BenchmarkError(f"{row['name']}: {row.get('error_message', 'error')}")
    names = {row["run_name"] for row in rows}
    if len(names) != 1:
        raise BenchmarkError(
            f"{path}: expected repetitions of one benchmark, found {sorted(names) or 'none'}"
        )
    rows.sort(key=lambda row: row["repetition_index"])
    return [row["real_time"] * _TO_MS[row["time_unit"]] for row in rows]


def raw_inputs(stored: Path, signature: Path, folder: Path) -> list[str]:
    """Write the inputs of a reference (its inputs.npz and signature.json) as raw bytes into a folder; the flags of the
    tool that name them."""
    types = tensors.Signature.read(signature).inputs
    values = tensors.load_npz(stored)
    arrays = [tensors.as_native(values[str(i)], kind.dtype) for i, kind in enumerate(types)]
    return write_inputs(folder, arrays, types)
