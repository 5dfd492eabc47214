"""Count the weak operator problems, with BackendBench's inputs and with this project's.

    vmfbench operators --dataset problems.parquet --max-elements 300000 --out
    problems.jsonl .venvs/torch-mlir/bin/python -m benchmarks.weak_operators problems.jsonl --sample
    300

Run it with the Python of an environment that has torch. docs/operators.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from scripts.core import atomic
from scripts.tools.operators import make_operator_references
from scripts.tools.operators.calls import call_inputs
from scripts.tools.operators.calls.calling import Call, NotCallable
from scripts.tools.operators.problems.problem import Problem

_LIMIT_S = 60
"""Time limit in seconds of one problem with one kind of inputs."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.weak_operators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("problems", type=Path, help="JSON lines of `vmfbench operators --out`")
    parser.add_argument("--sample", type=int, help="so many of them, drawn with a fixed seed")
    parser.add_argument("--out", type=Path, help="JSON file with what was found of each problem")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = map(json.loads, args.problems.read_text().splitlines())
    problems = [Problem(line["op"], line["args"]) for line in lines]
    if args.sample:
        problems = random.Random(0).sample(problems, args.sample)
    found = [examined(problem) for problem in problems]
    if args.out:
        atomic.write_json(args.out, found)
    for name in MAKERS:
        summarise(name, [one[name] for one in found if name in one])
    print("not callable:", dict(Counter(one["refused"] for one in found if "refused" in one)))


def examined(problem: Problem) -> dict:
    """Return the findings about a problem for each kind of inputs, by the names of MAKERS."""
    found: dict = {"name": problem.name, "args": problem.args}
    try:
        call = Call(problem)
    except NotCallable as error:
        return found | {"refused": str(error).partition(":")[0]}
    for name, make in MAKERS.items():
        found[name] = _apart(lambda make=make: _examined(call, make))
    return found


def _apart(examine: Callable[[], dict]) -> dict:
    """Return the result of a function that is run in another process.

    An operator may crash on inputs for which it is not defined. torch has one thread here, so that
    its process can be forked.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(_LIMIT_S)
        with os.fdopen(writing, "w") as out:
            json.dump(examine(), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as result:
        text = result.read()
    _, status = os.waitpid(child, 0)
    if status:
        return {"raised": f"crashed: signal {os.WTERMSIG(status)}"}
    return json.loads(text)


def _examined(call: Call, make: Callable[[Call], list[torch.Tensor]]) -> dict:
    try:
        made = make(call)
        observed = make_operator_references.observe(call, made)
        weak, weak_by_backend_bench = make_operator_references.weak_answers(call, made, observed)
        return {
            "marks": make_operator_references.marks(observed.golden),
            "deterministic": observed.deterministic,
            "weak": weak,
            "weak_by_backend_bench": weak_by_backend_bench,
        }
    except Exception as error:  # raised for inputs on which the operator is not defined
        return {"raised": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


def summarise(name: str, found: Iterable[dict]) -> None:
    """Print the shares of weak and marked problems for one kind of inputs."""
    found = list(found)
    ran = [one for one in found if "raised" not in one]
    print(f"{name} inputs: {len(found)} problems, {len(found) - len(ran)} raise")
    for key in ("weak", "weak_by_backend_bench", "marks"):
        several = [one for one in ran if one[key]]
        by_name = Counter(what for one in several for what in one[key])
        print(f"  {key}: {len(several)} ({len(several) / max(1, len(ran)):.1%}) {dict(by_name)}")
    print(f"  not deterministic: {sum(not one['deterministic'] for one in ran)}")


def _as_backend_bench(call: Call) -> list[torch.Tensor]:
    """Fill tensors as BackendBench does: floats uniformly in [0, 1), integers in [-9, 9]."""
    drawn = torch.Generator().manual_seed(0)
    made = []
    for spec in call.inputs:
        stride = spec.tensor.stride or torch.empty(spec.shape, device="meta").stride()
        extent = 1 + sum((n - 1) * step for n, step in zip(spec.shape, stride, strict=True))
        memory = torch.zeros(extent if 0 not in spec.shape else 0, dtype=spec.dtype)
        if spec.dtype.is_floating_point:
            memory.uniform_(0, 1, generator=drawn)
        else:
            low, high = (
                (0, 2) if spec.dtype is torch.bool else (0 if spec.dtype is torch.uint8 else -9, 10)
            )
            memory.copy_(torch.randint(low, high, memory.shape, generator=drawn))
        made.append(
            memory.as_strided(spec.shape, stride)
            if memory.numel()
            else torch.empty_strided(spec.shape, stride, dtype=spec.dtype)
        )
    return made


MAKERS = {
    "BackendBench's": _as_backend_bench,
    "this project's": lambda call: call_inputs.make(call, 0),
}


if __name__ == "__main__":
    main()
