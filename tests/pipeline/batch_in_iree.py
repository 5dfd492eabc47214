"""Normalise programs, or call functions of a module. Run it with the Python of an environment that
has IREE. Reads the case from standard input and prints the results as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from scripts.iree.session import Module, Session, device_info
from scripts.tools.operators.batch.normalise import NormaliseError, Normaliser


def normalise(case: list[tuple[str, str]]) -> list[str]:
    """Return each normalised program, or its error message."""
    normaliser = Normaliser()
    found = []
    for text, entry in case:
        try:
            found.append(normaliser.normalise(text, entry))
        except NormaliseError as error:
            found.append(f"error: {error}")
    return found


def call(case: dict[str, list]) -> dict[str, list[float]]:
    """Return the results of functions for 0, 1, 2, 3."""
    inputs = [np.arange(4, dtype=np.float32)]
    found = {}
    for name, (vmfb, function) in case.items():
        session = Session(Module(Path(vmfb), None, "local-task", function), 1)
        (output,), _ = session.call(inputs)
        found[name] = output.tolist()
    return found


def workers(case: list) -> int:
    """Return how many worker threads a session on a CPU has, when the device was asked for its name before."""
    vmfb, function, threads = case
    device_info("local-task", threads)
    session = Session(Module(Path(vmfb), None, "local-task", function), threads)
    session.call([np.arange(4, dtype=np.float32)])
    names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    return sum(name.startswith("iree-worker") for name in names)


if __name__ == "__main__":
    answers = {"normalise": normalise, "call": call, "workers": workers}
    print(json.dumps(answers[sys.argv[1]](json.load(sys.stdin))))
