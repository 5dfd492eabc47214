"""Say where the fault of a failed row is: in which project, and in which part of IREE.

The rules are data. They use what an outcome records: stage, status, reason and detail, and which
exporter or runtime was at work. A fault is where the failure shows; its cause may lie before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

PROBLEM, MACHINE, PYTORCH = "problem", "machine", "pytorch"
TORCH_MLIR, PYTORCH_XLA = "torch-mlir", "pytorch-xla"
IREE_INPUT, IREE_CODEGEN, IREE_RUNTIME = "iree-input", "iree-codegen", "iree-runtime"
WRONG_VALUES = "wrong-values"
RUNTIME = "runtime"

FAULTS = {
    TORCH_MLIR: "torch-mlir: the import of the graph, or its lowering to the dialect of the program",
    PYTORCH_XLA: "PyTorch/XLA: the export to StableHLO, or a baseline that runs on it",
    IREE_INPUT: "IREE's input conversion: from torch, StableHLO or linalg to its own dialects",
    IREE_CODEGEN: "the rest of IREE's compiler: dispatches and their code",
    IREE_RUNTIME: "IREE's runtime: the compiled module does not load or run",
    WRONG_VALUES: "the module runs, and its results differ from eager's",
    PYTORCH: "PyTorch: eager, the capture of the graph, or inductor",
    RUNTIME: "another baseline's runtime",
    PROBLEM: "the problem itself: it has no results that can be compared, such as random numbers, or eager has no kernel for it",
    MACHINE: "this machine or its limits: no such device; a package, memory, disk space or time is missing; or the stage was killed",
}
"""The faults, in the order of tables, with their meaning."""

HARMLESS = (PROBLEM, MACHINE)
"""Faults that say nothing about a compiler or runtime."""


@dataclass(frozen=True)
class Rule:
    """A rule applies if each of its patterns is found. An empty pattern, or no stage, fits all."""

    fault: str
    stages: tuple[str, ...] = ()
    status: str = ""
    reason: str = ""
    detail: str = ""
    tool: str = ""

    def applies(self, ended: Outcome, tool: str) -> bool:
        """Return whether the rule applies. The source line at the end of a detail is not searched."""
        detail = _SOURCE.sub("", ended.detail)
        return (not self.stages or ended.stage.removeprefix("operator_") in self.stages) and all(
            re.search(pattern, text)
            for pattern, text in (
                (self.status, ended.status),
                (self.reason, ended.reason),
                (self.detail, detail),
                (self.tool, tool),
            )
        )


_SOURCE = re.compile(r" \[\S+:\d+: .*$")
"""The line of the program that supervision.diagnose quotes at the end of a detail."""
_PASSING = "|".join(sorted(outcome.PASSING))
_INPUT_OPERATION = r"'(torch|torch_c|stablehlo|chlo|vhlo|tm_tensor|tosa|ml_program)\.[\w.]+'"
_INPUT_PASS = r"Convert(Aten|Torch|Prims)|Torch[A-Z]\w*Pass|torch[-_]|torch::|TorchTo|StableHLO|stablehlo|chlo|tm_tensor|TMTensor"

RULES = (
    Rule(MACHINE, status=rf"^({outcome.UNAVAILABLE}|{outcome.DAMAGED})$"),
    Rule(MACHINE, reason=rf"^({_PASSING}|estimated)$"),
    Rule(MACHINE, stages=("env",)),
    Rule(WRONG_VALUES, reason="^wrong-result$"),
    Rule(PROBLEM, stages=("reference",), status="^unsupported$"),
    Rule(MACHINE, stages=("reference", "gradients", "trace"), status="^(timeout|oom)$"),
    Rule(PROBLEM, reason="^(nondeterministic-eager|buffer-mutation)$"),
    Rule(PYTORCH, stages=("reference", "gradients", "trace")),
    Rule(PYTORCH, stages=("export",), reason="^capture$"),
    Rule(PYTORCH, stages=("export",), detail=r"torch\._dynamo|torch\.export|torch\.fx\.|torch/fx/|FakeTensor"),
    Rule(PYTORCH_XLA, stages=("export",), tool="^torch_xla$"),
    Rule(TORCH_MLIR, stages=("export",)),
    # A verifier's message about an operation of the input, or the crash of a pass that converts it.
    Rule(IREE_INPUT, stages=("compile",), detail=_INPUT_OPERATION),
    Rule(IREE_INPUT, stages=("compile",), detail=rf"; in .*({_INPUT_PASS})"),
    # torch-mlir's patterns, which IREE includes, make casts that the verifier rejects.
    Rule(IREE_INPUT, stages=("compile",), detail=r"'tensor\.cast' op operand type .* are cast incompatible"),
    Rule(IREE_CODEGEN, stages=("compile",)),
    Rule(IREE_RUNTIME, stages=("verify",)),
    Rule(IREE_RUNTIME, stages=("time",), tool="^torch_(mlir|xla)$"),
    Rule(PYTORCH, stages=("baseline", "time"), tool="^(eager|inductor)$"),
    Rule(PYTORCH_XLA, stages=("baseline", "time"), tool="^(xla|openxla)$"),
    Rule(RUNTIME, stages=("baseline", "time")),
)  # fmt: skip
"""The first rule that applies gives the fault."""


def of_outcome(ended: Outcome, tool: str) -> str:
    """Return the fault of a row, given the outcome of the stage that failed. `tool`: the exporter of the frontend, or
    the runtime of the baseline. Raises ValueError for a stage that no rule knows."""
    for rule in RULES:
        if rule.applies(ended, tool):
            return rule.fault
    raise ValueError(f"no rule for a failure of the stage {ended.stage!r}: {ended}")
