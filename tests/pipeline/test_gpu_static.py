"""What is said of dispatches on GPUs, of code that the real compilers make: of programs, and of kernels written by hand whose registers, local memory
and matrix instructions are known."""

from __future__ import annotations

import json
import struct
import subprocess

import msgspec
import pytest

from scripts.iree import tools
from scripts.iree.backends import compile_flags
from scripts.tools.gpu_static import code, facts, radv
from tests.checkouts import made_environments, run_stage

M, N, K = 128, 768, 512
PRODUCT = """
func.func @main(%a: tensor<{m}x{k}x{t}>, %b: tensor<{k}x{n}x{t}>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<{m}x{k}x{t}>, tensor<{k}x{n}x{t}>) outs(%filled : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %0 : tensor<{m}x{n}xf32>
}}
"""
GATHER = """
func.func @main(%table: tensor<30000x64xf32>, %rows: tensor<8xi64>) -> tensor<8x64xf32> {
  %empty = tensor.empty() : tensor<8x64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<8xi64>) outs(%empty : tensor<8x64xf32>) {
  ^bb0(%row: i64, %out: f32):
    %i = arith.index_cast %row : i64 to index
    %j = linalg.index 1 : index
    %value = tensor.extract %table[%i, %j] : tensor<30000x64xf32>
    linalg.yield %value : f32
  } -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}
"""


@pytest.fixture
def report(environments, tmp_path):
    def report(program: str, backend: str, arch: str) -> dict:
        (tmp_path / "program.mlir").write_text(program)
        python = environments / "iree/bin/python"
        run_stage(python, "compile_iree", tmp_path, program=tmp_path / "program.mlir", backend=backend, arch=arch)  # fmt: skip
        return json.loads((tmp_path / "report.json").read_text())

    return report


@pytest.mark.parametrize(
    ("backend", "arch", "element", "share", "operands"),
    [
        ("rocm", "gfx942", "f32", 1.0, "f32"),
        ("rocm", "gfx942", "f16", 1.0, "f16"),
        ("cuda", "sm_80", "f32", 0.0, ""),  # IREE does not compute float32 in TF32
        ("cuda", "sm_80", "f16", 1.0, "f16"),
        ("vulkan", "ada", "f32", 0.0, ""),
        ("vulkan", "ada", "f16", 1.0, "f32"),  # converted before the product (IREE 3.13)
    ],
)
def test_a_product_has_its_flops_and_bytes_and_is_on_matrix_units_if_they_have_its_type(
    report, backend, arch, element, share, operands
):
    made = report(PRODUCT.format(m=M, n=N, k=K, t=element), backend, arch)
    [dispatch] = [each for each in made["dispatches"] if each["work"]["product_flop"]]
    size = int(element[1:]) // 8
    assert dispatch["work"]["product_flop"] == 2 * M * N * K
    assert dispatch["work"]["bytes"] == size * (M * K + K * N) + 4 * M * N
    assert (dispatch["calls"], made["static_matrix_share"]) == (1, share)
    assert dispatch["kernel"]["element"] == operands
    assert made["static_bound_ms"] > 0


def test_of_a_table_only_what_is_looked_up_counts_as_read(report):
    [dispatch] = report(GATHER, "rocm", "gfx942")["dispatches"]
    assert dispatch["work"]["bytes"] == 8 * 8 + 2 * (8 * 64 * 4)


def test_radv_compiles_the_spirv_of_a_module_without_a_gpu(report, tmp_path):
    [dispatch] = report(PRODUCT.format(m=M, n=N, k=K, t="f32"), "vulkan", "ada")["dispatches"]
    of_radv = radv.statistics(tmp_path / "module.vmfb")
    assert [*of_radv] == [dispatch["function"]]
    [found] = of_radv.values()
    assert found["LDS size"] == dispatch["kernel"]["shared_bytes"]
    assert 0 < found["VGPRs"] <= 256


def test_the_module_is_the_one_that_iree_compile_makes_without_dumps(
    environments, report, tmp_path
):
    report(PRODUCT.format(m=M, n=N, k=K, t="f16"), "cuda", "sm_80")
    plain = tmp_path / "plain.vmfb"
    compiler = tools.program("iree-compile", environments / "iree")
    flags = compile_flags("cuda", "sm_80", None, [])
    subprocess.run([compiler, *flags, tmp_path / "program.mlir", "-o", plain], check=True)
    assert (tmp_path / "module.vmfb").read_bytes() == plain.read_bytes()
    assert not [*tmp_path.glob("dumps-*")]


TINY = "func.func @main(%a: tensor<64xf32>) -> tensor<64xf32> {\n  %b = arith.addf %a, %a : tensor<64xf32>\n  return %b : tensor<64xf32>\n}\n"  # fmt: skip
LOCAL = "llvm.mlir.global internal @lds() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<1024 x f32>\n"
KNOWN = """
  %zero = llvm.mlir.constant(1.0 : f32) : f32
  %sum = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
  %lds = llvm.mlir.addressof @lds : !llvm.ptr<3>
  llvm.store volatile %zero, %lds : f32, !llvm.ptr<3>
  llvm.inline_asm has_side_effects "", "~{v100}" : () -> ()
  %f = llvm.load volatile %lds : !llvm.ptr<3> -> f32
  %m0 = rocdl.mfma.f32.16x16x4f32 %f, %f, %sum, 0, 0, none : (f32, f32, vector<4xf32>) -> vector<4xf32>
  %m1 = rocdl.mfma.f32.16x16x4f32 %f, %f, %m0, 0, 0, none : (f32, f32, vector<4xf32>) -> vector<4xf32>
  llvm.store volatile %m1, %arg1 : vector<4xf32>, !llvm.ptr<1>
"""
"""A kernel that uses register 100, 4 KiB of local memory, and two matrix instructions."""
SPILLING = "".join(
    f"%p{i} = llvm.getelementptr %arg0[{i}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n"
    f"%v{i} = llvm.load volatile %p{i} : !llvm.ptr<1> -> f32\n"
    for i in range(64)
) + "".join(
    f"%q{i} = llvm.getelementptr %arg1[{i}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n"
    f"llvm.store volatile %v{i}, %q{i} : f32, !llvm.ptr<1>\n"
    for i in range(64)
)
"""One that keeps 64 values."""


def metadata(hsaco: bytes) -> dict:
    """The metadata in the ELF note of a code object, which the driver reads: msgpack behind the owner `AMDGPU` (NT_AMDGPU_METADATA, 32)."""
    owner = hsaco.index(b"AMDGPU\0")
    _, size, kind = struct.unpack_from("<III", hsaco, owner - 12)
    assert kind == 32
    return msgspec.msgpack.decode(hsaco[owner + 8 : owner + 8 + size])


@pytest.fixture
def kernel_by_hand(environments, tmp_path):
    def kernel(body: str, before: str = "", attributes: str = "") -> code.Kernel:
        """The code of a kernel for gfx942 in MLIR's LLVM dialect, in place of that of a program."""
        compiler = tools.program("iree-compile", environments / "iree")
        target = compile_flags("rocm", "gfx942", None, [])
        (tmp_path / "tiny.mlir").write_text(TINY)
        made = subprocess.run([compiler, *target, "--compile-to=executable-targets", tmp_path / "tiny.mlir"], check=True, text=True, capture_output=True).stdout  # fmt: skip
        start, end = made.index("llvm.func @main"), made.index("llvm.return\n        }")
        head = made[start : made.index("\n", start)]
        head = head.replace("attributes {", f"attributes {{{attributes}", 1)
        (tmp_path / "hand.mlir").write_text(made[:start] + before + head + "\n" + body + made[end:])
        dumps = facts.Dumps(tmp_path)
        subprocess.run([compiler, *target[:1], "--compile-from=executable-targets", *dumps.flags, tmp_path / "hand.mlir", "-o", tmp_path / "hand.vmfb"], check=True)  # fmt: skip
        [known] = code.kernels(tmp_path / facts.CODE, "").values()
        [hsaco] = (tmp_path / facts.CODE).glob("*.hsaco")
        [note] = metadata(hsaco.read_bytes())["amdhsa.kernels"]
        assert known.registers == note[".vgpr_count"]
        assert known.shared_bytes == note[".group_segment_fixed_size"]
        assert known.spilled_bytes == 4 * note[".vgpr_spill_count"]
        assert known.scratch_bytes == note[".private_segment_fixed_size"]
        return known

    return kernel


def test_a_kernel_by_hand_has_the_registers_local_memory_and_matrix_instructions_that_it_has(
    kernel_by_hand,
):
    assert kernel_by_hand(KNOWN, LOCAL) == code.Kernel(101, 4096, 0, 0, 2, 0, "f32", ())


def test_a_kernel_that_keeps_more_values_than_its_registers_spills(kernel_by_hand):
    found = kernel_by_hand(SPILLING, attributes='passthrough = [["amdgpu-num-vgpr", "16"]], ')
    # 64 values, and 16 registers of each kind.
    assert found.registers == 32
    assert found.spilled_bytes >= 4 * (64 - 32)
    assert found.scratch_bytes >= found.spilled_bytes
    assert found.loads == (4,)


PTX = """\
.version 7.6
.target sm_80
.address_size 64
.visible .entry known(.param .u64 a)
.maxntid 128, 1, 1
.maxnreg 32
{{
  .reg .b64 %rd<3>;
  .reg .f32 %f<65>;
  .shared .align 4 .b8 local[4096];
  ld.param.u64 %rd1, [a];
{loads}
  st.volatile.shared.f32 [local+128], %f0;
  bar.sync 0;
{stores}
  ret;
}}
"""


@pytest.mark.full
def test_ptxas_says_the_registers_that_ptx_by_hand_may_have_and_what_it_spills(tmp_path):
    made_environments(code.PTXAS)
    loads = (f"  ld.global.volatile.f32 %f{i}, [%rd1+{4 * i}];" for i in range(64))
    stores = (f"  st.volatile.global.f32 [%rd1+{4 * i}], %f{i};" for i in reversed(range(64)))
    text = PTX.format(loads="\n".join(loads), stores="\n".join(stores))
    (tmp_path / "known.ptx").write_text(text.replace("ld.global.volatile", "ld.volatile.global"))
    found = code.kernels(tmp_path, "sm_80")["known"]
    assert (found.registers, found.shared_bytes, found.matrix) == (32, 4096, 0)
    assert found.spilled_bytes >= 4 * (64 - 32)
