"""Compare what other executors compute from a program with golden: XLA's CPU client, and IREE at O0 on the CPU.

If XLA computes golden from the StableHLO from which IREE computes something else, IREE is wrong; if both are wrong, the program is.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import atomic, commands, process, requests, tensors
from scripts.core.requests import Folders
from scripts.frontends.xla_client import Client, UnlinkError, call, unlink
from scripts.iree.backends import BACKENDS
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool
from scripts.measure.verify.verify import Check, Expected, verify
from scripts.tools.reproduce.mismatch import COMPARED, O0, SAME, XLA


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """`flags`: of iree-compile for the CPU at O0, which may take `limit_s` seconds."""

    program: Path
    weights: Path
    inputs: Path
    check: Check
    flags: list[str]
    limit_s: float


Results = list[np.ndarray]


class Failed(Exception):
    """An executor has no results. Says why."""


def compare_executors(request: ComparisonRequest, folders: Folders) -> None:
    """Write what each executor computes, compared with golden."""
    expected = request.check.expected()
    report: dict[str, Any] = {}
    computed: dict[str, Results] = {}
    for name, run in ((XLA, _on_xla), (O0, _on_iree)):
        results, why = _forked(lambda run=run: run(request, expected))  # type: ignore[misc]
        if results is None:
            report[name] = {"code": "", "detail": why}
            continue
        computed[name] = results
        said = verify(results, expected, request.check.tolerance)
        report[name] = {"code": said.code, "detail": said.detail}
    if len(computed) > 1:
        other = Expected(expected.types, computed[XLA], None, True, expected.dtype)
        report[SAME] = verify(computed[O0], other, request.check.tolerance).code
    atomic.write_json(folders.results / COMPARED, report)


def _forked(run: Callable[[], Results]) -> tuple[Results | None, str]:
    """The results of an executor in a process of its own, because it may crash; or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.npz")

        def work() -> bytes:
            try:
                tensors.save_results(file, run())
            except (Failed, UnlinkError, ImportError, RuntimeError, ValueError) as error:
                return (str(error).partition("\n")[0] or type(error).__name__).encode()
            return b""

        code, why = process.forked(work)
        if code or why:
            return None, why.decode() or f"it ended with {code}"
        return tensors.load_results(file), ""


def _inputs(args: ComparisonRequest) -> list[np.ndarray]:
    stored = tensors.load_npz(args.inputs)
    kinds = args.check.read_signature().inputs
    return [tensors.as_native(stored[str(i)], kind.dtype) for i, kind in enumerate(kinds)]


def _on_xla(args: ComparisonRequest, expected: Expected) -> Results:
    program = unlink(args.program.read_bytes())
    client = Client(len(os.sched_getaffinity(0)))
    executable = client.compile(program.text)
    kinds = {kind.name: kind for kind in args.check.read_signature().parameters}
    stored = tensors.read_archive(args.weights) if kinds else {}
    weights = [_passed(stored[key], kinds[key]) for key in program.weights]
    pairs = zip(_inputs(args), args.check.read_signature().inputs, strict=True)
    inputs = [_passed(array, kind) for array, kind in pairs]
    results = call(executable, client.place([*inputs, *weights]))
    return [
        np.asarray(result).view(tensors.native(kind.dtype))
        for result, kind in zip(results, expected.types, strict=True)
    ]


def _passed(array: np.ndarray, kind: tensors.TensorType) -> np.ndarray:
    """A tensor, or its bytes, as XLA takes it for a program of IREE: its integers have no sign, and XLA's are signed."""
    dtype = tensors.native(kind.dtype.removeprefix("u"))
    return array.view(dtype).reshape(kind.shape)


def _on_iree(args: ComparisonRequest, _: Expected) -> Results:
    with tempfile.TemporaryDirectory() as folder:
        vmfb = Path(folder, "module.vmfb")
        command = [tool("iree-compile"), *args.flags, str(args.program), "-o", str(vmfb)]
        try:
            compiled = process.captured(command, timeout_s=args.limit_s)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"iree-compile still ran after {args.limit_s:g} s") from error
        if compiled.returncode != 0:
            raise Failed(f"iree-compile ended with {compiled.returncode}")
        weights = args.weights if args.check.read_signature().parameters else None
        session = Session(Module(vmfb, weights, BACKENDS["llvm-cpu"].device), 1)
        return session.call(_inputs(args))[0]


if __name__ == "__main__":
    commands.run(lambda: requests.run(ComparisonRequest, compare_executors))
