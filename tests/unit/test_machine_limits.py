"""machine_limits: what a device can do at most, and the share of it that a program reaches."""

import dataclasses
import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from scripts.iree.backends import BACKENDS
from scripts.iree.session import Module
from scripts.measure.timing import machine_limits
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample
from scripts.tools.limits import measure_machine_limits

TRIADS = (
    Sample(TRIAD, "torch", "f32", 3 * 10**9, (0.2, 0.1, 0.11)),
    Sample(TRIAD, "iree", "f32", 3 * 10**9, (0.12, 0.125)),
)
SMALL = (
    Sample(TRIAD, "torch", "f32", 10**6, (1e-5,)),
    Sample(TRIAD, "torch", "f32", 10**8, (2e-3,)),
)
PRODUCTS = (
    Sample(PRODUCT, "torch", "f32", 1000, (0.02, 0.02)),
    Sample(PRODUCT, "iree", "f32", 1000, (0.01, 0.01)),
    Sample(PRODUCT, "torch", "bf16", 1000, (0.005,)),
)
LIMITS = MachineLimits(
    "cpu", "A CPU", 2, 1.5, (*SMALL, *TRIADS, *PRODUCTS), {"torch": "2.15"}, ("busy",)
)


def test_the_limit_is_that_of_the_fastest_call_through_whatever_is_fastest():
    assert LIMITS.gb_per_s == pytest.approx(30.0)
    assert LIMITS.gflop_per_s("f32") == pytest.approx(200.0)
    assert LIMITS.gflop_per_s("bf16") == pytest.approx(400.0)
    # Which was not measured.
    assert LIMITS.gflop_per_s("f16") == LIMITS.gflop_per_s("bf16")
    is_of = [LIMITS.is_of(*row) for row in (("A CPU", 2), ("A CPU", 1), ("Another CPU", 2))]
    assert is_of == [True, False, False]


def test_what_fits_into_a_cache_is_limited_by_the_bandwidth_of_the_cache():
    assert LIMITS.gb_per_s_of(3 * 10**9) == LIMITS.gb_per_s_of(10**12) == pytest.approx(30.0)
    assert LIMITS.gb_per_s_of(10**8) == LIMITS.gb_per_s_of(2.9e9) == pytest.approx(50.0)
    assert LIMITS.gb_per_s_of(10**6) == LIMITS.gb_per_s_of(0) == pytest.approx(100.0)


def test_a_larger_triad_that_was_faster_raises_the_limit_of_smaller_programs():
    slow = Sample(TRIAD, "torch", "f32", 10**6, (1.0,))
    limits = dataclasses.replace(LIMITS, samples=(slow, *LIMITS.samples[1:]))
    assert limits.gb_per_s_of(10**6) == limits.gb_per_s_of(10**8)


def test_the_time_needed_at_least_is_that_of_the_slower_resource():
    assert LIMITS.least_seconds(2e9, 3e9, "f32") == (pytest.approx(0.1), "memory")
    assert LIMITS.least_seconds(100e9, 3e9, "f32") == (pytest.approx(0.5), "compute")
    assert LIMITS.least_seconds(100e9, 3e9, "bf16") == (pytest.approx(0.25), "compute")
    part = LIMITS.least_seconds(0, 10**6, "f32", whole=3 * 10**9)
    assert part == (pytest.approx(10**6 / 30e9), "memory")


def test_limits_are_read_as_they_were_written(tmp_path):
    path = tmp_path / machine_limits.FILE
    assert MachineLimits.read(path) is None
    path.touch()
    assert MachineLimits.read(path) is None
    LIMITS.write(path)
    assert MachineLimits.read(path) == LIMITS


@pytest.mark.parametrize(
    "text",
    ["{}", "[", json.dumps(dataclasses.asdict(dataclasses.replace(LIMITS, samples=PRODUCTS)))],
)
def test_a_file_of_another_form_is_named(tmp_path, text):
    path = tmp_path / machine_limits.FILE
    path.write_text(text)
    with pytest.raises(ValueError, match=r"limits\.json: .*delete it"):
        MachineLimits.read(path)


def test_figures_that_are_not_plausible_are_doubted():
    steady = Sample(TRIAD, "torch", "f32", 10**9, (0.1, 0.1, 0.1))
    assert machine_limits.doubts([steady, *PRODUCTS], 0.0) == ()
    assert "40%" in machine_limits.doubts([steady], 0.4)[0]
    uneven = dataclasses.replace(steady, seconds=(0.1, 0.3, 0.3))
    assert "3.0 × the time of the fastest" in machine_limits.doubts([uneven], 0.0)[0]
    cached = dataclasses.replace(steady, size=5 * 10**8, seconds=(0.02,))
    [doubt] = machine_limits.doubts([cached, steady], 0.0)
    assert doubt == "triad: 10 to 25 GB/s, depending on the size"
    slower = dataclasses.replace(steady, through="iree", seconds=(0.9,))
    assert machine_limits.doubts([slower, steady], 0.0) == ()
    assert machine_limits.doubts([*SMALL, steady], 0.0) == ()


def test_a_triad_of_memory_does_not_fit_into_the_caches_and_others_are_much_smaller(monkeypatch):
    monkeypatch.setattr(measure_machine_limits, "cache_bytes", lambda: 16 * 2**20)
    assert measure_machine_limits.array_bytes("cpu", 2) == (64 * 2**20, 128 * 2**20)
    assert (
        measure_machine_limits.array_bytes("cpu", 1000)[1] == measure_machine_limits.ARRAY_BYTES[1]
    )
    monkeypatch.setattr(measure_machine_limits, "cache_bytes", lambda: 0)
    assert measure_machine_limits.array_bytes("cpu", 2)[1] == measure_machine_limits.ARRAY_BYTES[0]
    assert measure_machine_limits.cached_array_bytes("cpu", 2) == [2**17, 2**19, 2**21, 2**23]
    assert measure_machine_limits.cached_array_bytes("cuda", 2) == []


def test_wrong_results_are_refused():
    left, right = measure_machine_limits.signs(64)
    exact = left @ right
    measure_machine_limits.check_product("product", exact[:4], left, right)
    wrong = exact[:4].copy()
    wrong[3, 5] += 2
    for rows in (wrong, np.zeros((4, 64)), exact[:4, :32]):
        with pytest.raises(measure_machine_limits.WrongResult, match="product"):
            measure_machine_limits.check_product("product", rows, left, right)
    shift = measure_machine_limits.permutation(64)
    thrice = left @ shift @ shift @ shift
    measure_machine_limits.check_product("product", thrice[:4], left, shift, 3)
    with pytest.raises(measure_machine_limits.WrongResult, match="product"):
        measure_machine_limits.check_product("product", (left @ shift)[:4], left, shift, 3)
    measure_machine_limits.check_triad(
        "triad", measure_machine_limits.RESULT, measure_machine_limits.RESULT
    )
    with pytest.raises(measure_machine_limits.WrongResult, match="from 0 to 7"):
        measure_machine_limits.check_triad("triad", 0.0, measure_machine_limits.RESULT)


def test_a_sample_is_timed_by_calls_that_are_waited_for(monkeypatch):
    monkeypatch.setattr(measure_machine_limits, "SECONDS", 0.0)
    made = []
    found = measure_machine_limits.timed(lambda: made.append("call"), lambda: made.append("end"))
    assert len(found) == measure_machine_limits.AT_LEAST
    assert made == ["call", "end"] * (measure_machine_limits.AT_LEAST + 1)


@pytest.mark.parametrize(
    ("kind", "call_s", "run"),
    [
        ("cpu", 0.1, [("f32", 1024), ("f32", 2048), ("bf16", 1024), ("bf16", 2048)]),
        ("cpu", 0.2, []),  # 64 times as long with four times the rows
        ("vulkan", 0.2, [("f32", 1024), ("bf16", 1024)]),
        ("vulkan", 0.09, [("f32", 1024), ("f32", 2048), ("bf16", 1024), ("bf16", 2048)]),
    ],
)
def test_a_product_that_would_take_too_long_is_not_run(monkeypatch, kind, call_s, run):
    monkeypatch.setattr(
        measure_machine_limits, "Session", lambda *_: Mock(call=lambda _: ([None], None))
    )
    monkeypatch.setattr(measure_machine_limits, "_check", lambda *_: None)
    monkeypatch.setattr(measure_machine_limits, "_inputs", lambda _: [])
    monkeypatch.setattr(measure_machine_limits, "timed", lambda *_: (call_s,))
    programs = [
        measure_machine_limits.Program(
            Module(Path("m.vmfb"), None, "local-task"), "product", dtype, n
        )
        for dtype in ("f32", "bf16")
        for n in (*([256] if kind == "cpu" else []), 1024, 2048)
    ]
    found = measure_machine_limits.iree_samples(programs, kind, threads=1)
    assert [(one.dtype, one.size) for one in found] == run


def test_what_cannot_be_compiled_or_run_is_found_with_the_smallest_programs(tmp_path, monkeypatch):
    tried = []

    def compiles(backend, arch, folder, name, text) -> bool:
        tried.append(name)
        return not name.startswith("product-bf16")

    lacking = lambda vmfb, *_: "subgroups of 32" if "ada" in vmfb.name else ""  # noqa: E731
    monkeypatch.setattr(measure_machine_limits, "_compile", compiles)
    monkeypatch.setattr(measure_machine_limits.session, "lacking_of_profile", lacking)
    backend = dataclasses.replace(BACKENDS["vulkan"], limit_archs=("", "ada"))
    made = measure_machine_limits.prepare(backend, "", 1, tmp_path)
    sizes = measure_machine_limits.OTHER_SIZES
    assert [(one.what, one.size) for one in made][2:] == [(PRODUCT, n) for n in sizes]
    assert [name for name in tried if "bf16" in name] == [f"product-bf16-{sizes[0]}"]
    assert [name for name in tried if "ada" in name] == [f"{name}-ada" for name in tried[:2]]
