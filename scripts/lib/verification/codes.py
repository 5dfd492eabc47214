"""The codes of a verification, and what each says of a cell."""

from __future__ import annotations

PASS = "PASS"
FAIL = "FAIL"
NONDETERMINISTIC = "NONDETERMINISTIC_EAGER_RUN"
EAGER_FAILED = "EAGER_FAILED"
EXCEPTION_RAISED = "EXCEPTION_RAISED"
SKIPPED = "VERIFIER_SKIPPED"
DIDNT_RUN = "VERIFIER_DIDNT_RUN"

CODES = {
    PASS: "verified; the only code beside which a latency stands",
    FAIL: "it ran, and its results differ",
    NONDETERMINISTIC: "two eager runs differ",
    EAGER_FAILED: "eager itself failed, in the reference or gradients stage",
    EXCEPTION_RAISED: "the runtime failed or crashed",
    SKIPPED: "on a skip list: not run",
    DIDNT_RUN: "the cell never came so far, or was stopped (timeout, oom, no device)",
}
