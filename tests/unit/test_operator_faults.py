"""faults: from an outcome to the project and the part of IREE where a failure shows.

The texts are those of real runs, as supervision.diagnose quotes them.
"""

from pathlib import Path

import pytest

from scripts.supervise.outcome import Outcome
from scripts.tools.operators.report import faults
from scripts.tools.operators.report.faults import FAULTS, RULES

REAL = [
    ("problem", "operator_reference", "unsupported", "unsupported", "random: aten.bernoulli_.float draws random numbers", ""),
    ("problem", "operator_reference", "unsupported", "unsupported", "uninitialised: aten.new_empty.default returns memory without values", ""),
    ("problem", "operator_reference", "unsupported", "unsupported", "no-kernel: expected scalar type Half but found Float", ""),
    ("machine", "operator_reference", "timeout", "time-limit", "still running after 60 s", ""),
    ("pytorch", "operator_reference", "crashed", "SIGSEGV", "killed by SIGSEGV", ""),
    ("pytorch", "operator_reference", "error", "IndexError", "IndexError: index 9 is out of bounds", ""),
    ("pytorch", "operator_export", "unsupported", "capture", "torch._dynamo.exc.Unsupported: Dynamic control flow is not supported", "torch_mlir"),
    ("torch-mlir", "operator_export", "unsupported", "legalization", "failed to legalize operation 'torch.operator' that was explicitly marked illegal: %2212 = \"torch.operator\"(%2210, %2211) <{name = \"torch.aten._unsafe_index\"}>", "torch_mlir"),
    ("torch-mlir", "operator_export", "unsupported", "legalization", "failed to legalize operation 'torch.runtime.assert' that was explicitly marked illegal: \"torch.runtime.assert\"(%135) <{message = \"Runtime assertion failed for expression u0 <= 64 on node 'le_1'\"}> : (!torch.bool) -> ()", "torch_mlir"),
    ("torch-mlir", "operator_export", "error", "TorchMlirCompilerError", "'tensor.cast' op operand type 'tensor<32xf16>' and result type 'tensor<0xf16>' are cast incompatible", "torch_mlir"),
    ("pytorch-xla", "operator_export", "unsupported", "operator", "ops not capturable by PyTorch/XLA: aten::nonzero", "torch_xla"),
    ("iree-input", "operator_compile", "error", "compiler-error", "'tensor.cast' op operand type 'tensor<256xf16>' and result type 'tensor<0xf16>' are cast incompatible", "torch_mlir"),
    ("iree-input", "operator_compile", "unsupported", "legalization", "failed to legalize operation 'torch.constant.int': %0 =", "torch_mlir"),
    ("iree-input", "operator_compile", "unsupported", "legalization", "failed to legalize operation 'stablehlo.batch_norm_inference' that was explicitly marked illegal: %1 = \"stablehlo.batch_norm_inference\"(%arg0) [program.mlir:3: %0 = \"stablehlo.batch_norm_inference\"(%arg0, …", "torch_xla"),
    ("iree-input", "operator_compile", "unsupported", "legalization", "failed to legalize operation 'torch.aten._adaptive_avg_pool2d_backward': %4 = \"torch.aten._adaptive_avg_pool2d_backward\"(%2, %3) : (!torch.vtensor<[128,256,6,6],f16>, !torch.vtensor<[128,256,6,6],f16>)", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "distribution", "'func.func' op failed to distribute [program.mlir:21: %12 = torch.aten.sum %5, %none : !torch.vtensor<[64],si64>, !torch.none -> !torch.vtensor<[],si64>]", "torch_mlir"),
    ("iree-input", "operator_compile", "error", "compiler-error", "'chlo.top_k' op inferred type(s) 'tensor<32x2xf32>', 'tensor<32x2xi32>' are incompatible with return type(s) of operation", "torch_mlir"),
    ("iree-input", "operator_compile", "crashed", "SIGSEGV", "killed by SIGSEGV; in mlir::torch::ConvertAtenIndexTensorHackedTwinOp", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "distribution", "'func.func' op failed to distribute [program.mlir:500: %55 = stablehlo.reduce(%54 init: %cst_2) applies stablehlo.add]", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "bufferization", "failed to bufferize op [program.mlir:207: %133 = stablehlo.add %131, %132 : tensor<1x12x1x160xf32>]", "torch_xla"),
    ("iree-codegen", "operator_compile", "error", "shared-memory-limit", "function 'main_dispatch_8_reduction_3072x128_f32xi1' uses 131072 bytes of shared memory; exceeded the limit of 65536 bytes", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "legalization", "failed to legalize operation 'vector.broadcast' that was explicitly marked illegal", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "compiler-error", "operand #1 does not dominate this use [program.mlir:194: %177 = stablehlo.select %174, %175, %176 : tensor<6x3x352x352xi1>, tensor<6x3x352x352xi64>]", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "compiler-error", "'vector.store' op write affecting operations on global resources are restricted to workgroup distributed contexts. [program.mlir:12: %result0, %result1 = torch.aten.max_pool2d_with_indices]", "torch_mlir"),
    ("iree-codegen", "operator_compile", "error", "legalization", "failed to legalize operation 'util.initializer' that was explicitly marked illegal: \"util.initializer\"() <{function_type = () -> ()}> ({...}) : () -> ()", "torch_mlir"),
    ("iree-codegen", "operator_compile", "crashed", "SIGFPE", "killed by SIGFPE", "torch_mlir"),
    ("iree-codegen", "operator_compile", "timeout", "time-limit", "still running after 60 s", "torch_mlir"),
    ("iree-runtime", "operator_verify", "crashed", "SIGSEGV", "killed by SIGSEGV", "torch_mlir"),
    ("iree-runtime", "operator_time", "timeout", "time-limit", "no answer for 60 s", "torch_mlir"),
    ("wrong-values", "operator_verify", "error", "wrong-result", "FAIL: : 995 of 1000 values beyond tol 0.001", "torch_mlir"),
    ("wrong-values", "operator_baseline", "error", "wrong-result", "FAIL: : 995 of 1000 values beyond tol 0.001", "inductor"),
    ("pytorch", "operator_baseline", "error", "RuntimeError", "RuntimeError: expected scalar type Float", "inductor"),
    ("machine", "operator_verify", "unavailable", "no-device", "no device cuda: CUDA driver library 'libcuda.so'/'nvcuda.dll' not available", "torch_mlir"),
    ("machine", "operator_compile", "crashed", "SIGKILL", "killed by SIGKILL from outside: no limit was met", "torch_mlir"),
    ("machine", "operator_compile", "error", "disk-full", "No space left on device", "torch_mlir"),
    ("machine", "operator_export", "damaged", "damaged-file", "results/operator_export/0/torch/outcomes.jsonl is damaged", "torch_mlir"),
    ("machine", "env", "error", "installer", "no solution found", "torch_mlir"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "stage", "status", "reason", "detail", "tool"), REAL)
def test_a_failure_has_the_fault_of_its_stage_and_text(fault, stage, status, reason, detail, tool):
    assert faults.of_outcome(Outcome(status, stage, "cell", reason, detail), tool) == fault


def test_every_fault_is_described_and_every_rule_names_one():
    assert {rule.fault for rule in RULES} == set(FAULTS)


def test_every_rule_decides_a_failure():
    decided = set()
    for _, stage, status, reason, detail, tool in REAL:
        ended = Outcome(status, stage, "cell", reason, detail)
        decided.add(next(rule for rule in RULES if rule.applies(ended, tool)))
    left = [rule for rule in RULES if rule not in decided]
    assert [(rule.fault, rule.stages) for rule in left] == [
        ("problem", ()),
        ("pytorch", ("export",)),
        ("pytorch-xla", ("baseline", "time")),
        ("runtime", ("baseline", "time")),
    ]


def test_an_unknown_stage_is_refused():
    with pytest.raises(ValueError, match="no rule for a failure of the stage 'teleport'"):
        faults.of_outcome(Outcome("error", "teleport", "cell", "why", "what"), "")


def test_the_page_has_every_fault_with_its_meaning():
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    section = page.partition("## Where the fault is\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{name}` | {meaning} |" for name, meaning in FAULTS.items()]
