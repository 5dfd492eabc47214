"""The kinds of dumps and profiles, as named in the configuration, on command lines and in rows."""

from __future__ import annotations

from scripts.sources.source import ModelKind

BASELINE_DUMPS = ("profile", "xla_metrics", "ir", "hlo_modules", "dynamo_counters")
"""Kinds of dump for baselines."""

IREE_DUMPS = ("iree_phases", "iree_graph")
"""Kinds of dump for IREE cells."""

MODULES = "modules"
"""The kind of dump that is what `snakemake profile` makes: profiles by module of IREE cells and of baselines."""

MODULE_PROFILES = ("eager", "inductor")
"""Runtimes of baselines that have a profile by module (scripts.stages.profile_baseline)."""

IR_FORMATS = ("text", "hlo", "stablehlo")
"""Forms in which PyTorch/XLA can save its IR: `dumps.save_ir` is one of them, or a list."""

COMPILE_MODES = (
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
"""Values of `compile.mode` of a baseline: the modes of torch.compile (torch.compiler.list_mode_options)."""

PROFILES = ("profiler", "operators", "dynamo_counters")
"""Possible values of `measure.collect`: profiles of a baseline, taken by one more call after the timing."""
BASES = ("eager", "inductor")
"""The runtimes with which every latency is compared; each has a column."""
BASES_OF: dict[ModelKind, tuple[str, ...]] = {"module": BASES, "onnx": ("onnxruntime",), "mlir": ("xla-stablehlo",)}  # fmt: skip
"""Those of each kind of model. The first one is the anchor of its groups."""
