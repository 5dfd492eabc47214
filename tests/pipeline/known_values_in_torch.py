"""Values known at export, of deep residual chains; prints what was found as JSON.

Run with the Python of an environment with torch; used by test_fx_rewrites.py.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import torch
from torch import fx

from scripts.frontends.lowering.fx_rewrites.operators import KnownValues

DEPTH = 5000
"""More than Python has stack frames; each node has two ways to the one before it."""
aten = torch.ops.aten


def main() -> None:
    found = {
        "constant": _last_of_chain("constant"),
        "input": _last_of_chain("input"),
        "mixed": _last_of_chain("mixed"),
    }
    print(json.dumps(found))


def _last_of_chain(kind: str) -> list[float] | None:
    """The value of the end of x = (x + x) / 2, DEPTH times, which starts from a constant or input."""
    graph = fx.Graph()
    constant, given = graph.placeholder("constant"), graph.placeholder("input")
    last = given if kind == "input" else constant
    for _ in range(DEPTH):
        doubled = graph.call_function(aten.add.Tensor, (last, last))
        last = graph.call_function(aten.mul.Tensor, (doubled, 0.5))
    if kind == "mixed":
        last = graph.call_function(aten.add.Tensor, (last, given))
    signature = SimpleNamespace(inputs_to_lifted_tensor_constants={"constant": "c"})
    program = SimpleNamespace(graph_signature=signature, constants={"c": torch.tensor([1.0, 2.0])})
    known = KnownValues(program)(last)
    return None if known is None else known.tolist()


if __name__ == "__main__":
    main()
