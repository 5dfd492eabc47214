"""How small a change of compile time `vmfbench compare --recompile` finds, by the number of turns.

    python -m benchmarks.compile_turns --turns 120

It compiles two programs in turns, in random order, with the iree-compile of .venvs/iree: functions with 20 and 21 dispatches. The shorter one is compiled twice per turn. For windows of
consecutive turns it prints how often equal programs differ and how often the longer one is found slower, at the level of
`compare: {rate: 0.01}`. Windows of equal programs do not overlap, so that each is a separate trial; those of the longer one
begin at every turn.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.core import process
from scripts.measure.timing import ratios
from scripts.results import wording
from scripts.tools.compare.comparing import Settings

COMPILER = ".venvs/iree/bin/iree-compile"
SHORT, AGAIN, LONG = "short", "short again", "long"
WINDOWS = (5, 10, 24, 48, 96)
"""Turns that are judged together."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_turns", description=__doc__)
    parser.add_argument("--turns", type=int, default=120)
    parser.add_argument(
        "--dispatches", type=int, nargs=2, default=(20, 21), help="of both programs"
    )
    parser.add_argument("--flags", nargs="*", default=[], help="further flags of iree-compile")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        short, long = (_written(Path(folder), count) for count in args.dispatches)
        programs = {SHORT: short, AGAIN: short, LONG: long}
        cpu_s: dict[str, list[float]] = {name: [] for name in programs}
        order = random.Random(0)
        for _ in range(args.turns):
            for name in order.sample(list(programs), len(programs)):
                cpu_s[name].append(_compiled(programs[name], args.flags))
    print(report(cpu_s))


def report(cpu_s: dict[str, list[float]]) -> str:
    """A Markdown table of the windows, after the ratio over all turns."""
    whole = _interval(cpu_s[SHORT], cpu_s[LONG])
    lines = []
    for size in WINDOWS:
        equal, longer = (
            [
                _interval(cpu_s[SHORT][at : at + size], cpu_s[name][at : at + size])
                for at in range(0, len(cpu_s[SHORT]) - size + 1, step)
            ]
            for name, step in ((AGAIN, size), (LONG, 1))
        )
        if not equal:
            continue
        differ = sum(not each.low <= 1 <= each.high for each in equal)
        slower = sum(each.low > 1 for each in longer)
        widths = sorted(each.half_width for each in (*equal, *longer))
        lines.append(
            (f"{size}", f"±{widths[len(widths) // 2]:.1%}", f"{differ} of {len(equal)}", f"{slower} of {len(longer)}")
        )  # fmt: skip
    header = ("turns", "median interval", "equal programs that differ", "longer programs found")
    return f"longer / shorter: {whole.ratio:.3f} ({whole.low:.3f} to {whole.high:.3f})\n\n" + (
        wording.table(header, lines, right=range(4))
    )


def _interval(before: Sequence[float], after: Sequence[float]) -> ratios.Interval:
    difference = ratios.paired(after, before)
    assert difference is not None
    return difference.interval(1 - Settings().rate)


def _written(folder: Path, functions: int) -> Path:
    """A program of so many dispatches: each computes with an input of another shape."""
    shapes = [f"tensor<{32 + at}x{64 + 8 * at}xf32>" for at in range(functions)]
    inputs = ", ".join(f"%x{at}: {shape}" for at, shape in enumerate(shapes))
    lines = [
        line
        for at, shape in enumerate(shapes)
        for line in (
            f"  %e{at} = math.exp %x{at} : {shape}",
            f"  %y{at} = arith.addf %e{at}, %x{at} : {shape}",
        )
    ]
    results = ", ".join(f"%y{at}" for at in range(functions))
    types = ", ".join(shapes)
    path = folder / f"{functions}.mlir"
    end = f"  return {results} : {types}"
    path.write_text("\n".join([f"func.func @main({inputs}) -> ({types}) {{", *lines, end, "}", ""]))
    return path


def _compiled(program: Path, flags: Sequence[str]) -> float:
    target = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    cpu = "--iree-llvmcpu-target-cpu=host"
    run = process.run_tool(
        [COMPILER, *target, cpu, "--iree-opt-level=O2", *flags, str(program), "-o", "/dev/null"]
    )
    if run.returncode:
        raise SystemExit(f"iree-compile ended with {run.returncode}")
    return run.cpu_s


if __name__ == "__main__":
    main()
