"""Worker: verify operator problems in one of PyTorch's own runtimes, or time their calls on request."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.baselines.sessions.runtime import compile_count, open_device
from scripts.config import plugins
from scripts.core import exits, machine, process, requests, tensors
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.frontends.torch_model import convert, loading
from scripts.measure.timing import calls
from scripts.measure.timing.worker import Program
from scripts.measure.verify import verification
from scripts.measure.verify.verification import Verified
from scripts.measure.verify.verify import Check, verify
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.calls import call_inputs
from scripts.tools.operators.calls.calling import Call, tensors_in
from scripts.tools.operators.problems import scores
from scripts.tools.operators.problems.problem import Problem

EMPTY = {"op": "aten.neg.default", "args": "((T([1], f32),), {})", "inputs": ""}
"""A call that computes nothing: of one element."""


@dataclass(frozen=True, kw_only=True)
class OperatorBaselineRequest(batch_worker.TasksRequest):
    runtime: str
    device: str = option("cpu", choices=plugins.DEVICES)
    threads: int = machine.threads_option()


def verify_operator_baseline(args: OperatorBaselineRequest, folders: Folders) -> None:
    """Verify the problems."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str((folders.results / "cache").absolute())
    baseline = _Baseline(args)
    batch_worker.serve(args, baseline.handle, baseline.load)


class OperatorSession:
    """A call of an operator on its device. Calling the session is one timed call.

    `load_s`: seconds to place the inputs and prepare the call.
    """

    def __init__(
        self, call: Call, stored: Sequence[torch.Tensor], runtime: Any, device: Any
    ) -> None:
        """`stored`: the reference's inputs, contiguous. `runtime`: a module of scripts/baselines."""
        start = time.perf_counter()
        pairs = zip(stored, call.inputs, strict=True)
        placed = [call_inputs.laid_out(tensor, spec).to(device.device) for tensor, spec in pairs]
        is_eager = runtime.__name__.rpartition(".")[2] == "eager"
        with torch.no_grad():
            self._run = call.bound(*placed) if is_eager else _compiled(call, placed, runtime)
        device.finish()
        self.load_s = time.perf_counter() - start

    def __call__(self) -> Any:
        with torch.no_grad():
            return self._run()

    def arrays(self, outputs: Any) -> dict[str, np.ndarray]:
        return {f"output {i}": convert.to_numpy(t) for i, t in enumerate(tensors_in(outputs))}


def _compiled(call: Call, placed: Sequence[torch.Tensor], runtime: Any) -> Callable[[], Any]:
    """Return a call of the graph of functional operators, compiled by a runtime."""
    torch._dynamo.reset()  # what was compiled for the problems before
    graph = loading.LoadedModel(call.problem.name, call.graph({}), tuple(placed), {}, file=None)
    prepared = runtime.prepare(graph)
    return lambda: prepared(*placed)


class _Baseline:
    """A runtime on its device, which is opened with the first problem."""

    def __init__(self, args: OperatorBaselineRequest) -> None:
        self._args = args
        self._versions = plugins.installed(plugins.runtime(args.runtime).versions)
        self._device: Any = None

    def handle(self, payload: dict[str, Any], facts: dict[str, Any]) -> None:
        """Verify a problem."""
        folder = Path(payload["before"]["operator_reference"]["folder"])
        program = {key: payload[key] for key in ("op", "args")} | {
            "inputs": str(folder / "inputs.npz")
        }
        check = Check(folder / "golden.npz", folder / "signature.json", {})
        process.reset_peak_rss()
        session = self._session(program)
        cold = calls.run_calls(session, self._device, 1, keep=True)
        outputs = list(session.arrays(cold.first).values())
        expected = check.expected()
        facts |= scores.judged(outputs, expected)
        verified = verify(outputs, expected, {})
        facts |= dataclasses.asdict(
            Verified(
                device=self._device.kind,
                device_name=self._device.name,
                threads=self._args.threads if self._device.kind == "cpu" else None,
                verification=verified,
                load_ms=session.load_s * 1e3,
                first_call_ms=cold.first_s * 1e3,
                runs=(cold.run,),
                max_rss_mb=process.peak_rss_mb(),
                versions=self._versions,
            )
        )
        facts |= {"program": program, "empty": EMPTY}
        if verified.code != verification.PASS:
            exits.fail(f"{verified.code}: {verified.detail}", exits.WRONG_RESULT)

    def load(self, program: dict[str, Any]) -> Program:
        """Load a verified problem to time it."""
        session = self._session(program)
        session()
        self._device.finish()
        count = functools.partial(compile_count, self._runtime, self._device)
        return Program(session, self._device.finish, compilations=count)

    def _session(self, program: dict[str, Any]) -> OperatorSession:
        call = Call(Problem(program["op"], program["args"]))
        if self._device is None:
            args = self._args
            self._runtime, self._device = open_device(args.runtime, args.device, args.threads)
        inputs = [torch.ones(1)]
        if program["inputs"]:
            stored = tensors.load_npz(program["inputs"])
            inputs = [
                torch.from_numpy(stored[str(i)]).to(s.dtype) for i, s in enumerate(call.inputs)
            ]
        return OperatorSession(call, inputs, self._runtime, self._device)


if __name__ == "__main__":
    requests.run(OperatorBaselineRequest, verify_operator_baseline)
