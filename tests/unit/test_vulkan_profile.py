"""session: the Vulkan profile of a module, and the features of it that a device lacks."""

from pathlib import Path

import pytest

from scripts.iree import session

BASELINE = (
    '#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", '
    '{iree_codegen.target_info = #iree_gpu.target<arch = "vp_android_baseline_2022", '
    'features = "spirv:v1.3,cap:Shader", wgp = <compute = fp32|int32, storage = b32, subgroup = none, '
    "subgroup_size_choices = [64], max_workgroup_sizes = [128, 128, 64], "
    "max_thread_count_per_workgroup = 128, max_workgroup_memory_bytes = 16384>>}>]>"
)
DESKTOP = (
    '#iree_gpu.target<arch = "sm_89", features = "spirv:v1.6,cap:Shader", wgp = <compute =  '
    "fp64|fp32|fp16|int64|int32|int16|int8, storage =  b64|b32|b16|b8, subgroup =  shuffle|arithmetic, "
    "dot =  dp4xi8toi32, mma = [<NV_WMMA_F32_16x16x16_F16>, <NV_WMMA_F16_16x16x16_F16>], "
    "subgroup_size_choices = [32], max_workgroup_memory_bytes = 49152>>"
)
DUMP = """\
# Enumerated devices for driver 'vulkan'

name: A GPU
path: GPU-1
features: shaderInt8=yes shaderFloat16=yes shaderIntegerDotProduct=yes cooperativeMatrix=yes \
storageBuffer8BitAccess=yes storageBuffer16BitAccess=yes subgroupSizeControl=yes
subgroup: size=64 operations=0x000000ff minSubgroupSize=32 maxSubgroupSize=64
memory_heaps: 1
  [0] size=16709287936 flags=0x00000001

name: A CPU (LLVM 15.0.6, 256 bits)
path: GPU-2
features: shaderInt8=yes shaderFloat16=no shaderIntegerDotProduct=yes cooperativeMatrix=no \
storageBuffer8BitAccess=yes storageBuffer16BitAccess=yes subgroupSizeControl=yes
subgroup: size=8 operations=0x000000ff minSubgroupSize=8 maxSubgroupSize=8
"""


@pytest.fixture
def lacking(tmp_path, monkeypatch):
    """Return what a device lacks for a module that contains a profile's text among other bytes."""
    monkeypatch.setattr(session, "_vulkan_dump", lambda: DUMP)

    def of(text: str, path: str, device: str = "vulkan") -> str:
        vmfb = Path(tmp_path / "m.vmfb")
        vmfb.write_bytes(b"\x00\xffHAL device not found: " + text.encode() + b"\x00\xfe[1]")
        return session.lacking_of_profile(vmfb, device, path)

    return of


def test_a_device_that_has_the_profile_lacks_nothing(lacking):
    assert lacking(DESKTOP, "GPU-1") == ""
    assert lacking(BASELINE, "GPU-1") == lacking(BASELINE, "GPU-2") == ""


def test_everything_that_a_device_lacks_is_named_with_the_profile(lacking):
    assert lacking(DESKTOP, "GPU-2") == (
        "subgroups of 32 (it has 8), shaderFloat16, cooperativeMatrix (profile sm_89)"
    )
    other = DESKTOP.replace("[32]", "[16, 128]")
    assert lacking(other, "GPU-1") == "subgroups of 16 or 128 (it has 32 to 64) (profile sm_89)"


def test_subgroups_do_not_matter_to_a_module_that_uses_none(lacking):
    assert "subgroups" not in lacking(DESKTOP.replace("shuffle|arithmetic", "none"), "GPU-2")


def test_a_module_that_does_not_say_its_profile_and_other_drivers_are_left_to_the_runtime(lacking):
    assert lacking("no target", "GPU-2") == ""
    assert lacking(DESKTOP, "GPU-2", "cuda") == ""


def test_a_device_that_is_not_in_the_dump_is_an_error_that_says_which_are(lacking):
    with pytest.raises(ValueError, match=r"no features of 'GPU-3'; it has \['GPU-1', 'GPU-2'\]"):
        lacking(DESKTOP, "GPU-3")
