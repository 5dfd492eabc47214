"""The bare commands of IREE's tools for a case, with paths within the bundle."""

from __future__ import annotations

from scripts.core.archive import SCOPE
from scripts.core.tensors import Signature, TensorType
from scripts.features.reproduce.case import COMPILE, TIME, Case
from scripts.iree import tuning_spec
from scripts.iree.backends import allocator_flags
from scripts.iree.session import runtime_flags

PROGRAM, MODULE, WEIGHTS = "program.mlir", "module.vmfb", "weights.irpa"
REDUCED = "reduced.mlir"
SPLATS = "weights.flags"
"""Flags of iree-create-parameters, one per weight."""
SPLAT = "0.01"
"""The value of all weights where their own values do not matter."""


def compiling(case: Case, program: str = PROGRAM, module: str = MODULE) -> list[str]:
    """The command that compiles a program with the flags of the case."""
    return ["iree-compile", *tuning_spec.in_bundle(case.flags), program, "-o", module]


def weights() -> list[str]:
    """The command that makes an archive of weights with the same shapes, which takes no space."""
    return ["iree-create-parameters", f"--flagfile={SPLATS}", f"--output={WEIGHTS}"]


def splats(signature: Signature) -> str:
    """The contents of the file SPLATS."""
    return "".join(f"--splat={one.name}={_splat(one)}\n" for one in signature.parameters)


def _splat(one: TensorType) -> str:
    kind = one.iree
    value = SPLAT if kind.rpartition("x")[2].startswith(("f", "bf")) else "1"
    return f"{kind}={value}"


def running(case: Case, signature: Signature, compared: bool) -> list[str]:
    """The command that runs the module once; `compared`: and compares its results with the golden ones."""
    expected = (
        [f"--expected_output={one.iree}=@golden/{n}.bin" for n, one in enumerate(signature.outputs)]
        if compared
        else []
    )
    tolerance = case.tol or 1e-3
    return [
        "iree-run-module",
        *_common(case, signature),
        *expected,
        *([f"--expected_f32_threshold={tolerance:g}"] if compared else []),
        *([] if compared else ["--output="]),
    ]


def timing(case: Case, signature: Signature) -> list[str]:
    """The command that times calls of the module."""
    return [
        "iree-benchmark-module",
        *_common(case, signature),
        *allocator_flags(case.device),
        "--benchmark_min_warmup_time=0.5",
        "--benchmark_repetitions=10",
    ]


def _common(case: Case, signature: Signature) -> list[str]:
    return [
        f"--module={MODULE}",
        *([f"--parameters={SCOPE}={WEIGHTS}"] if signature.parameters else []),
        "--function=main",
        f"--device={case.device}",
        *(runtime_flags(case.device, case.threads) if case.threads else []),
        *(f"--input={one.iree}=@inputs/{n}.bin" for n, one in enumerate(signature.inputs)),
    ]


def has_golden(case: Case, signature: Signature, own_weights: bool) -> bool:
    """Whether a bundle has golden outputs: those of eager mode with its weights."""
    return case.compares_values and (own_weights or not signature.parameters)


def steps(case: Case, signature: Signature, own_weights: bool) -> list[list[str]]:
    """The commands of run.sh: the last one shows what happened."""
    found = [compiling(case)]
    if case.stage != COMPILE:
        if signature.parameters and not own_weights:
            found.append(weights())
        compared = has_golden(case, signature, own_weights)
        found.append(
            timing(case, signature)
            if case.status == "ok" or case.stage == TIME
            else running(case, signature, compared)
        )
    return found


def of_reduced(case: Case, inputs: int, outputs: int, tolerance: float) -> list[list[str]]:
    """The commands of run_reduced.sh. `inputs`, `outputs`: how many .npy files there are of each; none of a failure to
    compile. `tolerance`: the largest difference from an output that is right."""
    found = [compiling(case, REDUCED, "reduced.vmfb")]
    if outputs:
        found.append(
            [
                *("iree-run-module", "--module=reduced.vmfb", "--function=main"),
                *(f"--device={case.device}", *runtime_flags(case.device, case.threads or 1)),
                *(f"--input=@input_{n}.npy" for n in range(inputs)),
                *(f"--expected_output=@expected_{n}.npy" for n in range(outputs)),
                *(f"--expected_{kind}_threshold={tolerance:g}" for kind in ("f16", "f32", "f64")),
            ]
        )
    return found
