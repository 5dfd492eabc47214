"""What vmfbench does beyond the core: one package per feature."""
