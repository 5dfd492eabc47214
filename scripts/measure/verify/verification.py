"""The result of a verification and its codes: the same form for IREE and the baselines, to and from JSON."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.core import atomic
from scripts.measure.timing.calls import Run

FILE = "verification.json"

PASS = "PASS"
FAIL = "FAIL"
NONDETERMINISTIC = "NONDETERMINISTIC_EAGER_RUN"
EAGER_FAILED = "EAGER_FAILED"
EXCEPTION_RAISED = "EXCEPTION_RAISED"
SKIPPED = "VERIFIER_SKIPPED"
DIDNT_RUN = "VERIFIER_DIDNT_RUN"

CODES = {
    PASS: "verified; only rows with this code have a latency",
    FAIL: "it ran, and its results differ",
    NONDETERMINISTIC: "two eager runs differ",
    EAGER_FAILED: "eager failed, in the reference or gradients stage",
    EXCEPTION_RAISED: "the runtime failed or crashed",
    SKIPPED: "not run, as it is on a skip list",
    DIDNT_RUN: "an earlier stage failed, or the stage was stopped (timeout, oom, no device)",
}


@dataclass(frozen=True)
class Verification:
    """The result of the comparison with golden, and the tolerance (torch_same.Tolerance).

    For a language model, `greedy_tokens` of `greedy_expected` steps gave the token that transformers
    generates (greedy_tokens.py). For a training step, the loss of `train_steps` of `train_expected` successive
    steps was eager's (training.py): `losses` and `golden_losses`. A loss that is not finite is None.
    """

    code: str
    detail: str
    max_abs_error: float | None
    rmse_vs_fp64: float | None
    golden_rmse_vs_fp64: float | None
    tol: float
    cosine: bool = False
    noise: float | None = None
    greedy_tokens: int | None = None
    greedy_expected: int | None = None
    train_steps: int | None = None
    train_expected: int | None = None
    losses: tuple[float | None, ...] | None = None
    golden_losses: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Verified:
    """What a stage that verifies has found out about a row, also if the results are wrong.

    `load_ms`: time to load module and weights, until the first call can be made. `first_call_ms`: time of that call, with
    outputs on the host. Other stages of the run may have been running meanwhile. `compile_s`: time of all compilations of a
    baseline until its calls no longer compile. `runs`: of a baseline, the cold run and a warm one; of IREE, the first
    call. `max_rss_mb`: peak memory of the process, as counted by the kernel, without the verification where the runtime
    allows it. `device_memory_mb`: peak memory of tensors on a device with its own memory. `profile`: the profiles of
    `measure.collect`. `command`: of iree-benchmark-module, which times the same calls, and its `flags`. `python`: the interpreter.
    `rewrites`: names of the rewrites that have changed the graph, of a baseline with `rewrites`. `left_out`: values that could not
    be computed, and why (core/extra.py).
    """

    device: str
    device_name: str
    threads: int | None
    verification: Verification
    load_ms: float
    first_call_ms: float
    compile_s: float | None = None
    runs: tuple[Run, ...] = ()
    max_rss_mb: float | None = None
    device_memory_mb: float | None = None
    profile: dict | None = None
    command: str = ""
    flags: tuple[str, ...] = ()
    python: str = field(default_factory=lambda: sys.executable)
    versions: dict[str, str] = field(default_factory=dict)
    rewrites: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)

    def write(self, path: str | Path) -> None:
        versions = {"python": platform.python_version(), **self.versions}
        atomic.write_json(path, asdict(self) | {"versions": versions})
