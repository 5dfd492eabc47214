"""A model with one planted cause of a longer call (`cause`), or without it (planted=False), for benchmarks/planted_causes.py."""

import torch
from torch import nn

ROWS, WIDTH, SMALL = 256, 1024, 64


class Part(nn.Module):
    """The part in which the cause is planted. All variants of a cause return the same values, or values that nothing else needs."""

    def __init__(self, cause: str, planted: bool) -> None:
        super().__init__()
        self.cause, self.planted = cause, planted
        self.register_buffer("index", torch.arange(ROWS * WIDTH) // 64)
        self.register_buffer("places", torch.arange(8 * ROWS * WIDTH))
        self.register_buffer("packed", torch.randint(-127, 127, (64 * WIDTH, SMALL), dtype=torch.int8))  # fmt: skip
        self.register_buffer("weight", self.packed.float() * 0.01)
        self.small = nn.ModuleList(nn.Linear(4, 4) for _ in range(200 if planted else 1))

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.cause)(x, hidden)

    def transpose(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return x.permute(2, 1, 0).contiguous() if self.planted else hidden

    def elementwise(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * torch.sigmoid(x) if self.planted else hidden

    def scatter(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        if self.planted:
            zeros = torch.zeros(ROWS * WIDTH // 64, dtype=x.dtype)
            return zeros.index_add(0, self.index, x[1].reshape(-1))
        return self.scattered(x[1]).reshape(-1, 64).sum(1)  # about as slow by value, on all threads

    def narrow_loop(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return (self.scattered(x) if self.planted else x).reshape(-1, 64).sum(1)

    def scattered(self, x: torch.Tensor) -> torch.Tensor:
        """All values in another order: loaded one at a time."""
        return x.reshape(-1)[(self.places[: x.numel()] * 7919) % x.numel()]

    def tiny_dispatches(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        small = hidden[:1, :4]
        for layer in self.small:
            small = torch.tanh(layer(small))
        return small

    def unpacked_weight(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        weight = self.packed.float() * 0.01 if self.planted else self.weight
        return hidden[:8] @ weight.t()


class Planted(nn.Module):
    def __init__(self, cause: str, planted: bool) -> None:
        super().__init__()
        # Small, so that what the cause leaves in the caches does not make these slower.
        self.layers = nn.Sequential(nn.Linear(SMALL, SMALL), nn.ReLU(), nn.Linear(SMALL, SMALL))
        self.part = Part(cause, planted)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.layers(x[0, :32, :SMALL])
        return hidden, self.part(x, hidden)


def get_model(cause: str = "transpose", planted: bool = True) -> nn.Module:
    return Planted(cause, planted)


def get_dummy_input() -> torch.Tensor:
    return torch.randn(8, ROWS, WIDTH)
