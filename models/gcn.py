"""GCN (torch_geometric) of two layers, with the sizes of the Cora citation graph.

The graph is an input, as in an inductive use; self-loops and the symmetric normalisation are
computed in the call (GCNConv's defaults), not beforehand, so a program serves any graph of as
many nodes and edges. Kipf and Welling, "Semi-Supervised Classification with Graph
Convolutional Networks", 2017: 16 hidden units, 7 classes.
"""

import torch
from torch import nn
from torch_geometric.nn import GCNConv

from models.parts import graph


def get_model(features: int = 1433, hidden: int = 16, classes: int = 7) -> nn.Module:
    return graph.TwoLayers(GCNConv(features, hidden), GCNConv(hidden, classes), torch.relu)


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    return graph.random_graph(num_nodes, num_edges, features)
