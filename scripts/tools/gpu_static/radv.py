"""Print what RADV, Mesa's Vulkan driver of AMD's GPUs, says of the code that it makes of the SPIR-V in a module of IREE: a line of JSON per dispatch.

It needs no GPU: RADV_FORCE_FAMILY gives a device without hardware, and VK_KHR_pipeline_executable_properties the statistics of a pipeline. The driver ends the process
if it cannot compile a module, so this is a process of its own. Numbers are those of the Vulkan and SPIR-V specifications.
"""

from __future__ import annotations

import ctypes
import json
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.core import process
from scripts.core.checkout import ROOT

FAMILY = "navi21"
"""The GPU for which code is made: RDNA 2, such as a Radeon RX 6800 XT. Mesa 22.3 knows cooperative matrices on no GPU."""
DRIVERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")
LIMIT_S = 120.0
_MAGIC = struct.pack("<I", 0x07230203)
_ENTRY = re.compile(rb"\x0f\0..\x05\0\0\0....([\w$.]+)\0", re.DOTALL)
_BINDINGS, _CONSTANTS = 16, 128
"""Storage buffers that a module may have, and bytes of its push constants."""
_COMPUTE, _CAPTURE_STATISTICS = 0x20, 0x40


def statistics(vmfb: Path) -> dict[str, dict[str, int]]:
    """The statistics of each dispatch, by its name, up to a module that the driver cannot compile. {} without the driver."""
    drivers = (path for folder in DRIVERS for path in Path(folder).glob("radeon_icd*.json"))
    if (driver := next(drivers, None)) is None:
        return {}
    variables = (f"VK_ICD_FILENAMES={driver}", f"RADV_FORCE_FAMILY={FAMILY}", f"PYTHONPATH={ROOT}")
    try:
        done = process.captured(["env", *variables, sys.executable, "-m", __name__, vmfb], timeout_s=LIMIT_S)  # fmt: skip
    except subprocess.TimeoutExpired:
        return {}
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def modules(vmfb: Path) -> Iterator[bytes]:
    """The SPIR-V modules of a module of IREE. In its flatbuffers, the number of words is before the words."""
    with zipfile.ZipFile(vmfb) as archive:
        for name in archive.namelist():
            data, at = archive.read(name), -1
            while (at := data.find(_MAGIC, at + 1)) >= 0:
                yield data[at : at + 4 * struct.unpack_from("<I", data, at - 4)[0]]


class _Driver:
    """A device of the driver, in which pipelines are made."""

    def __init__(self) -> None:
        self._library, self._kept = ctypes.CDLL("libvulkan.so.1"), list[Any]()
        application = self._struct(0, "PIPII", 0, 0, 0, 0, (1 << 22) | (3 << 12))
        instance = self._made("vkCreateInstance", self._struct(1, "IPIPIP", 0, application, 0, 0, 0, 0), None)  # fmt: skip
        count, device = ctypes.c_uint32(1), ctypes.c_uint64()
        self._library.vkEnumeratePhysicalDevices(ctypes.c_uint64(instance), ctypes.byref(count), ctypes.byref(device))  # fmt: skip
        queue = self._struct(2, "IIIP", 0, 0, 1, self._bytes(struct.pack("f", 1.0)))
        extension = self._bytes(struct.pack("P", self._bytes(b"VK_KHR_pipeline_executable_properties\0")))  # fmt: skip
        wanted = self._struct(3, "IIPIPIPP", 0, 1, queue, 0, 0, 1, extension, 0)
        self._device = ctypes.c_uint64(self._made("vkCreateDevice", device, wanted, None))
        slots = b"".join(struct.pack("IIIIP", at, 7, 1, _COMPUTE, 0) for at in range(_BINDINGS))
        sets = self._of_device("vkCreateDescriptorSetLayout", 32, "IIP", 0, _BINDINGS, self._bytes(slots))  # fmt: skip
        constants = self._bytes(struct.pack("III", _COMPUTE, 0, _CONSTANTS))
        self._layout = self._of_device("vkCreatePipelineLayout", 30, "IIPIP", 0, 1, self._bytes(struct.pack("Q", sets)), 1, constants)  # fmt: skip
        self._library.vkGetDeviceProcAddr.restype = ctypes.c_void_p
        address = self._library.vkGetDeviceProcAddr(self._device, b"vkGetPipelineExecutableStatisticsKHR")  # fmt: skip
        self._read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, *[ctypes.c_void_p] * 3)(address)  # fmt: skip

    def statistics(self, module: bytes) -> tuple[str, dict[str, int]]:
        """The name of the entry point of a SPIR-V module, and the statistics of its pipeline."""
        entry = _ENTRY.search(module)
        name = entry[1] if entry else b"main"
        shader = self._of_device("vkCreateShaderModule", 16, "INP", 0, len(module), self._bytes(module))  # fmt: skip
        stage = (18, 0, 0, _COMPUTE, shader, self._bytes(name + b"\0"), 0)
        wanted = self._struct(29, "I4xIPIIQPPQQi", _CAPTURE_STATISTICS, *stage, self._layout, 0, -1)
        pipeline = self._made("vkCreateComputePipelines", self._device, ctypes.c_uint64(0), 1, wanted, None)  # fmt: skip
        of_first, count = self._struct(1000269003, "QI", pipeline, 0), ctypes.c_uint32()
        self._read(self._device, of_first, ctypes.addressof(count), None)
        into = ctypes.create_string_buffer(struct.pack("IP528x", 1000269004, 0) * count.value)
        self._read(self._device, of_first, ctypes.addressof(count), ctypes.addressof(into))
        statistics = (into.raw[544 * at : 544 * (at + 1)] for at in range(count.value))
        return name.decode(), {raw[16:272].split(b"\0")[0].decode(): struct.unpack_from("<Q", raw, 536)[0] for raw in statistics}  # fmt: skip

    def _bytes(self, data: bytes) -> int:
        """The address of a copy that stays."""
        self._kept.append(ctypes.create_string_buffer(data, len(data)))
        return ctypes.addressof(self._kept[-1])

    def _struct(self, kind: int, layout: str, *values: Any) -> int:
        """The address of a structure of Vulkan: its type, no extension, and its fields."""
        return self._bytes(struct.pack(f"IP{layout}0P", kind, 0, *values))

    def _of_device(self, function: str, kind: int, layout: str, *values: Any) -> int:
        return self._made(function, self._device, self._struct(kind, layout, *values), None)

    def _made(self, function: str, *arguments: Any) -> int:
        """The handle of what a function of Vulkan makes. Raises OSError."""
        handle = ctypes.c_uint64()
        given = [ctypes.c_void_p(a) if isinstance(a, int) and a > 1 else a for a in arguments]
        if result := getattr(self._library, function)(*given, ctypes.byref(handle)):
            raise OSError(f"{function}: VkResult {result}")
        return handle.value


if __name__ == "__main__":
    driver = _Driver()
    for spirv in modules(Path(sys.argv[1])):
        print(json.dumps(driver.statistics(spirv)), flush=True)
