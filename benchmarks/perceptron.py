"""A perceptron of three layers for benchmarks/dynamic.yaml: small enough that what dynamic sizes cost a call shows."""

import torch
from torch import nn


def get_model(width: int = 1024) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 16)
    )


def get_dummy_input(batch_size: int = 4, width: int = 1024) -> torch.Tensor:
    return torch.randn(batch_size, width)
