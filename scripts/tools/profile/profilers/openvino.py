"""Profiles OpenVINO on a CPU by its performance counters, which time the layers of the compiled model.

A layer names the layers of the model that it was fused from, and those that came out of PyTorch are named after the nodes of the captured
graph. The counters have a time per layer and no time between them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder

from scripts.baselines import openvino as baseline
from scripts.baselines.sessions import converted
from scripts.baselines.sessions.runtime import Work
from scripts.frontends.lowering import locations
from scripts.frontends.torch_model.loading import FLAT_PREFIX
from scripts.tools.profile.profilers import LAYOUT, Kernel, Node, Profiler
from scripts.tools.profile.rounds import CallTimes

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
        request.infer(inputs, share_inputs=True, share_outputs=True)
        return _profiled(request, inputs, calls, kernels)

    return Profiler(session, take, origins.modules)


def _profiled(
    request: Any, inputs: Sequence[Any], calls: int, kernels: Mapping[str, Kernel]
) -> list[CallTimes]:
    """The times of calls of a request that was called once before. A counter is the mean of all calls so far."""
    times, before = [], _sums_ms(request, 1)
    for number in range(2, 2 + calls):
        begun = time.perf_counter()
        request.infer(inputs, share_inputs=True, share_outputs=True)
        ms = (time.perf_counter() - begun) * 1e3
        now = _sums_ms(request, number)
        layers = {name: now[name] - before.get(name, 0.0) for name in now}
        before = now
        kernels_ms: dict[Any, float] = {kernels.get(name, Kernel(name)): each for name, each in layers.items()}  # fmt: skip
        times.append(CallTimes(ms, kernels_ms, 0.0, ms - sum(layers.values())))
    return times


def _sums_ms(request: Any, calls: int) -> dict[str, float]:
    return {
        layer.node_name: layer.real_time.total_seconds() * 1e3 * calls
        for layer in request.profiling_info
        if layer.real_time
    }


def mapped(
    model: Any, graph: Mapping[str, torch.fx.Node], origins: locations.Origins
) -> dict[str, Kernel]:
    """The kernels of a compiled model by the names of its layers, with the nodes of the captured graph."""
    kernels = {}
    for layer in model.get_runtime_model().get_ordered_ops():
        about = {key: value.astype(str) for key, value in layer.get_rt_info().items()}
        kind, name = about["layerType"], layer.get_friendly_name()
        fused = (part.partition("/")[0] for part in about["originalLayersNames"].split(","))
        names = [node for node in fused if node in origins.nodes]
        if kind in PRODUCTS:
            names = [*_products(names, graph), *names]
        nodes = (origins.nodes[node] for node in dict.fromkeys(names))
        known = tuple(Node(node.node, node.operator, node.module) for node in nodes)
        kernels[name] = Kernel(f"{name} {about['primitiveType']}", known, LAYOUT if kind in LAYOUTS else "")  # fmt: skip
    return kernels


def _products(names: Sequence[str], graph: Mapping[str, torch.fx.Node]) -> list[str]:
    """The convolution whose batch norm was folded into it, so that its own name is lost: the argument of the first of the nodes."""
    for name in names:
        for before in graph[name].all_input_nodes[:1]:
            if "convolution" in str(before.target):
                return [before.name]
    return []
