"""Every use of Snakemake's internals. The rules make one `Patches`."""

from scripts.snakemake.apply import Patches

__all__ = ["Patches"]
