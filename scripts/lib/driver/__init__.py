"""What Snakemake asks about: the plan, fingerprints, environments, resources, progress."""
