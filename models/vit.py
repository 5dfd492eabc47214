"""Vision Transformer (torchvision): `size` is its name there, b_16 by default."""

import torch
from torch import nn
from torchvision.models import get_model as torchvision_model


def get_model(size: str = "b_16", pretrained: bool = False) -> nn.Module:
    model = torchvision_model(f"vit_{size}", weights="DEFAULT" if pretrained else None)
    if not pretrained:
        # torchvision starts the head at zero: every output would be 0, and any wrong
        # program whose head survives would pass verification.
        nn.init.trunc_normal_(model.heads.head.weight, std=0.02)
    return model


def get_dummy_input(batch_size: int = 1) -> torch.Tensor:
    return torch.randn(batch_size, 3, 224, 224)
