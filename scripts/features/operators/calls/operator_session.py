"""An operator problem in one of PyTorch's own runtimes, as a baseline's session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from scripts.features.operators.calls import inputs
from scripts.features.operators.calls.calling import Call, tensors_in
from scripts.torch_model import convert, loading

EAGER = "eager"


class OperatorSession:
    """A call of an operator on its device. Calling the session is one timed call.

    `load_s`: seconds to place the inputs and prepare the call.
    """

    def __init__(
        self, call: Call, stored: Sequence[torch.Tensor], runtime: Any, device: Any
    ) -> None:
        """`stored`: the reference's inputs, contiguous. `runtime`: a module of scripts/baselines."""
        start = time.perf_counter()
        placed = [tensor.to(device.device) for tensor in inputs.laid_out(call, stored)]
        is_eager = runtime.__name__.rpartition(".")[2] == EAGER
        with torch.no_grad():
            self._run = call.bound(*placed) if is_eager else _compiled(call, placed, runtime)
        device.finish()
        self.load_s = time.perf_counter() - start

    def __call__(self) -> Any:
        with torch.no_grad():
            return self._run()

    def arrays(self, found: Any) -> dict[str, np.ndarray]:
        return {f"output {i}": convert.to_numpy(t) for i, t in enumerate(tensors_in(found))}


def _compiled(call: Call, placed: Sequence[torch.Tensor], runtime: Any) -> Callable[[], Any]:
    """Return a call of the graph of functional operators, compiled by a runtime."""
    torch._dynamo.reset()  # what was compiled for the problems before
    graph = loading.LoadedModel(call.problem.name, call.graph({}), tuple(placed), {}, file=None)
    prepared = runtime.prepare(graph)
    return lambda: prepared(*placed)
