"""ExecuTorch with its XNNPACK backend: the model through torch.export, lowered to a .pte file.

XNNPACK runs the subgraphs that it supports, and ExecuTorch's own CPU kernels the rest. Lowering and loading happen before
the first call; both are in compile_s.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchProgramManager, to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime

from scripts.baselines.sessions import converted
from scripts.baselines.sessions.converted import Call, compile_seconds
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.core import exits
from scripts.frontends.torch_model.loading import LoadedModel

__all__ = ["Device", "compile_seconds", "convert", "load", "open_session"]

DEVICES = ("cpu",)
TESTS = ("eval",)
VERSIONS = {"executorch": "executorch", "torch": "torch"}
MEMORY_FACTOR = 4.0
FORKABLE = True

FILE = "model.pte"


def convert(loaded: LoadedModel, folder: Path) -> None:
    converted.require_float32(loaded, "executorch")
    program = converted.exported(loaded)
    # Without the check, operators that are not core ATen are accepted where there is a kernel for them.
    config = EdgeCompileConfig(_check_ir_validity=False)
    with converted.rejected("ExecuTorch"):
        edge = to_edge_transform_and_lower(
            program, partitioner=[XnnpackPartitioner()], compile_config=config
        )
        lowered = edge.to_executorch()
    if missing := _without_kernel(lowered):
        exits.fail(f"ExecuTorch has no kernel for {', '.join(missing)}", exits.UNSUPPORTED)
    with (folder / FILE).open("wb") as file:
        lowered.write_to_file(file)


def _without_kernel(lowered: ExecutorchProgramManager) -> list[str]:
    """The operators of a program for which the runtime has no kernel."""
    known = Runtime.get().operator_registry.operator_names
    plans = lowered.executorch_program.execution_plan
    used = {
        f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        for plan in plans
        for operator in plan.operators
    }
    return sorted(used - known)


def load(folder: Path, threads: int) -> Call:
    # Its thread pool has a thread per core of the machine, and no setting; it is to be made before a program is loaded.
    portable_lib._unsafe_reset_threadpool(threads)
    with converted.rejected("ExecuTorch"):
        method = Runtime.get().load_program(folder / FILE).load_method("forward")

    def call(inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return method.execute([tensor.contiguous() for tensor in inputs])

    return call


open_session = functools.partial(converted.open_session, convert=convert, load=load)
