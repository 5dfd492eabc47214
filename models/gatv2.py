"""GATv2 (torch_geometric) of two layers, with the sizes of the Cora citation graph.

As models/gat.py, with the dynamic attention of Brody, Alon and Yahav, "How Attentive are Graph
Attention Networks?", 2022. The graph is an input; self-loops are made in the call.
"""

import torch
from torch import nn
from torch_geometric.nn import GATv2Conv

from models.parts import graph


def get_model(features: int = 1433, hidden: int = 8, heads: int = 8, classes: int = 7) -> nn.Module:
    return graph.TwoLayers(
        GATv2Conv(features, hidden, heads=heads),
        GATv2Conv(hidden * heads, classes),
        nn.functional.elu,
    )


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    return graph.random_graph(num_nodes, num_edges, features)
