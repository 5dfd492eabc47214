"""GraphSAGE (torch_geometric) of two layers with mean aggregation, with the sizes of Cora.

The graph is an input: GraphSAGE is made for graphs that training did not see. Hamilton, Ying
and Leskovec, "Inductive Representation Learning on Large Graphs", 2017.
"""

import torch
from torch import nn
from torch_geometric.nn import SAGEConv

from models.parts import graph


def get_model(features: int = 1433, hidden: int = 64, classes: int = 7) -> nn.Module:
    return graph.TwoLayers(SAGEConv(features, hidden), SAGEConv(hidden, classes), torch.relu)


def get_dummy_input(
    num_nodes: int = 2708, num_edges: int = 10556, features: int = 1433
) -> tuple[torch.Tensor, torch.Tensor]:
    return graph.random_graph(num_nodes, num_edges, features)
