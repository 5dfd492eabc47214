"""Verify a compiled module against golden on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.core import atomic, commands, exits, machine, requests, tensors
from scripts.core.commands import option
from scripts.core.dimensions import Dimension
from scripts.core.requests import Folders
from scripts.frontends.torch_model import footprint
from scripts.frontends.torch_model.errors import Fault
from scripts.iree.session import Module
from scripts.iree.verify_module import Files, require_device, verify_module
from scripts.measure.verify.verification import FILE
from scripts.measure.verify.verify import Check

INPUTS = "inputs"
"""The folder of the inputs as raw bytes, beside the verification."""


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """`vmfb`: modules, of which the first that is not empty counts. `device`: URI of IREE, such as cuda://0. `exported`: of a
    program for all sizes, the report of its export and the weights with which it was exported."""

    vmfb: Sequence[Path]
    weights: Path
    inputs: Path
    check: Check
    device: str
    threads: int = machine.threads_option()
    exported: Sequence[Path] = option(())


def verify_iree(request: VerifyRequest, folders: Folders) -> None:
    """Write the verification. Exits if the device is absent or the results are wrong."""
    commands.report_working()
    module = Module(
        _made(request.vmfb),
        request.weights,
        request.device,
        dimensions=_dimensions(request.exported),
    )
    device_name = require_device(module, request.threads)
    _require_same_weights(request.weights, request.exported)
    footprint.require(footprint.of_archive(request.check.read_signature()), "verify")
    files = Files(request.inputs, folders.own / INPUTS, folders.results / FILE)
    verify_module(module, device_name, files, request.check, request.threads)


def _dimensions(exported: Sequence[Path]) -> tuple[Dimension, ...]:
    if not exported:
        return ()
    return tuple(Dimension(**fields) for fields in atomic.read_json(exported[0])["dimensions"])


def _require_same_weights(own: Path, exported: Sequence[Path]) -> None:
    """Exit if a size of a model has other weights than the size with which its program was exported."""
    for other in exported[1:]:
        if other == own:
            continue
        mine, exporteds = tensors.read_archive(own), tensors.read_archive(other)
        differ = [
            name
            for name in sorted({*mine, *exporteds})
            if name not in mine
            or name not in exporteds
            or not np.array_equal(mine[name], exporteds[name])
        ]
        if differ:
            exits.fail(
                f"{own} and {other} differ in {differ[0]} (of {len(differ)}); a program for all sizes needs the same weights for "
                "all of them",
                reason=Fault.WEIGHTS,
            )


def _made(modules: Sequence[Path]) -> Path:
    """Return the module that was made: a stage that failed, or had nothing to do, left an empty file.

    Exits if there is none, as where nothing that a target asks for has passed in its tuning.
    """
    module = next((path for path in modules if path.stat().st_size), None)
    if module is None:
        exits.fail(
            f"{modules[-1]} is empty: nothing that is configured has passed", reason="no-module"
        )
    return module


if __name__ == "__main__":
    requests.run(VerifyRequest, verify_iree)
