"""GATv2 (torch_geometric) of two layers, with the sizes of the Cora citation graph.

As models/gat.py, with the dynamic attention of Brody, Alon and Yahav, "How Attentive are Graph
Attention Networks?", 2022. The graph is an input; self-loops are made in the call.
"""

import torch
from torch import nn
from torch_geometric.nn import GATv2Conv


class GATv2(nn.Module):
    """Class scores (num_nodes, classes) of the nodes of one graph."""

    def __init__(self, features: int, hidden: int, heads: int, classes: int) -> None:
        super().__init__()
        self.first = GATv2Conv(features, hidden, heads=heads)
        self.second = GATv2Conv(hidden * heads, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(nn.functional.elu(self.first(x, edge_index)), edge_index)


def get_model(features: int = 1433, hidden: int = 8, heads: int = 8, classes: int = 7) -> nn.Module:
    return GATv2(features, hidden, heads, classes)


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    """Node features (num_nodes, features) and edges (2, num_edges): source, target."""
    x = torch.rand(num_nodes, features)
    edges = torch.randint(0, num_nodes, (2, num_edges))
    edges[1, ::100] = edges[0, ::100]  # some self-loops, as graphs have them
    return x, edges
