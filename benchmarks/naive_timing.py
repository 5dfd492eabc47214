"""Measures how wrong the usual ways to time PyTorch/XLA, inductor and eager are.

Run it with the Python of the runtimes' environment (torch-xla; torch-mlir for inductor and eager), on
an idle machine. All ways of one model and runtime are timed in turns in one process, after the cold
calls. `--loops` times the loops of benchmarks/loop_timing.py with the runtime xla.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import loop_timing, timing
from scripts.baselines.sessions.runtime import settle
from scripts.core.machine import physical_cores
from scripts.frontends.torch_model import loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.step import EvalStep, placed
from scripts.measure.timing.calls import run_calls

MODELS = Path(__file__).parents[1] / "models"
# Runtime to the packages whose versions count.
RUNTIMES = {
    "xla": ("torch", "torch_xla"),
    "openxla": ("torch", "torch_xla"),
    "inductor": ("torch",),
    "eager": ("torch",),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.naive_timing", description=__doc__)
    parser.add_argument("--models", nargs="+", default=["conv", "resnet", "bert"], metavar="NAME")
    parser.add_argument("--runtimes", nargs="+", default=["xla", "openxla"], choices=RUNTIMES)
    parser.add_argument("--calls", type=int, default=10, help="calls per timing")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each way")
    parser.add_argument(
        "--loops", action="store_true", help="time loops of the runtime xla instead"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    packages = sorted({package for runtime in args.runtimes for package in RUNTIMES[runtime]})
    results: dict[str, Any] = {"machine": timing.machine(packages), "naive": []}
    for runtime in ["xla"] if args.loops else args.runtimes:
        for name in args.models:
            take = compare_loops if args.loops else compare
            for row in take(name, runtime, args.calls, args.repeats):
                results["naive"].append(row)
                show(row)
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def opened(name: str, runtime_name: str) -> tuple[Any, Any, EvalStep]:
    """The runtime, its device, and the model's forward pass there."""
    runtime = importlib.import_module(f"scripts.baselines.{runtime_name}")
    device = runtime.Device("cpu", physical_cores())
    loaded = placed(loading.load(ModelChoice(name, MODELS / f"{name}.py", {})), device.device)
    step = EvalStep(loaded)
    step.call = runtime.prepare(loaded)
    device.finish()
    return runtime, device, step


def compare_loops(name: str, runtime_name: str, calls: int, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds a call of each loop, in a row for each thing that loops do."""
    _, device, step = opened(name, runtime_name)
    rows = [_loops_row(loops, device, calls, repeats) for loops in loop_timing.inference(step)]
    # Last: the model is in train mode afterwards.
    trained = loop_timing.training(step.loaded, device)
    rows += [_loops_row(loops, device, calls, repeats) for loops in trained]
    return [{"model": name, "runtime": runtime_name, "calls": calls, **row} for row in rows]


def _loops_row(loops: loop_timing.Loops, device: Any, calls: int, repeats: int) -> dict[str, Any]:
    [(right_name, right)] = loops.right.items()
    forms = {"right": right, **loops.wrong}
    taken: dict[str, list[float]] = {name: [] for name in forms}
    for number in range(repeats + 1):
        for name, loop in forms.items():
            start = time.perf_counter()
            loop(calls)
            seconds = time.perf_counter() - start
            device.finish()  # what that loop has left behind is not the next one's
            if number:  # the first round compiles
                taken[name].append(seconds * 1e3 / calls)
    found = {name: timing.spread(values) for name, values in taken.items()}
    return {"loop": f"{loops.name}; right: {right_name}", "ms": found}


def compare(name: str, runtime_name: str, calls: int, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds a call by each way; the right one is what a row's latency is of."""
    runtime, device, step = opened(name, runtime_name)
    cold = run_calls(step, device, calls).run
    settle(runtime)
    ways = naive_ways(step, device)
    taken: dict[str, list[float]] = {way: [] for way in ["right", *ways]}
    for _ in range(repeats):
        for way, call in ways.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            taken[way].append((time.perf_counter() - start) * 1e3 / calls)
            device.finish()  # what that way has left behind is not the next one's
        run = run_calls(step, device, calls).run
        taken["right"].append(run.total_s * 1e3 / calls)
    found = {way: timing.spread(values) for way, values in taken.items()}
    cold_ms = cold.total_s * 1e3 / calls
    found["compile inside the loop"] = {"median": cold_ms, "min": cold_ms, "max": cold_ms}
    return [{"model": name, "runtime": runtime_name, "calls": calls, "ms": found}]


def naive_ways(step: EvalStep, device: Any) -> dict[str, Callable[[], None]]:
    """What a call of each naive loop is, by its name."""
    if device.device.type != "xla":
        return {}
    import torch_xla

    def no_sync() -> None:
        step()

    def sync() -> None:
        held = step()
        torch_xla.sync()
        del held

    def sync_and_wait() -> None:
        held = step()
        torch_xla.sync(wait=True)
        del held

    return {"no sync": no_sync, "sync()": sync, "sync(wait=True)": sync_and_wait}


def show(row: dict[str, Any]) -> None:
    """A line a way: median, spread, and how far it is from the right one."""
    right = row["ms"]["right"]["median"]
    loop = f", {row['loop']}" if "loop" in row else ""
    print(f"{row['model']} {row['runtime']}, {row['calls']} calls{loop}")
    for way, value in row["ms"].items():
        text = f"{value['median']:9.3f} ms  ({value['min']:.3f} to {value['max']:.3f})"
        print(f"  {way:24} {text}  {value['median'] / right:8.3f} of the right one", flush=True)


if __name__ == "__main__":
    main()
