"""GAT (torch_geometric) of two layers, with the sizes of the Cora citation graph.

The graph is an input; self-loops are removed and added in the call (GATConv's defaults), not
beforehand, so a program serves any graph of as many nodes and edges. Velickovic et al., "Graph
Attention Networks", 2018: 8 heads of 8 units, then one head of the classes.
"""

import torch
from torch import nn
from torch_geometric.nn import GATConv


class GAT(nn.Module):
    """Class scores (num_nodes, classes) of the nodes of one graph."""

    def __init__(self, features: int, hidden: int, heads: int, classes: int) -> None:
        super().__init__()
        self.first = GATConv(features, hidden, heads=heads)
        self.second = GATConv(hidden * heads, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(nn.functional.elu(self.first(x, edge_index)), edge_index)


def get_model(features: int = 1433, hidden: int = 8, heads: int = 8, classes: int = 7) -> nn.Module:
    return GAT(features, hidden, heads, classes)


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    """Node features (num_nodes, features) and edges (2, num_edges): source, target."""
    x = torch.rand(num_nodes, features)
    edges = torch.randint(0, num_nodes, (2, num_edges))
    edges[1, ::100] = edges[0, ::100]  # some self-loops, as graphs have them
    return x, edges
