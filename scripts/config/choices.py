"""What can be chosen: precisions, tests, dtypes, and kinds of dumps and profiles, as named in the configuration, on command lines and in rows.

A precision is what a baseline computes in, if that is not simply the model's own dtype.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from scripts.frontends.sources.source import ModelKind

PRECISIONS = ("none", "fp16", "bf16", "amp-fp16", "amp-bf16")
"""none: the model's own dtype. fp16, bf16: weights and floating-point inputs are cast. amp-*: autocast
to that type; weights and inputs are not cast."""

MATMUL_PRECISIONS = ("highest", "high", "medium")
"""Precisions of float32 products, with the names of torch.set_float32_matmul_precision."""

DEFAULT_MATMUL_PRECISION = "highest"

Test = Literal["eval", "train"]
TESTS = get_args(Test)
"""What is run: the forward pass of a model, or a training step."""

DTYPES = ("f32", "f16", "bf16")
"""Dtypes that determine the tolerance, the finest first."""

_DTYPE_OF = {"fp16": "f16", "bf16": "bf16"}


def compute_dtype(model_dtype: str, precision: str) -> str:
    """The dtype, one of DTYPES, whose tolerance applies to results under `precision`.

    A cast replaces the model's dtype. Autocast leaves some operations in the model's dtype, so the
    coarser of the two applies.
    """
    if precision == "none":
        return model_dtype
    dtype = _DTYPE_OF[precision.removeprefix("amp-")]
    return max(model_dtype, dtype, key=DTYPES.index) if precision.startswith("amp-") else dtype


BASELINE_DUMPS = ("profile", "xla_metrics", "ir", "hlo_modules", "dynamo_counters")
"""Kinds of dump for baselines."""

IREE_DUMPS = ("iree_phases", "iree_graph")
"""Kinds of dump for IREE cells."""

MODULES = "modules"
"""The kind of dump that is what `snakemake profile` makes: profiles by module of IREE cells and of baselines."""

COMPILE_MODES = (
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
"""Values of `compile.mode` of a baseline: the modes of torch.compile (torch.compiler.list_mode_options)."""

BASES = ("eager", "inductor")
"""The runtimes with which every latency is compared; each has a column."""
BASES_OF: dict[ModelKind, tuple[str, ...]] = {"module": BASES, "onnx": ("onnxruntime",), "mlir": ("xla-stablehlo",)}  # fmt: skip
"""Those of each kind of model. The first one is the anchor of its groups."""

SUITE_NAMES = Path("models/suites/names")
"""The folder with a file per suite, of the names of its models. `vmfbench suites` writes them, in the environment torch-mlir."""
RENAMED = " -> "
"""Separates an old name from the one that replaced it, in a file of names."""
