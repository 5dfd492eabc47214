"""Why the latencies of two rows of a cell must not be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scripts.matrix import toolchains
from scripts.records import remedied, speedups

Record = Mapping[str, Any]


def difference(before: Record, after: Record) -> str:
    """Return what differs between two rows that would have to be the same, or "".

    A value that one of the rows does not have (older records lack some) is not compared.
    """
    for name, of in _SAME.items():
        was, now = of(before), of(after)
        if was is not None and now is not None and was != now:
            return f"{name}: {_words(was, now)}"
    return ""


def _digest(name: str) -> Callable[[Record], Any]:
    return lambda record: (record["reference"].get("digests") or {}).get(name)


def _options(record: Record) -> Mapping[str, Any]:
    return record["reference"].get("resolved") or record["model"].get("options") or {}


def _experiment(name: str) -> Callable[[Record], Any]:
    return lambda record: record["experiment"].get(name)


def _program(record: Record) -> str | None:
    """The frontend whose program was compiled, without its toolchain."""
    return toolchains.base(remedied.frontend_used(record) or "") or None


_SAME: dict[str, Callable[[Record], Any]] = {
    "device": lambda record: speedups.device_of(record)[:2],
    "threads": lambda record: record["run"]["threads"],
    "test": _experiment("test"),
    "optimizer": lambda record: record["experiment"].get("optimizer") or None,
    "dtype": _experiment("dtype"),
    "precision": _experiment("precision"),
    "matmul precision": _experiment("matmul_precision"),
    "batch size": _experiment("batch_size"),
    "options of the model": _options,
    "bytes of the weights": lambda record: record["reference"].get("weights_bytes"),
    "weights": _digest("weights"),
    "inputs": _digest("inputs"),
    "code of the model": _digest("code"),
    "remedy": lambda record: (record.get("remedy") or {}).get("name") or "none",
    "program compiled": _program,
}
"""What both rows must share, by its name."""


def _words(was: Any, now: Any) -> str:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        keys = [key for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key)]
        return ", ".join(f"{key} {was.get(key)} before, {now.get(key)} after" for key in keys)
    shown = [" ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in (was, now)]
    return f"{shown[0]} before, {shown[1]} after"
