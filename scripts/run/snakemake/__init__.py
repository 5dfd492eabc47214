"""Every use of Snakemake's internals. The rules make one `Patches` (apply.py)."""
