"""Time the modules of several toolchains for one cell in turns. Each has been verified and timed by its own measurement."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.lib.core import atomic, channel, exits
from scripts.lib.iree import turns
from scripts.lib.iree.turns import Side, TurnError, TurnRule, Turns
from scripts.lib.timing import arguments as timing_arguments


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(prog="python -m scripts.measure_turns", description=__doc__)
    parser.add_argument(
        "--side",
        required=True,
        nargs=2,
        action="append",
        metavar=("TOOLCHAIN", "FILE"),
        help="a toolchain, and the measurement.json of its cell; empty if that failed",
    )
    timing_arguments.add_threads(parser)
    parser.add_argument("--turns", type=int, default=TurnRule.turns)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    found = sides((name, Path(file)) for name, file in args.side)
    if len(found) < 2:
        print(f"nothing to compare: {len(found)} of {len(args.side)} toolchains have a latency")
        Turns(tuple(side.name for side in found), ()).write(args.out)
        return
    rule = TurnRule(turns=args.turns)
    if why := turns.why_not(found, rule):
        print(f"not measured in turns: {why}")
        Turns(tuple(side.name for side in found), ()).write(args.out)
        return
    channel.alone()
    channel.mark("turns")
    take(found, rule, timing_arguments.threads(args)).write(args.out)


def take(found: Sequence[Side], rule: TurnRule, threads: int) -> Turns:
    """Time modules in turns. A module that fails is left out, and the others are timed again from the first turn;
    exits if only one is left."""
    while True:
        try:
            return turns.take(found, rule, threads, lambda line: print(line, flush=True))
        except TurnError as error:
            rest = [side for side in found if side.name != error.side]
            if len(rest) < 2:
                exits.fail(str(error))
            print(f"left out: {error}", flush=True)
            found = rest


def sides(measured: Iterable[tuple[str, Path]]) -> list[Side]:
    """Return the modules that have a latency, with the commands that timed them."""
    found = []
    for name, path in measured:
        one = atomic.read_json(path) if path.stat().st_size else {}
        if one.get("latency"):
            call_s = sorted(one["latency"]["values_ms"])[0] / 1e3
            found.append(Side(name, one["command"], Path(), call_s))
    return found


if __name__ == "__main__":
    main()
