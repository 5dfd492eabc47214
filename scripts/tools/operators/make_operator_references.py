"""Worker: make the references of operator problems (inputs, eager and float64 results, signature).

A comparison with some results detects few errors: such results are marked. A problem is weak if wrong answers pass its
verification. An answer that is bitwise equal to eager's is not wrong (the result of `fill_` is a constant).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from scripts.core import exits, extra, requests, tensors
from scripts.core.requests import Folders
from scripts.frontends.torch_model import convert, errors
from scripts.measure.verify import torch_same, verification
from scripts.measure.verify.verify import Expected, verify
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.calls import call_inputs as make_inputs
from scripts.tools.operators.calls.calling import Call, NotCallable
from scripts.tools.operators.problems import scores
from scripts.tools.operators.problems.problem import Problem

INPUTS, GOLDEN, SIGNATURE = "inputs.npz", "golden.npz", "signature.json"
FILES = (INPUTS, GOLDEN, SIGNATURE)
"""The files of a reference."""
_TYPES_OF_TOLERANCE = {"float16": "f16", "bfloat16": "bf16"}
_OTHER_SEED = 1_000_003

Answer = Sequence[np.ndarray]


@dataclass(frozen=True, kw_only=True)
class OperatorReferenceRequest(batch_worker.TasksRequest):
    seed: int = 0
    threads: int = 1


def make_operator_references(args: OperatorReferenceRequest, folders: Folders) -> None:
    """Make the references, each in a folder of its own."""
    torch.set_num_threads(args.threads)

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        problem = Problem(payload["op"], payload["args"])
        try:
            facts |= make(Call(problem), args.seed, folders.results / problem.name)
        except NotCallable as error:
            exits.fail(str(error), exits.UNSUPPORTED)
        if not facts["deterministic"]:
            exits.fail(f"{verification.NONDETERMINISTIC}: two eager runs differ")
        facts["files"] = batch_worker.record_files(folders.results / problem.name, FILES)

    batch_worker.serve(args, handle)


def make(call: Call, seed: int, folder: Path) -> dict[str, Any]:
    """Write the reference of a problem into a folder; return its properties, as JSON.

    `weak`: wrong answers that pass this project's verification, `weak_backendbench`: those that pass BackendBench's
    criterion. `bytes`: size of inputs and outputs. `flops`: floating-point operations, as PyTorch counts them for
    products and convolutions; None for other operators. Raises NotCallable.
    """
    inputs = make_inputs.make(call, seed)
    stored = {str(i): convert.to_numpy(tensor) for i, tensor in enumerate(inputs)}
    folder.mkdir(parents=True, exist_ok=True)
    tensors.save_npz(folder / INPUTS, stored)
    left_out: dict[str, str] = {}
    eager = observe(call, inputs, left_out)
    tensors.save_npz(folder / GOLDEN, arrays(eager))
    tensors.Signature(
        model=call.problem.name,
        dtype=eager.dtype,
        batch_size=1,
        inputs=call.input_types(),
        outputs=tuple(eager.types),
        parameters=(),
        aliases={},
        options={"operator": call.problem.op, "arguments": call.problem.args, "seed": seed},
        torch_version=torch.__version__,
        has_fp64=eager.fp64 is not None,
        rmse_vs_fp64=None if eager.fp64 is None else torch_same.rmse(eager.golden, eager.fp64),
        deterministic=eager.deterministic,
        left_out=left_out,
    ).write(folder / SIGNATURE)
    weak, weak_backendbench = weak_answers(call, inputs, eager)
    return {
        "marks": list(marks(eager.golden)),
        "weak": weak,
        "weak_backendbench": weak_backendbench,
        "bytes": sum(map(_bytes, (*call.input_types(), *eager.types))),
        "flops": _flops(call),
        "outputs": [
            {"shape": list(kind.shape), "dtype": tensors.DTYPES[kind.dtype][0]}
            for kind in eager.types
        ],
        "deterministic": eager.deterministic,
    }


def observe(call: Call, inputs: Sequence[torch.Tensor], left_out: dict[str, str]) -> Expected:
    """Run a problem in eager mode twice, and once in float64 if torch can; otherwise `left_out` says why not.

    The dtype of the result, which sets the tolerance, is the narrowest type in the computation. Raises NotCallable if
    this version of torch cannot run it or its results cannot be compared. Other exceptions of the call are passed on.
    """
    with torch.no_grad():
        try:
            outputs = call(*inputs)
        except RuntimeError as error:
            # Kernels that lack a dtype raise a plain RuntimeError with this text.
            if isinstance(error, NotImplementedError) or "expected scalar type" in str(error):
                raise NotCallable(f"no-kernel: {errors.first_line(error)}") from error
            raise
        types = _types(outputs)
        eager = [convert.to_numpy(tensor) for tensor in outputs]
        del outputs
        again = [convert.to_numpy(tensor) for tensor in call(*inputs)]
    dtypes = [kind.dtype for kind in types]
    same = torch_same.compare(again, eager, None, torch_same.Tolerance(0.0), dtypes)
    used = {str(spec.dtype).removeprefix("torch.") for spec in call.inputs} | set(dtypes)
    return Expected(
        types=types,
        golden=eager,
        fp64=extra.or_left_out(extra.FLOAT64, lambda: _in_float64(call, inputs), left_out, None),
        deterministic=same.code == verification.PASS,
        dtype=next((short for name, short in _TYPES_OF_TOLERANCE.items() if name in used), "f32"),
    )


def _types(outputs: Sequence[torch.Tensor]) -> tuple[tensors.TensorType, ...]:
    """Return the types of results. Raises NotCallable if a stage cannot store a result, or if there
    is nothing to compare."""
    if not outputs:
        raise NotCallable("no-tensor-result: the operator returned no tensor")
    for tensor in outputs:
        if tensor.layout is not torch.strided:
            raise NotCallable(f"sparse: a result of layout {tensor.layout}")
        if str(tensor.dtype).removeprefix("torch.") not in tensors.DTYPES:
            raise NotCallable(f"dtype: a result of {tensor.dtype}, which no module returns")
    if not any(tensor.numel() for tensor in outputs):
        raise NotCallable("empty-result: no result has a value")
    return tuple(convert.tensor_type(f"output {i}", t) for i, t in enumerate(outputs))


def _in_float64(call: Call, inputs: Sequence[torch.Tensor]) -> list[np.ndarray]:
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    with torch.no_grad():
        outputs = Call(call.problem.with_float_dtype("f64"))(*wide)
    return [convert.to_numpy(tensor) for tensor in outputs]


def arrays(eager: Expected) -> dict[str, np.ndarray]:
    """Return the arrays of golden.npz: `golden.<i>` and, if there are any, `fp64.<i>`."""
    named = {f"golden.{i}": array for i, array in enumerate(eager.golden)}
    return named | {f"fp64.{i}": array for i, array in enumerate(eager.fp64 or ())}


def marks(results: Answer) -> tuple[str, ...]:
    """Return the marks of results: NaN values, infinities, or only constant results."""
    floats = [array for array in results if array.dtype.kind == "f"]
    constant = all(array.size == 0 or (array == array.flat[0]).all() for array in results)
    is_marked = {
        "nan": any(np.isnan(array).any() for array in floats),
        "infinite": any(np.isinf(array).any() for array in floats),
        "constant": any(array.size > 1 for array in results) and constant,
    }
    return tuple(name for name, holds in is_marked.items() if holds)


def weak_answers(
    call: Call, inputs: Sequence[torch.Tensor], eager: Expected
) -> tuple[list[str], list[str]]:
    """Return the names of the wrong answers that pass this project's verification, and of those
    that pass BackendBench's criterion."""
    dtypes = [kind.dtype for kind in eager.types]
    ours: list[str] = []
    theirs: list[str] = []
    for name, answer in _answers(call, inputs, eager.golden):
        pairs = zip(answer, eager.golden, strict=True)
        if all(np.array_equal(*pair, equal_nan=pair[1].dtype.kind == "f") for pair in pairs):
            continue
        if name not in ours and verify(answer, eager, {}).code == verification.PASS:
            ours.append(name)
        if name not in theirs and scores.is_correct(answer, eager.golden, dtypes):
            theirs.append(name)
    return ours, theirs


def _answers(
    call: Call, inputs: Sequence[torch.Tensor], eager: Answer
) -> Iterator[tuple[str, Answer]]:
    """Yield answers that ignore what the operator computes, each with its name."""
    yield "zeros", [np.zeros_like(array) for array in eager]
    yield "constant", [np.ones_like(array) for array in eager]
    yield "constant", [_mean_of(array) for array in eager]
    for tensor in inputs:
        source = convert.to_numpy(tensor)
        if any(array.size == source.size for array in eager):
            with np.errstate(over="ignore", invalid="ignore"):
                yield "input", [_copied(source, array) for array in eager]
    # Memory holds results for other inputs if nothing is written.
    with torch.no_grad():
        yield "stale", list(map(convert.to_numpy, call(*make_inputs.make(call, _OTHER_SEED))))


def _mean_of(array: np.ndarray) -> np.ndarray:
    values = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    mean = float(np.mean(values, dtype=np.float64)) if values.size else 0.0
    return np.full_like(array, np.round(mean) if array.dtype.kind in "iub" else mean)


def _copied(source: np.ndarray, array: np.ndarray) -> np.ndarray:
    """Return an input in the form of a result of the same size; other results as they are."""
    is_same = array.size == source.size
    return source.reshape(array.shape).astype(array.dtype) if is_same else array


def _flops(call: Call) -> int | None:
    counter = FlopCounterMode(display=False)
    # A shape that depends on values, or an operator that has no rule for shapes.
    with contextlib.suppress(Exception), torch.no_grad():
        fake = call.fake_inputs()
        with fake[0].fake_mode, counter:
            call(*fake)
    return counter.get_total_flops() or None


def _bytes(kind: tensors.TensorType) -> int:
    count = int(np.prod(kind.shape, dtype=np.int64))
    return count * (2 if kind.dtype == "bfloat16" else tensors.native(kind.dtype).itemsize)


if __name__ == "__main__":
    requests.run(OperatorReferenceRequest, make_operator_references)
