"""Takes graphs through another compiler or runtime on the CPU, which scripts/baselines has."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from scripts.baselines.sessions.runtime import CACHE, open_device
from scripts.core import requests
from scripts.core.requests import Folders
from scripts.frontends.lowering import capture
from scripts.frontends.torch_model import convert, loading
from scripts.tools.fuzz.forks import (
    COMPILE,
    OK,
    REFUSED,
    RUN,
    WRONG,
    Cases,
    Ended,
    ForkedPath,
    by_program,
)
from scripts.tools.fuzz.fuzz_graphs import FuzzRequest, serve
from scripts.tools.fuzz.generator import Graph
from scripts.tools.fuzz.oracle import Reference
from scripts.tools.fuzz.paths import GraphModule, NotFunctional, captured
from scripts.tools.operators.calls.calling import tensors_in

_SCRIPTS = {
    "inductor": ("", "torch.compile(Graph())(*inputs)"),
    "onnxruntime": ("", "torch.onnx.export(Graph(), tuple(inputs), dynamo=True)(*inputs)"),
    "openvino": ("import openvino", 'openvino.compile_model(openvino.convert_model(torch.export.export(Graph(), tuple(inputs))), "CPU")(inputs)'),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BaselineRequest(FuzzRequest):
    """`runtime`: a module of scripts/baselines."""

    runtime: str


def fuzz_baseline(request: BaselineRequest, folders: Folders) -> None:
    """Take graphs through a baseline."""
    serve(request, Baseline(folders.results / "scratch", request.runtime), folders)


@dataclass
class Baseline(ForkedPath):
    """A runtime of scripts/baselines with one thread."""

    runtime: str
    each_s: ClassVar[int] = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        os.environ[CACHE] = str(self.folder.absolute() / "cache")
        self._module, _ = open_device(self.runtime, "cpu", 1)
        if self.runtime == "inductor":
            torch._inductor.config.compile_threads = 1  # a fork has no pool of processes
            self._module.prepare_machine()
        getattr(self._module, "warm_up", capture.warm_up)()

    def script(self) -> tuple[str, str]:
        return _SCRIPTS[self.runtime]

    def compiled_call(self, graph: Graph, reference: Reference) -> Callable[[], object]:
        call, inputs = self._compiled(graph), graph.tensors()
        return torch.no_grad()(lambda: call(*inputs))

    def judge(self, cases: Cases) -> None:
        for group in by_program(cases):
            call = None
            for n in group:
                graph, reference = cases[n]
                stage = RUN if call else COMPILE
                self._begin([n], stage)
                try:
                    with torch.no_grad():
                        if call is None:
                            call = self._compiled(graph)
                            stage = RUN
                            self._begin([n], stage)
                        results = tensors_in(call(*graph.tensors()))
                except (Exception, SystemExit) as error:  # exits.fail has written to the log
                    self._end([n], Ended(REFUSED, stage, self._diagnostic(error)))
                    continue
                problem = reference.problem([convert.to_numpy(tensor) for tensor in results])
                self._end([n], Ended(WRONG, RUN, problem) if problem else Ended(OK))

    def _compiled(self, graph: Graph) -> Callable[..., Any]:
        """The call of a graph. Raises what the runtime raises, or SystemExit."""
        inputs = tuple(graph.tensors())
        try:
            module: torch.nn.Module = captured(graph, {})
        except NotFunctional:
            module = GraphModule(graph)
        loaded = loading.LoadedModel("graph", module, inputs, {}, file=None)
        if self.runtime == "inductor":
            torch._dynamo.reset()
            call = self._module.prepare(loaded)
            call(*inputs)  # compiles
            return call
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            self._module.convert(loaded, Path(folder))
            load = self._module.load(Path(folder), 1)
        return lambda *tensors: load(tensors)


if __name__ == "__main__":
    requests.run(BaselineRequest, fuzz_baseline)
