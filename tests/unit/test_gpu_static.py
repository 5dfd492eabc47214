"""What the compiler's output says about dispatches on GPUs: launches, code, occupancy, bounds, and what is shown, compared and expected of it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.config.sections import AtLeast
from scripts.core.requests import StageRequest
from scripts.results.columns import COLUMNS
from scripts.stages import check_expectations
from scripts.supervise.outcome import Outcome
from scripts.tools.compare import bisect, pairs
from scripts.tools.compare.bisection import Candidate, Side, Trial
from scripts.tools.compare.comparing import Settings, compare
from scripts.tools.gpu_static import code, devices, facts, program, radv
from scripts.tools.gpu_static import page as gpu_page
from scripts.tools.gpu_static.code import Kernel
from scripts.tools.gpu_static.program import Work
from scripts.tools.profile import why
from tests.report_records import records

MI300X, A100 = devices.find("rocm", "gfx942"), devices.find("cuda", "sm_80")
RTX_4090 = devices.find("vulkan", "ada")
MFMA = Kernel(139, 50176, 0, 0, 256, 0, "f32", (16,))
FMA = Kernel(53, 0, 0, 0, 0, 512, "", (16,))
PRODUCT = Work(2 * 128 * 768 * 768, 0, 3_145_728, "f32", "TileAndFuse")
COPY = Work(0, 0, 5_300_000, "", "Distribute")


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "share", "limit"),
    [
        (MI300X, 512, 50, 0, 1, ""),  # the example of LLVM's llvm-calc-occupancy
        (MI300X, 256, 139, 0, 3 / 8, "registers"),
        (MI300X, 256, 139, 50176, 1 / 8, "shared memory"),
        (MI300X, 256, 20, 80 * 1024, 0, "shared memory"),
        (MI300X, 192, 20, 20, 30 / 32, "workgroup size"),
        (A100, 1024, 32, 0, 1, ""),
        (A100, 256, 53, 0, 1 / 2, "registers"),  # 36 warps by registers, in blocks of 8
        (A100, 32, 16, 0, 1 / 2, "workgroups"),
        (A100, 128, 32, 32 * 1024, 16 / 64, "shared memory"),  # and 1 KiB of each block
        (A100, 128, None, 0, 1, ""),
        (RTX_4090, 1024, 32, 0, 32 / 48, "workgroup size"),
    ],
)
def test_occupancy_is_that_of_the_resource_that_runs_out_first(
    device, threads, registers, shared, share, limit
):
    assert devices.occupancy(device, threads, registers, shared) == (share, limit)


ROCM = """\
	.type	known$async,@function
known$async:
	global_load_dwordx4 v[0:3], v4, s[0:1]
	buffer_load_ubyte v5, v6, s[0:3], 0 offen
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]
	v_fmac_f32_e32 v0, v1, v2
	s_endpgm
	.size	known$async, .Lfunc_end0-known$async
amdhsa.kernels:
  - .agpr_count:     16
    .args:
      - .address_space:  global
        .name:           not this one
    .group_segment_fixed_size: 4096
    .name:           'known$async'
    .private_segment_fixed_size: 140
    .reqd_workgroup_size:
      - 256
    .vgpr_count:     101
    .vgpr_spill_count: 34
amdhsa.version:
  - 1
"""
PTX = """\
.visible .entry known(
	.param .u64 p
)
{
	ld.global.nc.v4.b32 	{%r16, %r17, %r18, %r19}, [%rd13];
	@%p1 ld.global.b16 	%rs1, [%rd13];
	fma.rn.f32 	%r1, %r2, %r3, %r4;
	wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%r1}, {%r2}, {%r3}, {%r4};
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};
}
"""
ASSEMBLED = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'known' for 'sm_80'
ptxas info    : Function properties for known
    168 bytes stack frame, 160 bytes spill stores, 172 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 168 bytes cumulative stack size, 4096 bytes smem, 360 bytes cmem[0]
"""
SPIRV = """\
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @a : !spirv.ptr<!spirv.struct<(!spirv.array<288 x vector<4xf32>>)>, Workgroup>
  spirv.GlobalVariable @b : !spirv.ptr<!spirv.struct<(!spirv.array<64 x f16>)>, Workgroup>
  spirv.func @known() "None" {
    %0 = spirv.mlir.addressof @a : !spirv.ptr<!spirv.struct<(!spirv.array<288 x vector<4xf32>>)>, Workgroup>
    %1 = spirv.Load "StorageBuffer" %0 : vector<4xf32>
    %2 = spirv.GL.Fma %1, %1, %1 : vector<4xf32>
    %3 = spirv.KHR.CooperativeMatrixMulAdd %4, %5, %6 : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  }
  spirv.EntryPoint "GLCompute" @known
}
"""


@pytest.mark.parametrize(
    ("file", "text", "assembled", "expected"),
    [
        ("a.rocmasm", ROCM, "", Kernel(101, 4096, 136, 140, 1, 2, "f16", (1, 16))),
        ("a.ptx", PTX, ASSEMBLED, Kernel(32, 4096, 160, 168, 2, 1, "f16", (2, 16))),
        ("a.ptx", PTX, "", Kernel(None, 0, None, None, 2, 1, "f16", (2, 16))),
        ("a.spirv.mlir", SPIRV, "", Kernel(None, 4736, None, None, 1, 1, "f16", (16,))),
    ],
)
def test_code_says_what_it_needs_and_what_nobody_says_is_not_known(
    tmp_path, monkeypatch, file, text, assembled, expected
):
    (tmp_path / file).write_text(text)
    monkeypatch.setattr(code, "assembled", lambda ptx, arch: assembled)
    [(name, found)] = code.kernels(tmp_path, "sm_80").items()
    assert (name.partition("$")[0], found) == ("known", expected)


@pytest.mark.parametrize(
    ("instruction", "element"),
    [
        ("v_mfma_f32_16x16x4_f32", "f32"),
        ("v_mfma_f32_32x32x4_2b_f16", "f16"),
        ("v_mfma_f32_16x16x16_bf16_1k", "f16"),
        ("v_mfma_f32_32x32x16_fp8_bf8", "f8"),
        ("v_mfma_i32_16x16x32_i8", "i8"),
        ("v_mfma_f64_16x16x4_f64", "f64"),
        ("v_mfma_f32_16x16x8_xf32", "tf32"),
        ("v_wmma_f32_16x16x16_f16", "f16"),
    ],
)
def test_the_type_of_a_matrix_instruction_is_that_of_its_operands(tmp_path, instruction, element):
    (tmp_path / "a.rocmasm").write_text(ROCM.replace("v_mfma_f32_32x32x8_f16", instruction))
    assert code.kernels(tmp_path, "")["known$async"].element == element


def test_without_the_environment_of_ptxas_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(code.checkout, "ROOT", tmp_path)
    assert code.assembled(tmp_path / "a.ptx", "sm_80") == ""


def test_a_ptxas_that_fails_is_named_and_nothing_is_known(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(code, "ptxas", lambda: sys.executable)
    assert "registers" not in code.assembled(tmp_path / "none.ptx", "sm_80")
    assert "note: ptxas, so registers are not known" in capsys.readouterr().err


HAL = """\
  util.initializer {
    %c1 = arith.constant 1 : index
    %id = hal.executable.lookup.function target(%e : !hal.executable) function(@l::@f::@_initializer_0_dispatch_0) : i64
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%e : !hal.executable)[%id] workgroups([%c1, %c1, %c1]) bindings([
  }
  util.func private @__main_memoize_apply() -> !hal.command_buffer {
    %c12 = arith.constant 12 : index
    %c2_0 = arith.constant 2 : index
    %id = hal.executable.lookup.function target(%e : !hal.executable) function(@l::@f::@"main$async_dispatch_0_matmul") : i64
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%e : !hal.executable)[%id] workgroups([%c12, %c2_0, %c2_0]) bindings([
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%e : !hal.executable)[%id] workgroups([%c12, %c2_0, %c2_0]) bindings([
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%e : !hal.executable)[%id] workgroups([%n, %c2_0, %c2_0]) bindings([
  }
"""
TARGETS = """\
      hal.executable.export public @"main$async_dispatch_0_matmul" ordinal(0) layout(#l) count(%arg0: !hal.device) -> (index, index, index) {
        hal.return %c1, %c1, %c1 : index, index, index
      } <workgroup_size = [32 : index, 8 : index, 1 : index], subgroup_size = 32, workgroup_local_memory = 4096>
      hal.executable.export public @other ordinal(0) layout(#l) count(%arg0: !hal.device) -> (index, index, index) {
        hal.return %c1, %c1, %c1 : index, index, index
      } attributes {subgroup_size = 64 : index, workgroup_local_memory = 32 : index, workgroup_size = [64 : index, 1 : index, 1 : index]}
"""


def test_a_call_counts_its_dispatches_with_their_workgroups_and_not_those_of_initializers():
    name = "main$async_dispatch_0_matmul"
    assert program.calls(HAL) == {(name, 48): 2, (name, None): 1}
    assert program.exports(TARGETS) == {name: (256, 4096), "other": (64, 32)}


def described(kernel=MFMA, work=PRODUCT, workgroups=12, device=MI300X, calls=1, name="d"):
    return facts.describe(name, calls, workgroups, (256, 0), kernel, work, device)


@pytest.mark.parametrize(
    ("kernel", "work", "workgroups", "device", "ms", "by"),
    [
        # 0.151 GFLOP at 163.4 TFLOP/s; of 304 units, 12 work.
        (MFMA, PRODUCT, 304, MI300X, 150_994_944 / 163.4e9, "compute"),
        (MFMA, PRODUCT, 12, MI300X, 150_994_944 / 163.4e9 * 304 / 12, "compute"),
        (MFMA, PRODUCT, 305, MI300X, 150_994_944 / 163.4e9 * 608 / 305, "compute"),
        (MFMA, PRODUCT, None, MI300X, 150_994_944 / 163.4e9, "compute"),
        (replace(MFMA, element="f16"), PRODUCT, 304, MI300X, 3_145_728 / 5300e6, "memory"),
        (FMA, PRODUCT, 108, A100, 150_994_944 / 19.5e9, "compute"),
        (FMA, replace(PRODUCT, element="i4"), 108, A100, 3_145_728 / 2039e6, "memory"),  # no peak
        (FMA, COPY, 304, MI300X, 1e-3, "memory"),
        (FMA, replace(COPY, other_flop=10**9), 304, MI300X, 1e9 / 163.4e9, "compute"),
    ],
)
def test_a_dispatch_takes_at_least_its_flops_at_the_peak_or_its_bytes(
    kernel, work, workgroups, device, ms, by
):
    found = described(kernel, work, workgroups, device)
    assert (found.bound_ms, found.bound_by) == (pytest.approx(ms), by)


def test_a_row_sums_up_its_dispatches():
    spilling = replace(FMA, spilled_bytes=8)
    called = [described(calls=3), described(spilling, work=replace(PRODUCT, product_flop=150_994_944 * 3), name="e"), described(spilling, COPY, name="f"), described(spilling, COPY, 7, name="f")]  # fmt: skip
    report = facts.as_report(called, MI300X)
    assert report["static_spills"] == 16  # of two functions
    assert report["static_matrix_share"] == 0.5
    assert report["static_occupancy"] == (0.125 + 1) / 2
    assert report["static_bound_ms"] == pytest.approx(sum(d.calls * d.bound_ms for d in called))
    assert json.loads(json.dumps(report))["dispatches"][0]["kernel"]["registers"] == 139


@pytest.mark.parametrize(
    ("called", "device", "left_out"),
    [
        ([described(replace(FMA, registers=None, spilled_bytes=None))], A100, {"static_spills", "static_occupancy"}),
        ([described(), described(work=None, name="e")], MI300X, {"static_bound_ms", "static_occupancy", "static_matrix_share"}),
        ([described(device=None)], None, {"static_device", "static_bound_ms", "static_occupancy"}),
        ([described(FMA, COPY)], MI300X, {"static_matrix_share", "static_occupancy"}),
    ],
)  # fmt: skip
def test_what_is_not_known_of_a_dispatch_is_left_out_of_the_row_and_is_not_zero(
    called, device, left_out
):
    every = facts.as_report([described()], MI300X).keys()
    assert every - facts.as_report(called, device).keys() == left_out


def test_a_cpu_has_no_dumps_and_unreadable_ones_are_no_failure(tmp_path, capfd):
    with facts.dumps("llvm-cpu", tmp_path) as dumps:
        assert (dumps.flags, dumps.report("llvm-cpu", None)) == ([], {})
    with facts.dumps("cuda", tmp_path) as dumps:
        assert [*tmp_path.iterdir()]
        assert dumps.report("cuda", None) == {}
    assert "note: the dispatches are not described" in capfd.readouterr().err
    assert not [*tmp_path.iterdir()]


CELL = "bert/torchxla-stablehlo/rocm"


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Write the compilation of CELL with a report."""
    folder = tmp_path / stages.STAGES["compile"].path(Cell.parse(CELL, Kind.IREE).to(Kind.MODULE))

    def write(report, status="ok", backend="rocm"):
        StageRequest("scripts.stages.compile_iree", "python", {"backend": backend}).write(folder)
        (folder / "report.json").write_text(json.dumps(report))
        ended = Outcome(status, "compile", CELL, "shared-memory-limit", "65 KiB", log="log.txt")
        (folder / "status.json").write_text(json.dumps({**ended.__dict__}))
        monkeypatch.setattr(sys, "argv", ["why", CELL, "--results", str(tmp_path / "results")])
        why.main()

    return write


def test_why_prints_the_dispatches_of_a_gpu_cell(compiled, capsys):
    compiled(facts.as_report([described(calls=12), described(FMA, None, name="e")], MI300X))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{CELL} on MI300X: from the compiled code; nothing ran here"
    assert lines[1] == "bound not known; dispatches 13; spills 0 bytes; occupancy not known; products on matrix units not known"  # fmt: skip
    [row] = [line.split() for line in lines if line.endswith(" d")]
    assert row == ["100%", "0.281", "12", "12", "0.151", "3.15", "139", "0", "50176", "12%", "256", "0", "16", "matrix", "f32", "shared", "memory", "compute", "TileAndFuse", "d"]  # fmt: skip


def test_why_asks_the_driver_of_another_gpu_about_spirv(compiled, tmp_path, monkeypatch, capsys):
    asked = []
    statistics = dict.fromkeys(gpu_page.OF_RADV, 7)
    monkeypatch.setattr(gpu_page.radv, "statistics", lambda vmfb: asked.append(vmfb) or {"d": statistics})  # fmt: skip
    compiled(facts.as_report([described(), described(FMA, name="e")], RTX_4090))
    assert (asked, "By RADV" in capsys.readouterr().out) == ([], False)
    compiled(facts.as_report([described(), described(FMA, name="e")], RTX_4090), backend="vulkan")
    assert [path.name for path in asked] == ["module.vmfb"]
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-1:]] == [["7"] * 5 + ["d"]]  # fmt: skip


def test_without_the_driver_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(radv, "DRIVERS", (str(tmp_path),))
    assert radv.statistics(tmp_path / "none.vmfb") == {}


@pytest.mark.parametrize(
    ("report", "status", "said"),
    [
        ({}, "error", "does not compile: error (shared-memory-limit): 65 KiB; log: log.txt"),
        ({"vmfb_bytes": 1}, "ok", "--forcerun compile_iree"),
    ],
)
def test_why_of_a_gpu_cell_without_dispatches_says_what_to_do(
    compiled, capsys, report, status, said
):
    with pytest.raises(SystemExit):
        compiled(report, status)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "was", "now", "worse"),
    [
        ("static_spills", 0, 64, True),
        ("static_spills", 64, 0, False),
        ("static_matrix_share", 1.0, 0.6, True),
        ("static_matrix_share", 0.6, 1.0, False),
        ("static_occupancy", 0.5, 0.25, True),
        ("static_bound_ms", 1.0, 1.2, True),
        ("static_bound_ms", 1.0, 1.001, None),
    ],
)
def test_a_release_that_spills_or_leaves_the_matrix_units_is_worse(key, was, now, worse):
    rows = [row for row in records() if row["experiment"]["runtime"] == "iree"][:1]
    before = [{**row, "compile": {**row["compile"], key: was}} for row in rows]
    after = [{**row, "compile": {**row["compile"], key: now}} for row in rows]
    found = compare(pairs.of_files(before, after), "before", "after", Settings())
    assert [(change.key, change.worse) for change in found.amounts] == ([] if worse is None else [(key, worse)])  # fmt: skip
    assert len(found.alarms) == bool(worse)


@pytest.mark.parametrize(
    ("least", "share", "lines"),
    [
        (0.9, 0.95, []),
        (0.9, 0.5, ["expected static_matrix_share of at least 0.9, found 0.5"]),
        (0.9, None, ["expected static_matrix_share of at least 0.9, found none"]),
    ],
)
def test_a_gate_takes_a_least_value(least, share, lines):
    [row] = [row for row in records() if row["experiment"]["runtime"] == "iree"][:1]
    row["compile"] |= {"static_matrix_share": share}
    wanted = {"status": row["outcome"]["status"], "at_least": {"static_matrix_share": least}}
    [checked] = check_expectations.check([row], {"*": wanted})
    assert [violation.line for violation in checked.violations] == lines


def test_what_has_a_least_value_is_a_column():
    assert set(AtLeast.__annotations__) <= {column.column for column in COLUMNS}


@pytest.mark.parametrize(
    ("question", "good", "bad", "own", "side"),
    [
        ("spills", 0, 64, 0, Side.GOOD),
        ("spills", 0, 64, 60, Side.BAD),
        ("spills", 64, 0, 0, Side.NEITHER),  # the ends are the wrong way round
        ("spills", None, 64, 0, Side.NEITHER),
        ("off-matrix-units", 1.0, 0.4, 0.9, Side.GOOD),
        ("off-matrix-units", 1.0, 0.4, 0.4, Side.BAD),
        ("off-matrix-units", 0.4, 0.4, 0.4, Side.NEITHER),
    ],
)
def test_bisect_asks_which_end_a_release_is_nearer_to(tmp_path, question, good, bad, own, side):
    key = {"spills": "static_spills", "off-matrix-units": "static_matrix_share"}[question]

    def trial(value):
        report = {} if value is None else {key: value}
        return Trial(Candidate("1", ()), Outcome("ok", "compile", CELL), tmp_path, report=report)

    assert bisect.QUESTIONS[question].side(trial(good), trial(bad), trial(own)) == side
