"""GAT (torch_geometric) of two layers, with the sizes of the Cora citation graph.

The graph is an input; self-loops are removed and added in the call (GATConv's defaults), not
beforehand, so a program serves any graph of as many nodes and edges. Velickovic et al., "Graph
Attention Networks", 2018: 8 heads of 8 units, then one head of the classes.
"""

import torch
from torch import nn
from torch_geometric.nn import GATConv

from models.parts import graph


def get_model(features: int = 1433, hidden: int = 8, heads: int = 8, classes: int = 7) -> nn.Module:
    return graph.TwoLayers(
        GATConv(features, hidden, heads=heads), GATConv(hidden * heads, classes), nn.functional.elu
    )


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    return graph.random_graph(num_nodes, num_edges, features)
