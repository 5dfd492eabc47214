"""backends: everything about a compiler backend comes from its one declaration."""

import pytest
import yaml
from pydantic import TypeAdapter

from scripts.config import expansion, sections, settings
from scripts.core import checkout
from scripts.iree import backends, compile_options, session
from scripts.iree.backends import BACKENDS, Backend
from scripts.iree.compile_options import TargetOptions
from scripts.run import signs
from scripts.supervise.diagnose import diagnose

CONFIG = yaml.safe_load((checkout.ROOT / "config.yaml").read_text(encoding="utf-8"))
PAGE = checkout.ROOT / "docs" / "configuration.md"


@pytest.fixture
def made_up(monkeypatch, tmp_path) -> Backend:
    """A further backend, in the registry and nowhere else."""
    backend = Backend(
        name="metal-spirv",
        flags=("--iree-hal-target-device=metal",),
        arch_flag="--iree-metal-target",
        arch="m2",
        device="metal://0",
        drivers=("metal",),
        device_kind="metal",
        torch_device="mps",
        allocator_flags=("--device_allocator=made-up",),
        signs=(f"{tmp_path}/gpu*",),
        opt_level="O1",
    )
    monkeypatch.setitem(BACKENDS, backend.name, backend)
    return backend


def test_a_backend_is_added_in_one_place(made_up, monkeypatch):
    monkeypatch.setattr(sections, "CONFIGURATION", TypeAdapter(sections.Configuration))
    config = CONFIG | {"targets": {"mac": {"backend": made_up.name}}, "expect": {}}
    declared, selections = settings.load(config, [])
    target = expansion.expand(declared, selections, checkout.ROOT).targets["mac"]
    assert (target.arch, target.opt_level, target.device) == ("m2", "O1", "metal://0")
    assert target.device_kind == "metal"


def test_a_backend_that_is_added_has_its_flags_in_every_command(made_up):
    flags = TargetOptions(backend=made_up.name).compiler_flags()
    assert flags == [
        "--iree-hal-target-device=metal",
        "--iree-metal-target=m2",
        "--iree-opt-level=O1",
    ]
    assert backends.allocator_flags("metal://1") == ["--device_allocator=made-up"]
    assert session.runtime_flags("metal://1", 4) == []


def test_what_failed_is_due_again_when_a_device_of_the_backend_appears(made_up, tmp_path):
    signs._machine_signs.cache_clear()
    before = signs._machine_signs()
    (tmp_path / "gpu0").touch()
    signs._machine_signs.cache_clear()
    try:
        assert signs._machine_signs() != before
    finally:
        signs._machine_signs.cache_clear()


@pytest.mark.parametrize(
    ("backend", "arch", "opt_level", "extra", "expected"),
    [
        ("vulkan", "", None, [], ["--iree-hal-target-device=vulkan", "--iree-opt-level=O2"]),
        ("cuda", None, "O3", ["--a"], ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", "--iree-opt-level=O3", "--a"]),
        ("rocm", "gfx1100", "", [], ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx1100", "--iree-opt-level=O2"]),
    ],
)  # fmt: skip
def test_a_target_overrides_the_defaults_of_its_backend(backend, arch, opt_level, extra, expected):
    assert backends.compile_flags(backend, arch, opt_level, extra) == expected


@pytest.mark.parametrize(
    ("device", "on_cpu"),
    [("local-task", True), ("local-sync://", True), ("vulkan://0", False), ("hip", False), ("odd", False)],
)  # fmt: skip
def test_threads_and_the_caching_allocator_are_of_cpu_devices(device, on_cpu):
    assert backends.runs_on_cpu(device) == on_cpu
    assert backends.allocator_flags(device) == ["--device_allocator=caching"] * on_cpu
    assert bool(session.runtime_flags(device, 2)) == on_cpu


def test_every_backend_has_a_driver_of_its_own_and_runs_on_it():
    drivers = [driver for backend in BACKENDS.values() for driver in backend.drivers]
    assert len(set(drivers)) == len(drivers)
    for backend in BACKENDS.values():
        assert backends.driver_of(backend.device) in backend.drivers
        assert backend.opt_level in backends.OPT_LEVELS


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda backend: backend.name)
def test_the_page_of_the_configuration_has_the_defaults_of_every_backend(backend):
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("## targets")[2].partition("## ")[0]
    for default in filter(None, (backend.name, backend.arch, backend.device, backend.opt_level)):
        assert f"`{default}`" in table


@pytest.mark.parametrize("name", BACKENDS)
def test_the_plugins_of_other_targets_and_inputs_are_unused(name):
    flags = backends.compile_flags(name, None, None, ("--iree-hal-memoization=false",))
    unused = backends.unused_plugins(flags, "func.func @main() { linalg.fill tm_tensor.scan }")
    disabled = {flag.removeprefix("--iree-plugin=-") for flag in unused}
    known = {*backends.TARGET_PLUGINS, *backends.INPUT_PLUGINS}
    assert disabled == known - {*BACKENDS[name].plugins, "input_torch"}


@pytest.mark.parametrize(
    "more",
    [
        "--iree-hal-target-device=cuda",
        "--iree-hal-local-target-device-backends=vmvx",
        "--iree-plugin=mine",
        "--iree-load-plugin=mine.so",
        "--iree-input-type=stablehlo",
    ],
)
def test_no_plugin_is_unused_if_the_flags_choose_targets_plugins_or_the_input(more):
    flags = backends.compile_flags("llvm-cpu", None, None, (more,))
    assert backends.unused_plugins(flags, "") == []


def test_no_plugin_is_unused_if_the_program_names_a_target():
    flags = backends.compile_flags("llvm-cpu", None, None, ())
    assert backends.unused_plugins(flags, 'module attributes {d = #hal.device.target<"x">}') == []


@pytest.mark.parametrize(
    ("release", "flag"),
    [
        ("", "--iree-rocm-target=gfx942"),
        ("3.13.0rc20261016", "--iree-rocm-target=gfx942"),
        ("3.11.0", "--iree-rocm-target=gfx942"),
        ("3.10.0", "--iree-hip-target=gfx942"),
        ("3.8.0", "--iree-hip-target=gfx942"),
    ],
)
def test_a_flag_is_written_as_the_release_of_the_compiler_calls_it(release, flag):
    flags = backends.compile_flags("rocm", None, None, ("--a=--b=c",))
    found = backends.renamed(flags, release)
    assert flag in found
    assert [f for f in found if f != flag] == [f for f in flags if not f.startswith("--iree-rocm")]


@pytest.mark.parametrize(
    ("release", "arch", "fails"),
    [("3.11.0", "ada", True), ("3.12.0", "ada", False), ("3.11.0", "ampere", False)],
)
def test_an_architecture_that_the_release_does_not_know_is_an_error_of_its_own(
    monkeypatch, capsys, release, arch, fails
):
    monkeypatch.setattr(compile_options.tools, "tool", str)
    monkeypatch.setattr(compile_options.tools, "release", lambda compiler: release)
    target = TargetOptions(backend="vulkan", arch=arch, toolchain="old")
    if not fails:
        assert f"--iree-vulkan-target={arch}" in target.compiler_flags()
        return
    with pytest.raises(SystemExit):
        target.compiler_flags()
    found = diagnose(1, capsys.readouterr().err)
    assert (found.status, found.reason) == ("error", "unknown-target")
    assert "since 3.12, the toolchain old has 3.11.0" in found.detail


def test_data_tiled_products_have_pointers_on_intel_alone():
    tiled = ["--iree-dispatch-creation-data-tiling"]
    flags_for_cpu = backends.flags_for_cpu
    assert flags_for_cpu("host", tiled, "GenuineIntel") == ["--disable-lsr"]
    assert flags_for_cpu("host", [f"{tiled[0]}=true"], "GenuineIntel") == ["--disable-lsr"]
    assert flags_for_cpu("host", [], "GenuineIntel") == []
    assert flags_for_cpu("host", tiled, "AuthenticAMD") == []
    assert flags_for_cpu("znver4", tiled, "GenuineIntel") == []
    assert flags_for_cpu("host", [*tiled, "--disable-lsr=false"], "GenuineIntel") == []
