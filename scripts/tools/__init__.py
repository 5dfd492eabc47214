"""What vmfbench does beyond the core: one package per feature.

To take a feature out, delete its folder, its file in workflow/rules/ and its name in registry.py.
"""
