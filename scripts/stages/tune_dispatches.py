"""Find a tuning spec for a module: lowering configurations with which its slowest dispatches are faster.

The module is profiled. For each operation that takes a share of the time, lowering configurations around the one that
the compiler chooses are compiled and timed on their own, with the benchmarks of single dispatches that the compiler
writes. The spec has those that are faster; it is empty if there are none. Whether the whole module becomes faster,
and computes the same, is for its measurement to say.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from scripts.core import atomic, channel
from scripts.features.profile import iree_profile as profile
from scripts.features.variants.specs import dispatches, search, spec
from scripts.iree import added_flags, module_arguments
from scripts.iree.backends import add_arguments, flags_of
from scripts.iree.module_arguments import Called


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.tune_dispatches", description=__doc__
    )
    add_arguments(parser)
    module_arguments.add(parser)
    parser.add_argument("--budget-s", required=True, type=float, help="seconds for the trials")
    parser.add_argument("--out-spec", required=True, type=Path)
    parser.add_argument("--out-report", required=True, type=Path)
    args = parser.parse_args()
    called = Called.of(args)
    flags = [*flags_of(args), *added_flags.of(args.program, args.flags)]
    with tempfile.TemporaryDirectory(dir=args.out_spec.parent, prefix="specs-") as scratch:
        folder = Path(scratch).absolute()
        shares = _shares(called, folder)
        found, others = dispatches.configured(args.program, flags, folder / "dispatches")
        weighed = search.by_operation(found, shares)
        slowest = [same[0] for _, same in weighed]
        matched = spec.matched(slowest, args.program, flags, folder / "matched")
        made, faster = search.search(
            weighed, matched, flags, folder / "trials", args.device, called.threads, args.budget_s
        )
    atomic.write_text(args.out_spec, spec.text(faster) if faster else spec.NONE)
    report = {
        "operations": [asdict(operation) for operation in made],
        "others": sum(shares.get(name, 0.0) for name in others),
    }
    atomic.write_json(args.out_report, report)


def _shares(called: Called, folder: Path) -> dict[str, float]:
    """The share of every function in the time of all dispatches."""
    events, _ = profile.run(called, folder)
    spent: Counter[str] = Counter()
    for event in events:
        spent[event.function] += event.ns
    whole = spent.total()
    return {name: ns / whole for name, ns in spent.items()}


if __name__ == "__main__":
    main()
