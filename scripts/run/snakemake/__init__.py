"""Patches of Snakemake, and what follows its events. The rules make one `Patches` (apply.py)."""
