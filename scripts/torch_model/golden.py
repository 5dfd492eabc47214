"""Golden results: runs a step eagerly twice, then in float64, and checks that programs can be compared
with them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.core import tensors
from scripts.torch_model import convert, errors, in_float64, work
from scripts.torch_model.errors import changes_buffer
from scripts.torch_model.loading import LoadedModel
from scripts.torch_model.step import EvalStep, TrainStep
from scripts.verify import codes, scaling, torch_same

Step = EvalStep | TrainStep


@dataclass(frozen=True)
class Golden:
    """Results of a step in eager mode, in order. `fp64` is None if torch cannot compute them in float64, and `work`
    (work.totals) if it could not be counted."""

    types: tuple[tensors.TensorType, ...]
    eager: list[np.ndarray]
    fp64: list[np.ndarray] | None
    deterministic: bool
    work: dict[str, Any] | None = None

    @property
    def rmse_vs_fp64(self) -> float | None:
        """The error of eager itself: its RMSE against the float64 results."""
        return torch_same.rmse(self.eager, self.fp64) if self.fp64 is not None else None

    def arrays(self) -> dict[str, np.ndarray]:
        """The contents of golden.npz: `golden.<i>` and, if they exist, `fp64.<i>`."""
        named = {f"golden.{i}": array for i, array in enumerate(self.eager)}
        return named | {f"fp64.{i}": array for i, array in enumerate(self.fp64 or [])}


def observe(
    loaded: LoadedModel, make_step: Callable[[LoadedModel], Step], file: Path, dtype: str
) -> Golden:
    """Run the step of `make_step(loaded)` twice, then that of the model in float64.

    The model is converted in place and must not be used afterwards. Raises ModelError if its inputs
    change, if the two runs differ, and if its results cannot show whether a program is correct.
    """
    before = [(path, convert.to_numpy(tensor)) for path, tensor in loaded.inputs]
    buffers = _digests(loaded.module)
    step = make_step(loaded)
    with calling(loaded, file):
        twice = run_twice(step, dtype)
    for (path, array), (_, tensor) in zip(before, loaded.inputs, strict=True):
        if not np.array_equal(convert.to_numpy(tensor), array, equal_nan=True):
            text = f"{file}: the model changes its input {path} in place"
            raise errors.ModelError(text, errors.Fault.MUTATION)
    check(file, twice.eager)
    if not twice.deterministic:
        # An exporter says BUFFER_MUTATION of a model that changes a buffer too, and diagnose.py reads both names.
        now = _digests(loaded.module)
        changed = [name for name in now if now[name] != buffers.get(name)]
        random = f"{codes.NONDETERMINISTIC}: two eager runs of the model differ: no golden output"
        raise errors.ModelError(f"{file}: {changes_buffer(changed[0]) if changed else random}")
    if loaded.opaque:
        return twice
    counted = None
    try:
        counted = work.count(step, loaded).totals()
    except Exception as error:
        print(f"note: its work could not be counted: {type(error).__name__}: {error}", flush=True)
    del step
    names = [kind.name for kind in twice.types]
    return dataclasses.replace(twice, fp64=_in_float64(loaded, make_step, names), work=counted)


@contextlib.contextmanager
def calling(loaded: LoadedModel, file: Path) -> Iterator[None]:
    """Make a ModelError that names the file and the inputs of whatever a call of the model raises."""
    try:
        yield
    except errors.ModelError as error:
        raise errors.ModelError(f"{file}: {error}", error.reason or errors.Fault.OUTPUTS) from error
    except Exception as error:
        raise errors.ModelError(
            f"{file}: its forward pass raised {errors.raised(error, file)}; {_seen(loaded)}",
            errors.Fault.FORWARD,
        ) from error


def _digests(module: torch.nn.Module) -> dict[str, bytes]:
    """Digests of the values of every buffer, by name."""
    return {
        name: hashlib.blake2b(convert.to_bytes(buffer).data).digest()
        for name, buffer in module.named_buffers()
    }


def _seen(loaded: LoadedModel) -> str:
    """The inputs of a forward pass and the dtypes of its weights, for messages."""
    inputs = [f"{path} {t.dtype}{list(t.shape)}".strip() for path, t in loaded.inputs]
    kinds = sorted({str(weight.dtype) for weight in loaded.module.parameters()})
    text = f"inputs {', '.join(inputs)}; weights {', '.join(kinds) or 'none'}"
    return text.replace("torch.", "")


def run_twice(step: Step, dtype: str) -> Golden:
    """Results of a step in eager mode, and whether a second run gives the same ones."""
    outputs = step()
    for hidden in convert.opaque(outputs):
        print(f"note: output {hidden} is left out: torch does not know it as a structure of tensors")  # fmt: skip
    named = step.results(outputs)
    del outputs
    types = tuple(_output_type(name, tensor) for name, tensor in named)
    eager = [convert.to_numpy(tensor) for _, tensor in named]
    again = [convert.to_numpy(tensor) for _, tensor in step.results(step())]
    dtypes = [kind.dtype for kind in types]
    allowed = torch_same.Tolerance(torch_same.TOLERANCES[dtype])
    scale = scaling.scale_of([kind.name for kind in types])
    repeated = torch_same.compare(again, eager, None, allowed, dtypes, scale=scale)
    return Golden(types, eager, None, repeated.code == torch_same.PASS)


def _output_type(name: str, tensor: torch.Tensor) -> tensors.TensorType:
    try:
        return convert.tensor_type(name, tensor)
    except errors.ModelError as error:
        raise errors.ModelError(f"forward() returned {'a tensor that' if not name else ''}{error}") from error  # fmt: skip


@errors.with_reason(errors.Fault.OUTPUTS)
def check(file: Path, golden: list[np.ndarray]) -> None:
    """Raise ModelError for results that cannot show whether a program is correct."""
    if not golden:
        raise errors.ModelError(
            f"{file}: forward() returned no tensor; expected a tensor, or tensors in tuples, "
            "lists, dicts or dataclasses"
        )
    if not any(array.size for array in golden):
        shapes = ", ".join(str(list(array.shape)) for array in golden)
        raise errors.ModelError(
            f"{file}: every output is empty (shape {shapes}): nothing to compare with; give inputs "
            "of at least one sample (batch_size)"
        )
    for number, array in enumerate(golden):
        if array.size and not np.isfinite(array).any():
            raise errors.ModelError(
                f"{file}: output {number} has no finite value: nothing to compare with"
            )
    if not any(np.any(array) for array in golden):
        raise errors.ModelError(f"{file}: every output is zero: any program would pass for it")


def _in_float64(
    loaded: LoadedModel, make_step: Callable[[LoadedModel], Step], names: Sequence[str]
) -> list[np.ndarray] | None:
    """Results computed in float64 from the same (rounded) weights; None if torch cannot compute them, or if they
    have other names than those of the eager step (a buffer that changes in one precision alone)."""
    args, kwargs = convert.cast_floats((loaded.args, loaded.kwargs), torch.float64)
    wide = dataclasses.replace(loaded, args=args, kwargs=kwargs)
    try:
        with in_float64.widened(loaded.module):
            step = make_step(wide)
            if isinstance(step, TrainStep) and not in_float64.is_wide(loaded.module):
                print("note: no float64 reference: gradients need all weights in float64 at once")
                return None
            results = step.results(step())
            if [name for name, _ in results] != list(names):
                print("note: no float64 reference: it has other results", flush=True)
                return None
            return [convert.to_numpy(tensor) for _, tensor in results]
    except RuntimeError as error:
        print(f"note: no float64 reference: {error}", flush=True)
        return None
