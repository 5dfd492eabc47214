"""The codes of a verification, and their meaning."""

from __future__ import annotations

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
