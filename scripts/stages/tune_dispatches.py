"""Find a tuning spec for a module: lowering configurations with which its slowest dispatches are faster.

The module is profiled. For each operation that takes a share of the time, lowering configurations around the one that
the compiler chooses are compiled and timed on their own, with the benchmarks of single dispatches that the compiler
writes. The spec has those that are faster; it is empty if there are none. Whether the whole module becomes faster,
and computes the same, is for its measurement to say.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.core import atomic, commands, requests
from scripts.core.requests import Folders
from scripts.features.profile import iree_profile as profile
from scripts.features.profile.iree_profile import CalledModule
from scripts.features.variants.specs import dispatches, search, spec
from scripts.iree.compile_options import CompileRequest


@dataclass(frozen=True, kw_only=True)
class SpecRequest(CompileRequest):
    """`budget_s`: seconds for the trials."""

    called: CalledModule
    budget_s: float


SPEC, REPORT = "spec.mlir", "report.json"


def tune_dispatches(args: SpecRequest, folders: Folders) -> None:
    """Write the spec and a report. Exits if the device is absent."""
    commands.report_working()
    called = args.called
    called.require_device()
    flags = args.compiler_flags()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="specs-") as scratch:
        folder = Path(scratch).absolute()
        shares = _shares(called, folder)
        configured, others = dispatches.configured(args.program, flags, folder / "dispatches")
        weighed = search.by_operation(configured, shares)
        slowest = [same[0] for _, same in weighed]
        matched = spec.matched(slowest, args.program, flags, folder / "matched")
        tuned, faster = search.search(
            weighed, matched, flags, folder / "trials", called.device, called.threads, args.budget_s
        )
    atomic.write_text(folders.results / SPEC, spec.text(faster) if faster else spec.NONE)
    report = {
        "operations": [asdict(operation) for operation in tuned],
        "others": sum(shares.get(name, 0.0) for name in others),
    }
    atomic.write_json(folders.results / REPORT, report)


def _shares(called: CalledModule, folder: Path) -> dict[str, float]:
    """The share of every function in the time of all dispatches."""
    events, _ = profile.run(called, folder)
    spent: Counter[str] = Counter()
    for event in events:
        spent[event.function] += event.ns
    whole = spent.total()
    return {name: ns / whole for name, ns in spent.items()}


if __name__ == "__main__":
    requests.run(SpecRequest, tune_dispatches)
