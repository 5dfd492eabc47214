"""Worker: verify functions of compiled modules against eager on a device, or time their calls on request."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import atomic, machine, requests, tensors
from scripts.core.requests import Folders
from scripts.iree import session
from scripts.iree.session import Module, load_command
from scripts.iree.verify_module import Files, require_device, verify_module
from scripts.measure.timing.worker import Program
from scripts.measure.verify.verify import Check
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.problems import scores
from scripts.tools.operators.problems.problem import Problem


@dataclass(frozen=True, kw_only=True)
class OperatorVerifyRequest(batch_worker.TasksRequest):
    device: str
    threads: int = machine.threads_option()


def verify_operators(args: OperatorVerifyRequest, folders: Folders) -> None:
    """Verify the problems, each in a folder of its own."""
    batch_worker.serve(args, _Verifying(args, folders.results).handle, load)


def load(program: list[str]) -> Program:
    """Load a program by its flags of iree-benchmark-module."""
    gc.collect()  # of the program before: IREE's objects refer to each other
    call = load_command(program)
    call()
    return Program(call)


class _Verifying:
    """Verifies problems. `_empty`: the flags of a call that computes nothing."""

    def __init__(self, args: OperatorVerifyRequest, out: Path) -> None:
        self._device, self._out = args.device, out
        self._threads = args.threads
        self._empty: list[str] = []

    def handle(self, payload: dict[str, Any], facts: dict[str, Any]) -> None:
        name = Problem(payload["op"], payload["args"]).name
        compiled = payload["before"]["operator_compile"]
        module = self._module(compiled)
        device_name = require_device(module, self._threads)
        reference = Path(payload["before"]["operator_reference"]["folder"])
        check = Check(reference / "golden.npz", reference / "signature.json", {})
        raw = self._out / name / "inputs"
        files = Files(reference / "inputs.npz", raw, self._out / name / "verification.json")
        files.out.parent.mkdir(parents=True, exist_ok=True)
        files.out.unlink(missing_ok=True)

        def observe(outputs: Sequence[np.ndarray]) -> None:
            facts.update(scores.judged(outputs, check.expected()))

        try:
            verify_module(module, device_name, files, check, self._threads, observe=observe)
        finally:
            if files.out.is_file():
                facts |= atomic.read_json(files.out)
                facts |= {"program": facts["flags"], "empty": self._empty_call(compiled)}

    def _module(self, compiled: dict[str, Any]) -> Module:
        return Module(Path(compiled["module"]), None, self._device, compiled["function"])

    def _empty_call(self, compiled: dict[str, Any]) -> list[str]:
        if not self._empty:
            types = [tensors.TensorType("arg0", (1,), "float32")]
            flags = session.write_inputs(self._out / "shortest", [np.ones(1, np.float32)], types)
            module = self._module(compiled["shortest"])
            self._empty = session.command_line(module, flags, self._threads)[1:]
        return self._empty


if __name__ == "__main__":
    requests.run(OperatorVerifyRequest, verify_operators)
