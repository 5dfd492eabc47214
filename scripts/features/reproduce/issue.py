"""ISSUE.md: the text of an issue, in the form that the tracker of IREE asks for."""

from __future__ import annotations

from scripts.features.reproduce.case import COMPILE, WRONG_RESULT, Case

LOG_LINES = 40
LINE_CHARS = 400
TRACKER = "https://github.com/iree-org/iree/issues"
"""Where it is filed: the failures that have reproducers are of IREE's compiler or runtime."""


def text(case: Case, steps: str, log: str, reduced: str = "") -> str:
    """The text of the issue. `steps`: the commands; `log`: what the failing one printed; `reduced`: the program of few
    operations that fails in the same way, if there is one."""
    what = "does not compile" if case.stage == COMPILE else _happened(case)
    small = (
        f"\nReduced to few operations that fail in the same way:\n\n```mlir\n{reduced.strip()}\n```\n"
        if reduced
        else ""
    )
    small_too = " (`./run_reduced.sh`: the reduced program)" if reduced else ""
    named = {
        case.exporter if name == "frontend" else name: value
        for name, value in case.versions.items()
    }
    versions = "".join(f"- {name}: {value}\n" for name, value in named.items() if value)
    return f"""\
<!-- Tracker: {TRACKER} -->

# {_title(case)}

### What happened?

A program that {case.exporter} exported (input dialect: {case.dialect}) {what}:

```text
{clipped(log, case.detail)}
```
{small}
### Steps to reproduce your issue

`./run.sh` in the attached folder does this, with nothing but the wheels of IREE{small_too}:

```sh
{steps}
```

### Version information

{versions}
### Additional context

Cell `{case.cell}` of vmfbench: {case.status} ({case.reason or "no failure"}).
"""


def _happened(case: Case) -> str:
    if case.reason == WRONG_RESULT:
        return "compiles, but computes other values than PyTorch in eager mode"
    if case.status == "ok":
        return f"takes {case.latency_ms:.3g} ms per call" if case.latency_ms else "runs"
    return f"compiles, and fails when it runs ({case.status})"


def _title(case: Case) -> str:
    detail = case.detail.partition(" [program.mlir")[0]
    return f"[{case.reason or case.status}] {detail[:120] or case.cell}"


def clipped(log: str, detail: str) -> str:
    """The first lines of a log, each of at most LINE_CHARS characters, or the detail if there are none."""
    lines = [line[:LINE_CHARS] for line in log.splitlines() if not line.startswith("$ ")]
    return "\n".join(lines[:LOG_LINES]) or detail
