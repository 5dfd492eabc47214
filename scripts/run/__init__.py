"""Answers to the questions of the Snakemake rules: plan, fingerprints, environments, resources, progress."""
