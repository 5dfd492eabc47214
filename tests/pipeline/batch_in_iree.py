"""Calls functions of modules. Run it with the Python of an environment that has IREE. Reads the case from standard input and
prints the results as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from scripts.iree.session import Module, Session, device_info


def call(case: dict[str, str]) -> dict[str, list[float]]:
    """Return the results of modules for 0, 1, 2, 3."""
    inputs = [np.arange(4, dtype=np.float32)]
    found = {}
    for name, vmfb in case.items():
        session = Session(Module(Path(vmfb), None, "local-task", "main"), 1)
        (output,), _ = session.call(inputs)
        found[name] = output.tolist()
    return found


def workers(case: list) -> int:
    """Return how many worker threads a session on a CPU has, when the device was asked for its name before."""
    vmfb, threads = case
    device_info("local-task", threads)
    session = Session(Module(Path(vmfb), None, "local-task", "main"), threads)
    session.call([np.arange(4, dtype=np.float32)])
    names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    return sum(name.startswith("iree-worker") for name in names)


if __name__ == "__main__":
    answers = {"call": call, "workers": workers}
    print(json.dumps(answers[sys.argv[1]](json.load(sys.stdin))))
