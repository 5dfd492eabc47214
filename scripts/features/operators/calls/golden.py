"""Eager's results of a problem, which other runtimes are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from scripts.core import tensors
from scripts.features.operators.calls.calling import Call, NotCallable
from scripts.torch_model import convert
from scripts.verify import torch_same
from scripts.verify.verify import Expected

NAN, INFINITE, CONSTANT = "nan", "infinite", "constant"
"""Marks of results with which a wrong program may pass the verification."""
_TYPES_OF_TOLERANCE = {"float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Observed:
    """The results of eager, in order, with bfloat16 converted to float32.

    `fp64`: the results in float64; None if torch cannot compute them. `dtype`: the narrowest type
    in the computation, which sets the tolerance. `marks`: NAN, INFINITE, CONSTANT.
    """

    types: tuple[tensors.TensorType, ...]
    eager: list[np.ndarray]
    fp64: list[np.ndarray] | None
    deterministic: bool
    dtype: str
    marks: tuple[str, ...]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of golden.npz: `golden.<i>` and, if there are any, `fp64.<i>`."""
        named = {f"golden.{i}": array for i, array in enumerate(self.eager)}
        return named | {f"fp64.{i}": array for i, array in enumerate(self.fp64 or [])}

    def expected(self) -> Expected:
        """Return the expected results for `verification.verify`."""
        return Expected(self.types, self.eager, self.fp64, self.deterministic, self.dtype)


def observe(call: Call, inputs: Sequence[torch.Tensor]) -> Observed:
    """Run a problem in eager mode twice, and once in float64.

    Raises NotCallable if this version of torch cannot run it or its results cannot be compared.
    Other exceptions of the call are passed on.
    """
    with torch.no_grad():
        try:
            found = call(*inputs)
        except RuntimeError as error:
            # Kernels that lack a dtype raise a plain RuntimeError with this text.
            if isinstance(error, NotImplementedError) or "expected scalar type" in str(error):
                raise NotCallable(f"no-kernel: {str(error).splitlines()[0]}") from error
            raise
        types = _types(found)
        eager = [convert.to_numpy(tensor) for tensor in found]
        del found
        again = [convert.to_numpy(tensor) for tensor in call(*inputs)]
    dtypes = [kind.dtype for kind in types]
    same = torch_same.compare(again, eager, None, torch_same.Tolerance(0.0), dtypes)
    used = {str(spec.dtype).removeprefix("torch.") for spec in call.inputs} | set(dtypes)
    return Observed(
        types=types,
        eager=eager,
        fp64=in_float64(call, inputs),
        deterministic=same.code == torch_same.PASS,
        dtype=next((short for name, short in _TYPES_OF_TOLERANCE.items() if name in used), "f32"),
        marks=marks(eager),
    )


def in_float64(call: Call, inputs: Sequence[torch.Tensor]) -> list[np.ndarray] | None:
    """Return the results of the same inputs in float64, or None if torch cannot compute them."""
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    try:
        with torch.no_grad():
            found = Call.of(call.problem.with_float_dtype("f64"))(*wide)
    except (NotCallable, RuntimeError, TypeError, ValueError):
        return None
    return [convert.to_numpy(tensor) for tensor in found]


def marks(results: Sequence[np.ndarray]) -> tuple[str, ...]:
    """Return the marks of results: NaN values, infinities, or only constant results."""
    floats = [array for array in results if array.dtype.kind == "f"]
    found = {
        NAN: any(np.isnan(array).any() for array in floats),
        INFINITE: any(np.isinf(array).any() for array in floats),
        CONSTANT: any(a.size > 1 for a in results) and all(map(_is_constant, results)),
    }
    return tuple(name for name, holds in found.items() if holds)


def _is_constant(array: np.ndarray) -> bool:
    return array.size == 0 or bool((array == array.flat[0]).all())


def _types(found: Sequence[torch.Tensor]) -> tuple[tensors.TensorType, ...]:
    """Return the types of results.

    Raises NotCallable if a stage cannot store a result, or if there is nothing to compare.
    """
    if not found:
        raise NotCallable("no-tensor-result: the operator returned no tensor")
    for tensor in found:
        if tensor.layout is not torch.strided:
            raise NotCallable(f"sparse: a result of layout {tensor.layout}")
        if str(tensor.dtype).removeprefix("torch.") not in tensors.DTYPES:
            raise NotCallable(f"dtype: a result of {tensor.dtype}, which no module returns")
    if not any(tensor.numel() for tensor in found):
        raise NotCallable("empty-result: no result has a value")
    return tuple(convert.tensor_type(f"output {i}", t) for i, t in enumerate(found))
