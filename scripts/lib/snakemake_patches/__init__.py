"""Every use of Snakemake's internals. `apply` is what the rules call."""

from scripts.lib.snakemake_patches.apply import Patches, apply

__all__ = ["Patches", "apply"]
