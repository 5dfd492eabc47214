"""GCN (torch_geometric) of two layers, with the sizes of the Cora citation graph.

The graph is an input, as in an inductive use; self-loops and the symmetric normalisation are
computed in the call (GCNConv's defaults), not beforehand, so a program serves any graph of as
many nodes and edges. Kipf and Welling, "Semi-Supervised Classification with Graph
Convolutional Networks", 2017: 16 hidden units, 7 classes.
"""

import torch
from torch import nn
from torch_geometric.nn import GCNConv


class GCN(nn.Module):
    """Class scores (num_nodes, classes) of the nodes of one graph."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = GCNConv(features, hidden)
        self.second = GCNConv(hidden, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


def get_model(features: int = 1433, hidden: int = 16, classes: int = 7) -> nn.Module:
    return GCN(features, hidden, classes)


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    """Node features (num_nodes, features) and edges (2, num_edges): source, target."""
    x = torch.rand(num_nodes, features)
    edges = torch.randint(0, num_nodes, (2, num_edges))
    edges[1, ::100] = edges[0, ::100]  # some self-loops, as graphs have them
    return x, edges
