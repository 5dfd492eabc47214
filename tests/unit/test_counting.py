"""The count of a model's weights, which a forked process does."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from scripts.torch_model import counting
from scripts.torch_model.footprint import Weights


class Session:
    """Garbage that only a collector finds, since it refers to itself. It tells which process freed it,
    as an IREE session would by waiting for ever for the threads it had before the fork."""

    def __init__(self, freed: Path) -> None:
        self.freed = freed
        self.itself = self

    def __del__(self) -> None:
        (self.freed / str(os.getpid())).touch()


def test_the_garbage_of_the_process_that_asks_is_not_freed_in_the_one_that_counts(tmp_path, monkeypatch):  # fmt: skip
    meta = SimpleNamespace(device=lambda name: contextlib.nullcontext())
    monkeypatch.setitem(sys.modules, "torch", meta)

    def build() -> SimpleNamespace:
        gc.collect()
        return SimpleNamespace(parameters=list, buffers=list)

    Session(tmp_path)
    counted = counting.count(build, "f32")
    assert counted == Weights(dtype="f32", count=0, built_bytes=0, kept_bytes=0)
    assert list(tmp_path.iterdir()) == []
    gc.collect()
    assert [file.name for file in tmp_path.iterdir()] == [str(os.getpid())]
