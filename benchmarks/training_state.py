"""Measure what it costs to return the new weights of a training step, compared with keeping them in mutable globals.

    .venvs/iree/bin/python -m benchmarks.training_state conv/torchmlir-torch+train bert/torchmlir-torch+train

Of each linked program of results/export/, three modules are compiled for the CPU and timed in turns:

- `all`: with the results of the workflow's program: the loss, the gradients and the new values;
- `returned`: with the loss and the new values as results;
- `stored`: with the loss as result; weights are mutable globals, which get the new values. Successive calls train.

All are compiled at O3 without further flags. `stored` is checked first: the losses of ten calls must be those of ten
steps in eager mode.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from scripts.core import tensors
from scripts.core.tensors import Signature
from scripts.iree import backends
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool
from scripts.measure.verify.train_results import LOSSES

VARIANTS = ("all", "returned", "stored")
DEVICE = "local-task"
_GLOBAL = re.compile(r'util\.global private (@\S+) = (#\w+\.parameter\.named<"\w+"::"([^"]+)">)')
_RETURN = re.compile(r"^    return (.*) : (.*)$", re.MULTILINE)
_RESULTS = re.compile(r"(func\.func @main\(.*\)) -> \((.*)\)(.*\{)$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training_state",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cells", nargs="+", metavar="MODEL/FRONTEND+train")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a variant per turn")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.turns < 2:
        parser.error("--turns: expected at least 2")
    for cell in args.cells:
        with tempfile.TemporaryDirectory() as folder:
            compare(cell, args, Path(folder))


def compare(cell: str, args: argparse.Namespace, folder: Path) -> None:
    """Compile, check and time the variants of a program, and print their medians."""
    reference = args.results / "gradients" / cell.split("/")[0]
    signature = Signature.read(reference / "signature.json")
    text = (args.results / "export" / cell / "program.mlir").read_text(encoding="utf-8")
    given = tensors.load_npz(reference / "inputs.npz")
    inputs = [
        tensors.as_native(given[str(i)], kind.dtype) for i, kind in enumerate(signature.inputs)
    ]
    names = [kind.name for kind in signature.outputs]
    sessions = {}
    for variant in VARIANTS:
        program, module = folder / f"{variant}.mlir", folder / f"{variant}.vmfb"
        program.write_text(of_variant(text, names, variant), encoding="utf-8")
        flags = backends.compile_flags("llvm-cpu", None, "O3", ())
        subprocess.run([tool("iree-compile"), *flags, str(program), "-o", str(module)], check=True)
        made = Module(module, reference / "weights.irpa", DEVICE)
        sessions[variant] = Session(made, args.threads)
    expected = tensors.load_npz(reference / "golden.npz", LOSSES)[LOSSES]
    losses = [float(sessions["stored"].call(inputs)[0][0]) for _ in expected]
    moved = np.abs(expected - expected[0]).max()
    if not np.allclose(losses, expected, rtol=1e-4, atol=0.05 * moved):
        raise SystemExit(f"{cell}: losses {losses}; expected those of eager, {expected.tolist()}")
    calls = {variant: session.uploaded(inputs) for variant, session in sessions.items()}
    blocks: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for turn in range(args.turns + 1):
        for variant in VARIANTS if turn % 2 else reversed(VARIANTS):
            found = seconds(calls[variant], args.seconds)
            if turn:  # the first turn warms up
                blocks[variant].append(found)
    for variant, found in blocks.items():
        ratios = [one / base for one, base in zip(found, blocks["all"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{cell:40} {variant:9} {1e3 * statistics.median(found):9.3f} ms, "
            f"{middle:.3f} of all (quartiles {low:.3f} to {high:.3f})",
            flush=True,
        )


def of_variant(text: str, names: list[str], variant: str) -> str:
    """The program with the results of a variant; `names`: of all results (core/tensors.py)."""
    if variant == "all":
        return text
    values, types = (part.split(", ") for part in _RETURN.search(text).groups())
    results = list(zip(names, values, types, strict=True))
    stores = []
    if variant == "stored":
        known = {name: symbol for symbol, _, name in _GLOBAL.findall(text)}
        text = _GLOBAL.sub(r"util.global private mutable \1 = \2", text)
        stores = [
            f"    util.global.store {value}, {known[name.removeprefix(tensors.CHANGE)]} : {kind}\n"
            for name, value, kind in results
            if name.startswith(tensors.CHANGE)
        ]
    dropped = (tensors.GRADIENT, tensors.CHANGE) if variant == "stored" else (tensors.GRADIENT,)
    kept = [one for one in results if not one[0].startswith(dropped)]
    kinds = ", ".join(kind for _, _, kind in kept)
    returned = ", ".join(value for _, value, _ in kept)
    text = _RETURN.sub(lambda _: f"{''.join(stores)}    return {returned} : {kinds}", text)
    return _RESULTS.sub(lambda found: f"{found[1]} -> ({kinds}){found[3]}", text)


def seconds(call, least: float) -> float:
    """Seconds per call, over calls that take `least` seconds together."""
    start, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < least or not count:
        call()
        count += 1
    return spent / count


if __name__ == "__main__":
    main()
