"""Two convolutions with ReLU: the smallest program that exercises every stage."""

import torch
from torch import nn


def get_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
    )


def get_dummy_input(batch_size: int = 1) -> torch.Tensor:
    return torch.randn(batch_size, 3, 64, 64)
