"""Profiles ONNX Runtime by its own profiler, which times the nodes of the optimized graph.

torch.onnx.export names values after the nodes of the captured graph, and says where each ONNX node comes from. ONNX Runtime's
optimizer keeps the names of the values between fused nodes. So a fused node is mapped to the nodes between its results and its inputs.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnxruntime

from scripts.baselines import onnxruntime as baseline
from scripts.baselines.sessions import converted
from scripts.baselines.sessions.runtime import Work
from scripts.core import atomic
from scripts.frontends.lowering.locations import Origin
from scripts.frontends.torch_model.loading import FLAT_PREFIX
from scripts.tools.profile.profilers import Kernel, Profiler
from scripts.tools.profile.rounds import MICROSECOND, CallTimes, Run, timed_ms

LAYOUTS = frozenset(("ReorderInput", "ReorderOutput", "Transpose"))
PRODUCTS = {"Conv": "convolution", "ConvTranspose": "convolution", "Gemm": "addmm", "MatMul": "mm"}
"""Operators of ONNX that are products, and those of ATen. torch.onnx.export may fold a batch norm into a convolution, whose metadata is then
that of the batch norm."""
_BLOCKED = re.compile(r"_nchwc(?:_token_\d+)?$")
"""The end of the name of a node in another layout."""
_FX_NODE = re.compile(r"%(?P<name>\w+) : .*?call_function\[target=torch\.ops\.(?P<operator>[\w.]+)\]")  # fmt: skip
_KERNEL_TIME = "_kernel_time"


def open_profiler(work: Work, runtime: Any, device: Any) -> Profiler:
    """The model of a cell as a session of ONNX Runtime."""
    session = runtime.open_session(work, device)
    folder = converted.folder()
    inputs = [tensor for _, tensor in session.step.loaded.inputs]
    kinds: dict[str, str] = {}

    def take(calls: int) -> list[CallTimes]:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="profile-") as scratch:
            optimized = f"{scratch}/optimized.onnx"
            options = baseline.session_options(work.threads)
            options.enable_profiling = True
            options.profile_file_prefix = f"{scratch}/calls"
            options.optimized_model_filepath = optimized
            entry = "session.optimized_model_external_initializers"
            options.add_session_config_entry(f"{entry}_file_name", "optimized.data")
            options.add_session_config_entry(f"{entry}_min_size_in_bytes", "1024")
            options.log_severity_level = 3  # it warns that the file is for this machine
            file = baseline.model_file(folder)
            own = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            model = baseline.OnnxModel(own)
            walls_ms = timed_ms(lambda: model(inputs), 1 + calls)
            events = atomic.read_json(own.end_profiling())
            before, after = (onnx.load(each, load_external_data=False).graph for each in (file, optimized))  # fmt: skip
            runs = _runs(events, mapped(before, after, kinds))
            times = zip(walls_ms, runs, strict=True)
            return [CallTimes.of_runs(ms, run, MICROSECOND) for ms, run in times][1:]

    return Profiler(session, take, kinds)


def _runs(
    events: Sequence[Mapping[str, Any]], kernels: Mapping[str, Kernel]
) -> Iterator[list[Run]]:
    """The nodes that ran in each call, without those inside another node."""
    nodes = [event for event in events if event.get("cat") == "Node" and event["name"].endswith(_KERNEL_TIME)]  # fmt: skip
    nodes.sort(key=lambda event: event["ts"])
    for call in (event for event in events if event["name"] == "model_run"):
        end, outer = call["ts"] + call["dur"], list[Run]()
        for node in nodes:
            start = node["ts"]
            if call["ts"] <= start < end and (not outer or start >= outer[-1][2]):
                name = node["name"].removesuffix(_KERNEL_TIME)
                unknown = Kernel(name, (), node["args"]["op_name"] in LAYOUTS)
                outer.append((kernels.get(name, unknown), start, start + node["dur"]))
        yield outer


def mapped(exported: Any, optimized: Any, kinds: dict[str, str]) -> dict[str, Kernel]:
    """The kernels of an optimized graph by the names of its nodes, with the nodes of the captured graph, by those of the graph before.
    `kinds` gets the classes of the modules."""
    producers = {value: node for node in exported.node for value in node.output}
    results = {node.name: _results(node, producers) for node in optimized.node}
    ends = {value for values in results.values() for value in values}
    kernels = {}
    for node in optimized.node:
        own = results[node.name]
        todo, reached = [*own], dict[int, Any]()
        while todo:
            origin = producers.get(todo.pop())
            if origin is not None and id(origin) not in reached:
                reached[id(origin)] = origin
                todo += [value for value in origin.input if value not in ends]
        moves = node.op_type in LAYOUTS
        nodes = () if moves else tuple(_node(origin, kinds) for origin in reached.values())
        kernels[node.name] = Kernel(node.name, nodes, moves)
    return kernels


def _results(node: Any, producers: Mapping[str, Any]) -> list[str]:
    """The results of an optimized node as the exported graph names them. The names of values in another layout are numbers; then the node
    is named after its result."""
    if node.op_type in LAYOUTS:
        return []
    known = [value for value in node.output if value in producers]
    named = _BLOCKED.sub("", node.name)
    return known or [named] * (named in producers)


def _node(origin: Any, kinds: dict[str, str]) -> Origin:
    """The captured node of a node of the exported graph."""
    about = {prop.key: prop.value for prop in origin.metadata_props}
    match = _FX_NODE.search(about.get("pkg.torch.onnx.fx_node", ""))
    name, operator = (match["name"], match["operator"]) if match else (origin.output[0], origin.op_type)  # fmt: skip
    module = None
    scopes = ast.literal_eval(about.get("pkg.torch.onnx.name_scopes", "[]"))
    classes = ast.literal_eval(about.get("pkg.torch.onnx.class_hierarchy", "[]"))
    for path, kind in [*zip(scopes, classes, strict=False)][1:-1]:
        module = f"{path}.".removeprefix(FLAT_PREFIX).rstrip(".")
        kinds[module] = kind.rpartition(".")[2]
    if product := PRODUCTS.get(origin.op_type):
        operator = f"aten.{product}.default"
        for weight in origin.input[1:2]:
            if weight.startswith(FLAT_PREFIX) and weight.endswith(".weight"):
                module = weight.removeprefix(FLAT_PREFIX).removesuffix(".weight")
    return Origin(name, operator, module)
