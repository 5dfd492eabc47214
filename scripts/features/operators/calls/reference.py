"""The reference of an operator problem: inputs, eager and float64 results, and what is known of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from scripts.core import tensors
from scripts.features.operators.calls import exporting, golden, inputs, weakness
from scripts.features.operators.calls.calling import Call
from scripts.features.operators.problems import scores
from scripts.torch_model import convert
from scripts.verify import torch_same

INPUTS, GOLDEN, SIGNATURE = "inputs.npz", "golden.npz", "signature.json"
FILES = (INPUTS, GOLDEN, SIGNATURE)
"""The files of a reference."""


def make(call: Call, seed: int, folder: Path) -> dict[str, Any]:
    """Write the reference of a problem into a folder; return its properties, as JSON.

    `marks`: marks of the results (golden.py). `weak`: wrong answers that pass this project's
    verification, `weak_backendbench`: those that pass BackendBench's criterion. `bytes`: size of
    inputs and outputs. `flops`: floating-point operations, as PyTorch counts them for products and
    convolutions; None for other operators. Raises NotCallable.
    """
    made = inputs.make(call, seed)
    stored = {str(i): convert.to_numpy(tensor) for i, tensor in enumerate(made)}
    folder.mkdir(parents=True, exist_ok=True)
    tensors.save_npz(folder / INPUTS, stored)
    observed = golden.observe(call, made)
    tensors.save_npz(folder / GOLDEN, observed.arrays())
    signature(call, observed, seed).write(folder / SIGNATURE)
    dtypes = [kind.dtype for kind in observed.types]

    def by_backendbench(answer: Sequence[np.ndarray]) -> bool:
        return scores.is_correct(answer, observed.eager, dtypes)

    judges = [weakness.verified_against(observed), by_backendbench]
    weak, weak_backendbench = weakness.weak_by(call, made, observed, judges)
    return {
        "marks": list(observed.marks),
        "weak": list(weak),
        "weak_backendbench": list(weak_backendbench),
        "bytes": sum(map(_bytes, (*exporting.input_types(call), *observed.types))),
        "flops": flops(call),
        "outputs": [
            {"shape": list(kind.shape), "dtype": tensors.DTYPES[kind.dtype][0]}
            for kind in observed.types
        ],
        "deterministic": observed.deterministic,
    }


def signature(call: Call, observed: golden.Observed, seed: int) -> tensors.Signature:
    """Return the signature of a problem, as that of a model without weights."""
    fp64 = observed.fp64
    return tensors.Signature(
        model=call.problem.name,
        dtype=observed.dtype,
        batch_size=1,
        inputs=exporting.input_types(call),
        outputs=observed.types,
        parameters=(),
        aliases={},
        options={"operator": call.problem.op, "arguments": call.problem.args, "seed": seed},
        torch_version=torch.__version__,
        has_fp64=fp64 is not None,
        rmse_vs_fp64=torch_same.rmse(observed.eager, fp64) if fp64 is not None else None,
        deterministic=observed.deterministic,
    )


def flops(call: Call) -> int | None:
    """Return the floating-point operations of a call, or None if PyTorch does not count them."""
    counter = FlopCounterMode(display=False)
    # A shape that depends on values, or an operator that has no rule for shapes.
    with contextlib.suppress(Exception), torch.no_grad():
        fake = call.fake_inputs()
        with fake[0].fake_mode, counter:
            call(*fake)
    return counter.get_total_flops() or None


def _bytes(kind: tensors.TensorType) -> int:
    """Return the size of a tensor in the program."""
    count = int(np.prod(kind.shape, dtype=np.int64))
    return count * (2 if kind.dtype == "bfloat16" else tensors.native(kind.dtype).itemsize)
