"""Writes what shows slow operators: program, inputs, the commands that time it, and the text of an issue."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.lib.artifacts.archive import SCOPE
from scripts.lib.core import atomic
from scripts.lib.core.machine import cpu_name
from scripts.lib.graph_parts.slow import Slow
from scripts.lib.graph_parts.writing import Frontend, clipped, code
from scripts.lib.iree import shell
from scripts.lib.iree.backends import BACKENDS, allocator_flags
from scripts.lib.iree.session import runtime_flags
from scripts.lib.iree.specs import spec

PROGRAM, ISSUE, REPORT = "slow.mlir", "ISSUE.md", "slow.json"
WEIGHTS = "slow_weights.irpa"
TRACKER = "https://github.com/iree-org/iree/issues"


@dataclass(frozen=True)
class Case:
    """Slow operators of a model, and what they were lowered with. `versions`: by package."""

    model: str
    found: Slow
    frontend: Frontend
    threads: int
    versions: Mapping[str, str]


def write(case: Case, folder: Path) -> None:
    """Write the files of a case into a folder that exists."""
    found = case.found
    (folder / PROGRAM).write_text(found.compiled.text, encoding="utf-8")
    (folder / "slow_inputs").mkdir(exist_ok=True)
    for number, array in enumerate(found.compiled.inputs):
        array.tofile(folder / f"slow_inputs/{number}.bin")
    if (weights := _weights(case)) is not None:
        shutil.copyfile(weights, folder / WEIGHTS)
    script = folder / "run_slow.sh"
    shell.write(script, f"Times {PROGRAM}.", case.versions["IREE"], commands(case))
    (folder / ISSUE).write_text(issue(case, shell.steps(script)), encoding="utf-8")
    report = {
        "model": case.model,
        "operators": [str(node.target) for node in found.part.nodes],
        "of": found.of,
        "tests": found.tests,
        "complete": found.complete,
        "ratio": found.turns.ratio,
        "ratio_low": found.turns.low,
        "eager_ms": list(found.turns.eager_ms),
        "iree_ms": list(found.turns.iree_ms),
        "share_of_loss": found.turns.loss_ms / found.whole.loss_ms,
        "threads": case.threads,
        "cpu": cpu_name(),
    }
    atomic.write_json(folder / REPORT, report)


def commands(case: Case) -> list[list[str]]:
    """The commands of run_slow.sh: they compile the program and time it."""
    device = BACKENDS["llvm-cpu"].device
    inputs = [
        f"--input={kind.iree}=@slow_inputs/{n}.bin"
        for n, kind in enumerate(case.found.compiled.types)
    ]
    weights = [f"--parameters={SCOPE}={WEIGHTS}"] if _weights(case) is not None else []
    timed = [
        *("iree-benchmark-module", "--module=slow.vmfb", "--function=main", f"--device={device}"),
        *runtime_flags(device, case.threads),
        *allocator_flags(device),
        *weights,
        *inputs,
        *("--benchmark_min_warmup_time=0.5", "--benchmark_repetitions=10"),
    ]
    flags = spec.in_bundle(case.found.compiled.flags)
    return [["iree-compile", *flags, PROGRAM, "-o", "slow.vmfb"], timed]


def _weights(case: Case) -> Path | None:
    """The archive of the weights that the operators use."""
    module = case.found.compiled.module
    return module.weights if module is not None else None


def issue(case: Case, steps: str) -> str:
    """ISSUE.md: the text of an issue for IREE's tracker. `steps`: the commands of run_slow.sh."""
    found, turns = case.found, case.found.turns
    names = ", ".join(dict.fromkeys(f"`{node.target}`" for node in found.part.nodes))
    iree, eager = (statistics.median(of) for of in (turns.iree_ms, turns.eager_ms))
    versions = "".join(f"- {key}: {value}\n" for key, value in case.versions.items())
    at = turns.interval
    return f"""\
<!-- Tracker: {TRACKER} -->

# [llvm-cpu] {names}: {turns.ratio:.2g} × as slow as PyTorch in eager mode

### What happened?

On {cpu_name()} with {case.threads} threads, these operators take {iree:.3g} ms per call, and {eager:.3g} ms in eager mode: a ratio of
{at.ratio:.3g} ({at.low:.3g} to {at.high:.3g}, 95 % interval over {len(turns.iree_ms)} processes).

```python
{code(found.part.module)}
```

The program, by {case.frontend.name}:

```mlir
{clipped(found.compiled.text, PROGRAM)}
```

### Steps to reproduce your issue

```sh
{steps}
```

### Version information

{versions}
### Additional context

{len(found.part.nodes)} of {found.of} operators of {case.model}. The whole model takes {found.whole.loss_ms:.3g} ms longer than in eager mode, these
operators {turns.loss_ms:.3g} ms.
"""
