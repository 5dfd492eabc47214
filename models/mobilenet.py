"""MobileNet V3 (torchvision): `size` small or large."""

import torch
from torch import nn
from torchvision.models import get_model as torchvision_model


def get_model(size: str = "small", pretrained: bool = False) -> nn.Module:
    model = torchvision_model(f"mobilenet_v3_{size}", weights="DEFAULT" if pretrained else None)
    return model if pretrained else with_statistics(model)


def with_statistics(model: nn.Module) -> nn.Module:
    """Batch norms that have seen one batch of noise.

    Untrained ones neither centre nor scale: by the last layer every value is about 1e-9, and
    an output of zeros would pass for it.
    """
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(8, 3, 224, 224))
    return model.eval()


def get_dummy_input(batch_size: int = 1) -> torch.Tensor:
    return torch.randn(batch_size, 3, 224, 224)
