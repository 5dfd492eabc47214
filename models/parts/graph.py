"""What the graph networks share: two layers of one kind, and a graph of Cora's size."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class TwoLayers(nn.Module):
    """Class scores (num_nodes, classes) of the nodes of one graph."""

    def __init__(
        self,
        first: nn.Module,
        second: nn.Module,
        activation: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        super().__init__()
        self.first, self.second, self.activation = first, second, activation

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(self.activation(self.first(x, edge_index)), edge_index)


def random_graph(
    num_nodes: int, num_edges: int, features: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Node features (num_nodes, features) and edges (2, num_edges): source, target."""
    x = torch.rand(num_nodes, features)
    edges = torch.randint(0, num_nodes, (2, num_edges))
    edges[1, ::100] = edges[0, ::100]  # some self-loops, as graphs have them
    return x, edges
