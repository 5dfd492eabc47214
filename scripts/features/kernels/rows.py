"""Makes the records of kernels: those of models, with the section `kernel`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.core import checkout
from scripts.core.tensors import DTYPES, Signature, TensorType
from scripts.features.kernels import kernels
from scripts.features.kernels.columns import OWN
from scripts.features.kernels.kernels import BITS, Kernel
from scripts.matrix import stages
from scripts.matrix.matrix import Matrix
from scripts.records import limit_shares as limits
from scripts.records import record
from scripts.records.fields import names
from scripts.timing.machine_limits import MachineLimits

Record = dict[str, Any]


class WrongTraffic(ValueError):
    """A kernel declares other tensors than its functions have. Names both."""


def records(matrix: Matrix, measured: Sequence[MachineLimits], root: Path = Path()) -> list[Record]:
    """The records of all rows of the kernels' matrix. `measured`: the limits of its devices. Raises WrongTraffic."""
    declared = {
        name: kernels.read(Path(model.file).stem, checkout.ROOT)
        for name, model in matrix.models.items()
    }
    for name, kernel in declared.items():
        if signature := _signature(root, name):
            _require_traffic(kernel, matrix.models[name].options["shape"], signature)
    kernel_records = record.records(matrix, root)
    for each in kernel_records:
        each["kernel"] = section(each, declared[each["model"]["name"]], measured)
    return kernel_records


def section(record: Record, kernel: Kernel, measured: Sequence[MachineLimits]) -> dict[str, Any]:
    """The section `kernel` of a record. `measured`: the limits of all devices."""
    shape, dtype = record["model"]["options"]["shape"], record["experiment"]["dtype"]
    moved, flop = kernel.memory_bytes(shape, dtype), kernel.flop(shape)
    latency, of_device = record["latency"], limits.of_row(record, measured)
    values: dict[str, Any] = {
        **dict.fromkeys(names(OWN, "kernel")),
        "name": kernel.name,
        "shape": shape,
        "memory_bytes": moved,
        "flop": flop,
        "flop_per_byte": flop / moved,
        "machine_gb_per_s": of_device and of_device.gb_per_s,
    }
    if not latency:
        return values
    slow, fast = latency["high_ms"], latency["low_ms"]
    values |= {
        "gb_per_s": moved / latency["ms"] / 1e6,
        "gb_per_s_low": slow and moved / slow / 1e6,
        "gb_per_s_high": fast and moved / fast / 1e6,
        "gflop_per_s": flop / latency["ms"] / 1e6,
    }
    if of_device:
        values["bandwidth_share"] = values["gb_per_s"] / of_device.gb_per_s
        share = limits.share(of_device, flop, moved, dtype, latency)
        values |= {key: share[key] for key in ("limit_share", "limited_by", "no_limit_share")}
    return values


def _signature(root: Path, model: str) -> Signature | None:
    """The signature of a reference; None if there is none, because the stage failed or was damaged."""
    path = root / stages.STAGES["reference"].path(model, "signature.json")
    try:
        return Signature.read(path) if path.stat().st_size else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _require_traffic(kernel: Kernel, shape: str, signature: Signature) -> None:
    """Raise WrongTraffic if a tensor of the kernel has another size than declared.

    Inputs and weights are compared by name, results by their order.
    """
    declared = kernel.tensor_bytes(shape, signature.dtype)
    there = {_name(tensor): _bytes(tensor) for tensor in (*signature.inputs, *signature.parameters)}
    reads = {name: declared[name] for name in kernel.reads}
    if reads.keys() != there.keys():
        odd = sorted(reads.keys() ^ there.keys())[0]
        side = "no such input" if odd in reads else "is not declared"
        raise WrongTraffic(f"{kernel.file}: READS: {odd}: {side}")
    for name, size in reads.items():
        fits = size <= there[name] if name in kernel.partly_read else size == there[name]
        if not fits:
            raise WrongTraffic(
                f"{kernel.file}: READS: {name}: {size} bytes declared at {shape}, but the input has {there[name]}"
            )
    results = [_bytes(tensor) for tensor in signature.outputs]
    writes = [declared[name] for name in kernel.writes]
    if results != writes:
        raise WrongTraffic(
            f"{kernel.file}: WRITES: {writes} bytes declared at {shape}, but the results have {results}"
        )


def _name(kind: TensorType) -> str:
    """`x` of the path `[1]['x']` of a keyword input; the name of a weight."""
    return kind.name.rpartition("['")[2].removesuffix("']")


def _bytes(kind: TensorType) -> int:
    return math.prod(kind.shape) * BITS[DTYPES[kind.dtype][0]] // 8
