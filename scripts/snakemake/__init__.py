"""Every use of Snakemake's internals."""
