"""Every use of Snakemake's internals. `apply` is what the rules call."""

from scripts.snakemake.apply import Patches, apply

__all__ = ["Patches", "apply"]
