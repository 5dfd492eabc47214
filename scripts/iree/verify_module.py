"""Verify a compiled module against golden on a device."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from scripts.core import commands, exits, process, tensors
from scripts.core.machine import physical_cores
from scripts.iree import session
from scripts.iree.backends import runs_on_cpu
from scripts.iree.session import (
    Module,
    NoDevice,
    Session,
    WrongSizes,
    command_line,
    device_info,
    write_inputs,
)
from scripts.measure.timing.calls import Run
from scripts.measure.verify import torch_same, train_results
from scripts.measure.verify.verification import Verification, Verified
from scripts.measure.verify.verify import Check, follow_generation, verify


@dataclass(frozen=True)
class Files:
    """`inputs`: inputs.npz of the reference. `raw_inputs`: folder for the inputs as raw bytes. `out`: the
    file to write."""

    inputs: Path
    raw_inputs: Path
    out: Path


def require_device(module: Module, threads: int) -> str:
    """The name of the device that a module runs on. Exits if this machine does not have it, or it lacks what the module was
    compiled for."""
    try:
        device = device_info(module.device, threads)
    except NoDevice as error:
        exits.fail(f"no device {module.device}: {error}", exits.UNAVAILABLE)
    if lacking := session.lacking_of_profile(module.vmfb, module.device, device["path"]):
        exits.fail(f"{exits.LACKS_PROFILE}: {device['name']} lacks {lacking}", exits.UNAVAILABLE)
    return device["name"]


def verify_module(
    module: Module,
    device_name: str,
    files: Files,
    check: Check,
    threads: int,
    observe: Callable[[Sequence[np.ndarray]], None] = lambda _: None,
) -> None:
    """Load a module, call it, compare its results with golden ones, and write what was found out.

    `observe` is called with the outputs of the first call. Exits if the results are wrong (the file is written first), and
    if there are more threads than cores.
    """
    on_cpu = runs_on_cpu(module.device)
    if on_cpu and threads > (cores := physical_cores()):
        exits.fail(
            f"measure.threads is {threads}, but IREE pins one worker to each of {cores} cores"
        )
    types = check.read_signature().inputs
    stored = tensors.load_npz(files.inputs)
    inputs = [tensors.as_native(stored[str(i)], kind.dtype) for i, kind in enumerate(types)]
    commands.report_working()
    # A slow device may be stopped at any point: the log shows how far it came.
    commands.report_part("load")
    print(f"loading on {device_name}", flush=True)
    process.reset_peak_rss()
    session = Session(module, threads)
    print(f"loaded in {session.load_s:.3f} s; first call", flush=True)
    commands.report_part("first call")
    try:
        outputs, first_call_s = session.call(inputs)
    except WrongSizes as error:
        exits.fail(str(error), reason="input-sizes")
    peak_mb = process.peak_rss_mb()
    observe(outputs)
    left_out: dict[str, str] = {}
    verification = _verification(session, module, inputs, outputs, check, threads, left_out)
    print(f"first call took {first_call_s:.3f} s: {verification.code}", flush=True)
    raw_inputs = write_inputs(files.raw_inputs, inputs, types)
    tool, *flags = command_line(module, raw_inputs, threads)
    Verified(
        device=module.device,
        device_name=device_name,
        threads=threads if on_cpu else None,
        verification=verification,
        load_ms=session.load_s * 1e3,
        first_call_ms=first_call_s * 1e3,
        runs=(Run(first_call_s),),
        max_rss_mb=peak_mb,
        command=shlex.join([tool, *flags]),
        flags=tuple(flags),
        versions={"iree": _runtime_version()},
        left_out=left_out,
    ).write(files.out)
    if verification.code != torch_same.PASS:
        exits.fail(f"{verification.code}: {verification.detail}", exits.WRONG_RESULT)


def _runtime_version() -> str:
    """The version of the runtime: of its package, or of a local build, which is no package."""
    try:
        return metadata.version("iree-base-runtime")
    except metadata.PackageNotFoundError:
        from iree.runtime import version

        return version.VERSION or "local"


def _verification(
    session: Session,
    module: Module,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    check: Check,
    threads: int,
    left_out: dict[str, str],
) -> Verification:
    """Compare the outputs of the first call; then the greedy tokens of a language model, or the losses of further training
    steps. `left_out` gets what could not be compared."""
    signature = check.read_signature()
    names = train_results.names(signature.outputs)
    compared: Sequence[np.ndarray] = outputs
    if module.weights is not None:
        compared = train_results.compared(outputs, signature, module.weights)
    if names and len(outputs) != len(names):
        names = None  # which is reported as another number of outputs
    expected = check.expected()
    verification = verify(compared, expected, check.tolerance, names)
    if names:
        verification = train_results.require_changes(verification, compared, expected)
        return _follow_training(verification, outputs, module, inputs, check, threads)

    def again(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for other inputs of the same types as the reference's."""
        pairs = zip(arrays, signature.inputs, strict=True)
        return session.call([tensors.as_native(array, kind.dtype) for array, kind in pairs])[0]

    return follow_generation(verification, again, inputs, signature, left_out)


def _follow_training(
    passed: Verification,
    outputs: Sequence[np.ndarray],
    module: Module,
    inputs: Sequence[np.ndarray],
    check: Check,
    threads: int,
) -> Verification:
    """The verification of a training step, after its successors: each is a call with the weights that the one
    before has left."""
    losses = tensors.load_npz(check.golden, train_results.LOSSES)[train_results.LOSSES]

    def step(weights: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        session = Session(module, threads, weights)
        outputs, _ = session.call(inputs)
        session.close()
        return outputs

    followed = train_results.follow(passed, outputs, step, check.read_signature(), losses)
    pairs = zip(followed.losses or (), followed.golden_losses or (), strict=True)
    for number, (loss, golden) in enumerate(pairs, 1):
        shown = "not finite" if loss is None else f"{loss:.7g}"
        print(f"step {number}: loss {shown}, in eager mode {golden:.7g}")
    if followed.train_expected:
        print(
            f"{followed.train_steps} of {followed.train_expected} training steps: {followed.code}"
        )
    return followed
