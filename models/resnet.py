"""ResNet (torchvision): `size` is the depth, 18 by default."""

import torch
from torch import nn
from torchvision.models import get_model as torchvision_model


def get_model(size: str = "18", pretrained: bool = False) -> nn.Module:
    return torchvision_model(f"resnet{size}", weights="DEFAULT" if pretrained else None)


def get_dummy_input(batch_size: int = 1) -> torch.Tensor:
    return torch.randn(batch_size, 3, 224, 224)
