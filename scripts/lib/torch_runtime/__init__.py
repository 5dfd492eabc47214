"""Baselines: PyTorch's own runtimes, verified and timed."""
