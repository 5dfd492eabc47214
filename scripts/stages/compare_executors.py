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

from scripts.core import atomic, commands, process, tensors
from scripts.core.commands import option
from scripts.features.reproduce.compared import O0, SAME, XLA
from scripts.iree.backends import BACKENDS
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool
from scripts.verify.verify import Check, Expected, verify
from scripts.xla.client import Client, UnlinkError, call, unlink


@dataclass(frozen=True, kw_only=True)
class Options:
    program: Path
    weights: Path
    inputs: Path
    check: Check
    flags: list[str] = option(help="of iree-compile for the CPU at O0, as a JSON list")
    limit_s: float = option(help="seconds to compile at O0")
    out: Path


Results = list[np.ndarray]


class Failed(Exception):
    """An executor has no results. Says why."""


def main() -> None:
    args = commands.parse_options(Options)
    expected = args.check.expected()
    report: dict[str, Any] = {}
    computed: dict[str, Results] = {}
    for name, run in ((XLA, _on_xla), (O0, _on_iree)):
        results, why = _forked(lambda run=run: run(args, expected))  # type: ignore[misc]
        if results is None:
            report[name] = {"code": "", "detail": why}
            continue
        computed[name] = results
        said = verify(results, expected, args.check.tolerance)
        report[name] = {"code": said.code, "detail": said.detail}
    if len(computed) > 1:
        other = Expected(expected.types, computed[XLA], None, True, expected.dtype)
        report[SAME] = verify(computed[O0], other, args.check.tolerance).code
    atomic.write_json(args.out, report)


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


def _inputs(args: Options) -> list[np.ndarray]:
    stored = tensors.load_npz(args.inputs)
    kinds = args.check.read_signature().inputs
    return [tensors.as_native(stored[str(i)], kind.dtype) for i, kind in enumerate(kinds)]


def _on_xla(args: Options, expected: Expected) -> Results:
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


def _on_iree(args: Options, _: Expected) -> Results:
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
    commands.run(main)
