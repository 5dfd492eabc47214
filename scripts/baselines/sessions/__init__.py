"""PyTorch's own runtimes: devices, sessions and profiles."""
