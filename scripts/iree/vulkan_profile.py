"""Check that a Vulkan device supports the profile that a module was compiled for.

A Vulkan target (`--iree-vulkan-target=ada`) is a profile: the types, subgroup sizes and matrix operations that the
compiler may use. If a module needs more than the device supports, IREE's runtime may refuse it, or run it with
undefined results. So the profile is checked before the module is loaded.

The profile is read from the text of the compiler's `#iree_gpu.target` attribute, which the module contains for its
error messages. The features of the device are read from the output of `iree-run-module --dump_devices`. Limits that are
not in that output (shared memory, workgroup sizes) are not checked.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.iree.backends import driver_of
from scripts.iree.tools import tool

DRIVER = "vulkan"
_ATTRIBUTE = b"#iree_gpu.target<"
_ATTRIBUTE_CHARS = 16_384
"""Longer than any such attribute of IREE 3.13."""


def lacking(vmfb: Path, device: str, path: str) -> str:
    """Return as text which features of a module's profile a device lacks; "" if it lacks none.

    `device`: a device URI of IREE's runtime, for any driver. `path`: the path of the device, as its driver lists it.
    """
    if driver_of(device) != DRIVER:
        return ""
    module = vmfb.read_bytes()
    start = module.find(_ATTRIBUTE)
    if start < 0:
        return ""
    text = module[start : start + _ATTRIBUTE_CHARS].split(b"\0", 1)[0].decode("utf-8", "replace")
    missing = ", ".join(_missing(text, features(_dump(), path)))
    name = re.search(r'\barch = "([^"]*)"', text)
    return f"{missing} (profile {name[1] if name else ''})" if missing else ""


def features(dump: str, path: str) -> dict[str, str]:
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
            f"--dump_devices={DRIVER} has no features of {path!r}; it has {list(by_path)}"
        )
    return by_path[path]


def _missing(profile: str, has: Mapping[str, str]) -> Iterator[str]:
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


def _dump() -> str:
    """Return the runtime's description of all Vulkan devices."""
    command = [tool("iree-run-module"), f"--dump_devices={DRIVER}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
