"""Counts a model's weights on torch's meta device, where tensors have shapes but no values.

This happens in a child process, so that building cannot change the state of the model file's module.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripts.torch_model.footprint import Weights

COUNT_TIMEOUT_S = 120


COUNT_BYTES = 2 << 30
"""Maximum memory for counting. A model that computes real values may exceed it; then nothing is known."""


def count(build: Callable[[], Any], dtype: str) -> Weights | None:
    """The weights of the module that `build` makes, stored in `dtype` (f32, f16 or bf16; f32 is as
    built). None, with a note, if it cannot be built without values."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _count_and_exit(build, dtype, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    found = json.loads(said) if said else {"error": "the count did not end well"}
    if "error" in found:
        print(f"note: the weights are not counted before they are built: {found['error']}")
        return None
    return Weights(dtype=dtype, **found)


def _count_and_exit(build: Callable[[], Any], dtype: str, writer: int) -> None:
    """The child process: write the result and exit."""
    # The parent's garbage must not be freed here: an IREE session, for one, waits for its threads to end,
    # and a forked process has none of them.
    gc.freeze()
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(COUNT_TIMEOUT_S)
        # If the stage reaches its time limit here, its log has to show where the count hangs.
        faulthandler.enable(os.dup(2))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.stdout = sys.stderr = os.fdopen(quiet, "w")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + COUNT_BYTES, hard))
        found: Mapping[str, int | str] = _counted(build, dtype)
    except BaseException as error:
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    os.write(writer, json.dumps(found).encode())
    os._exit(0)


def _counted(build: Callable[[], Any], dtype: str) -> dict[str, int]:
    import torch

    sizes = {"f16": 2, "bf16": 2}
    with torch.device("meta"):
        module = build()
    found = {"count": 0, "built_bytes": 0, "kept_bytes": 0}
    for weight in (*module.parameters(), *module.buffers()):
        size = weight.element_size()
        kept = sizes.get(dtype, size) if weight.is_floating_point() else size
        found["count"] += weight.numel()
        found["built_bytes"] += weight.numel() * size
        found["kept_bytes"] += weight.numel() * kept
    return found


def _data_bytes() -> int:
    """This process's private memory, as RLIMIT_DATA counts it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
