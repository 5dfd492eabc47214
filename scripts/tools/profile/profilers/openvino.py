"""Profiles OpenVINO on a CPU by its performance counters, which time the layers of the compiled model.

A layer names the layers of the model that it was fused from, and those that came out of PyTorch are named after the nodes of the captured
graph. The counters have a time per layer and no time between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder

from scripts.baselines import openvino as baseline
from scripts.baselines.sessions import converted
from scripts.baselines.sessions.runtime import Work
from scripts.frontends.lowering import locations
from scripts.frontends.torch_model.loading import FLAT_PREFIX
from scripts.tools.profile import profilers
from scripts.tools.profile.profilers import Kernel, Profiler, base_name
from scripts.tools.profile.rounds import CallTimes, timed_ms

LAYOUTS = frozenset(("Reorder", "Transpose", "Reshape", "Convert"))
PRODUCTS = frozenset(("Convolution", "Deconvolution", "FullyConnected", "MatMul"))


def open_profiler(work: Work, runtime: Any, device: Any) -> Profiler:
    """The model of a cell, compiled by OpenVINO."""
    session = runtime.open_session(work, device)
    program = converted.exported(session.step.loaded)
    # OpenVINO decomposes operators before it names its layers after the nodes.
    graph = TorchFXPythonDecoder.from_exported_program(program).pt_module.graph
    origins = locations.of_nodes(graph.nodes, FLAT_PREFIX)
    model = baseline.compiled(converted.folder(), work.threads, {"PERF_COUNT": True})
    kernels = mapped(model, {node.name: node for node in graph.nodes}, origins)
    inputs = [tensor.contiguous().numpy() for _, tensor in session.step.loaded.inputs]

    def take(calls: int) -> list[CallTimes]:
        request = model.create_infer_request()
        times, before = list[CallTimes](), dict[str, float]()
        for number in range(1, 2 + calls):
            [ms] = timed_ms(lambda: request.infer(inputs, share_inputs=True, share_outputs=True), 1)
            now = _sums_ms(request, number)
            layers = {name: now[name] - before.get(name, 0.0) for name in now}
            kernels_ms: dict[Any, float] = {kernels.get(name, Kernel(name)): each for name, each in layers.items()}  # fmt: skip
            times.append(CallTimes(ms, kernels_ms, 0.0, ms - sum(layers.values())))
            before = now
        return times[1:]

    return Profiler(session, take, origins.modules)


def _sums_ms(request: Any, calls: int) -> dict[str, float]:
    """The milliseconds of each layer in all calls so far. A counter is the mean of these."""
    return {
        layer.node_name: layer.real_time.total_seconds() * 1e3 * calls
        for layer in request.profiling_info
        if layer.real_time
    }


def mapped(
    model: Any, graph: Mapping[str, torch.fx.Node], origins: locations.Origins
) -> dict[str, Kernel]:
    """The kernels of a compiled model by the names of its layers, with the nodes of the captured graph."""
    layers = [_Layer(layer, origins) for layer in model.get_runtime_model().get_ordered_ops()]
    nameless = [layer for layer in layers if layer.kind in PRODUCTS and not any(_is_product(graph[name]) for name in layer.names)]  # fmt: skip
    # What was folded into a product (batch norm, activation) gives the layer its names: the product is the nearest one before.
    free = [
        node.name for node in graph.values() if _is_product(node) and node.name in origins.nodes
    ]
    free = [name for name in free if not any(name in layer.names for layer in layers)]
    for layer in nameless:
        if layer.names and (product := _nearest(graph, layer.names, free)):
            layer.names.insert(0, product)
            free.remove(product)
    without = [layer for layer in nameless if not layer.names]
    if len(without) == len(free):  # one that lost all names
        for layer, product in zip(without, free, strict=True):
            layer.names.append(product)
    return {layer.name: layer.kernel(origins) for layer in layers}


class _Layer:
    """A layer of the compiled model: its name, its type, and the names of the captured nodes that it was fused from."""

    def __init__(self, layer: Any, origins: locations.Origins) -> None:
        about = {key: value.astype(str) for key, value in layer.get_rt_info().items()}
        self.kind, self.name = about["layerType"], layer.get_friendly_name()
        self._primitive = about["primitiveType"]
        fused = (part.partition("/")[0] for part in about["originalLayersNames"].split(","))
        self.names = list(dict.fromkeys(node for node in fused if node in origins.nodes))

    def kernel(self, origins: locations.Origins) -> Kernel:
        known = tuple(origins.nodes[name] for name in self.names)
        return Kernel(f"{self.name} {self._primitive}", known, self.kind in LAYOUTS)


def _nearest(graph: Mapping[str, torch.fx.Node], names: Sequence[str], free: Sequence[str]) -> str:
    """The nearest of some products before nodes; "" if there is none."""
    seen = [graph[name] for name in names]
    for node in seen:
        for before in node.all_input_nodes:
            if before.name in free:
                return before.name
            if before not in seen and not _is_product(before):
                seen.append(before)
    return ""


def _is_product(node: torch.fx.Node) -> bool:
    return base_name(str(node.target)) in profilers.PRODUCTS
