"""results/kernels.csv and its page and plots: bytes per second of kernels, by shape and runtime."""
