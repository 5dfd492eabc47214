"""Golden results: runs a step eagerly twice, then in float64, and checks that programs can be compared
with them. For a quantised model, also its error compared with the float model that it approximates."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import nn

from scripts.core import extra, tensors
from scripts.frontends.torch_model import convert, errors, footprint, loading
from scripts.frontends.torch_model.errors import changes_buffer
from scripts.frontends.torch_model.loading import LoadedModel, OpaqueModule, named_weights
from scripts.frontends.torch_model.step import EvalStep, TrainStep, count_work
from scripts.measure.verify import scaling, torch_same, verification

Step = EvalStep | TrainStep
OriginalWeights = list[tuple[dict, str, torch.Tensor]]
"""Weights that were replaced: the dict of the module that has each, its key there, and the weight."""


@dataclass(frozen=True)
class Golden:
    """Results of a step in eager mode, in order. `fp64` is None if they could not be computed in float64, and `work`
    (work.totals) if it could not be counted; `left_out` says why (core/extra.py)."""

    types: tuple[tensors.TensorType, ...]
    eager: list[np.ndarray]
    fp64: list[np.ndarray] | None
    deterministic: bool
    work: dict[str, Any] | None = None
    left_out: dict[str, str] = field(default_factory=dict)

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
        random = (
            f"{verification.NONDETERMINISTIC}: two eager runs of the model differ: no golden output"
        )
        raise errors.ModelError(f"{file}: {changes_buffer(changed[0]) if changed else random}")
    if isinstance(loaded.module, OpaqueModule):
        return twice
    left_out = dict(twice.left_out)
    counted = extra.or_left_out(extra.WORK, partial(_work, step, loaded), left_out, None)
    del step
    wide = extra.or_left_out(
        extra.FLOAT64, lambda: _in_float64(loaded, make_step, twice), left_out, None
    )
    return dataclasses.replace(twice, fp64=wide, work=counted, left_out=left_out)


def _work(step: Step, loaded: LoadedModel) -> dict[str, Any]:
    return count_work(step, loaded).totals()


@contextlib.contextmanager
def calling(loaded: LoadedModel, file: Path) -> Iterator[None]:
    """Make a ModelError that names the file and the inputs of whatever a call of the model raises."""
    try:
        yield
    except errors.ModelError as error:
        raise errors.ModelError(f"{file}: {error}", error.reason or errors.Fault.OUTPUTS) from error
    except Exception as error:
        unbound = ""
        if isinstance(error, TypeError):
            unbound = loading.not_a_call(loaded.module, loaded.args, loaded.kwargs)
        if unbound:
            raise errors.ModelError(f"{file}: {unbound}", errors.Fault.INPUTS) from error
        is_missing = isinstance(error, ModuleNotFoundError)
        raise errors.ModelError(
            f"{file}: its forward pass raised {errors.raised(error, file)}; {_seen(loaded)}",
            errors.Fault.PACKAGE if is_missing else errors.Fault.FORWARD,
        ) from error


def _digests(module: torch.nn.Module) -> dict[str, bytes]:
    """Digests of the values of every buffer, by name."""
    return {
        name: hashlib.blake2b(convert.to_bytes(buffer).data).digest()
        for name, buffer in module.named_buffers()
    }


def _seen(loaded: LoadedModel) -> str:
    """The inputs of a forward pass and the dtypes of its weights, for messages."""
    given = [f"{path} {t.dtype}{list(t.shape)}".strip() for path, t in loaded.inputs]
    kinds = sorted({str(weight.dtype) for weight in loaded.module.parameters()})
    text = f"inputs {', '.join(given)}; weights {', '.join(kinds) or 'none'}"
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


class _NoFloat64(Exception):
    """Why there are no results in float64 to compare with."""


def _in_float64(
    loaded: LoadedModel, make_step: Callable[[LoadedModel], Step], golden: Golden
) -> list[np.ndarray]:
    """Results computed in float64 from the same (rounded) weights.

    Raises _NoFloat64 if they are not those of the eager step (a buffer that changes in one precision alone, a size that depends on
    values), and whatever the model raises: its operators may take another dtype alone.
    """
    args, kwargs = convert.cast_floats((loaded.args, loaded.kwargs), torch.float64)
    wide = dataclasses.replace(loaded, args=args, kwargs=kwargs)
    with in_float64(loaded.module):
        step = make_step(wide)
        if isinstance(step, TrainStep) and not is_in_float64(loaded.module):
            raise _NoFloat64("gradients need all weights in float64 at once")
        results = step.results(step())
        expected = [(kind.name, kind.shape) for kind in golden.types]
        if [(name, tuple(tensor.shape)) for name, tensor in results] != expected:
            raise _NoFloat64("in float64 the model has other results")
        return [convert.to_numpy(tensor) for _, tensor in results]


def fits_in_float64(module: nn.Module, limit: float) -> bool:
    """Whether the process stays within `limit` bytes with all weights converted at once."""
    weights = [w for w in (*module.parameters(), *module.buffers()) if w.is_floating_point()]
    more = sum(w.numel() * (8 - w.element_size()) for w in weights)
    largest = max((w.numel() * w.element_size() for w in weights), default=0)
    return psutil.Process().memory_info().rss + more + largest <= limit


@contextlib.contextmanager
def in_float64(module: nn.Module) -> Iterator[None]:
    """The module in float64, for calls without gradients; block by block if necessary.

    All at once needs twice the bytes of float32 weights, four times those of bfloat16. Block by block, the
    layers of a transformer are converted one at a time, each while it runs.

    If all weights fit at once, the module stays in float64 afterwards, because its old weights are
    released. Raises RuntimeError if not even single blocks fit.
    """
    limit, _ = footprint.limit_bytes("reference")
    if fits_in_float64(module, limit):
        module.double()
        yield
        return
    parts = float64_blocks(module)
    inside = {id(part) for block in parts for part in block.modules()}
    apart = [part for part in module.modules() if id(part) not in inside]
    at_once = _wide_bytes(apart) + max((_wide_bytes(b.modules()) for b in parts), default=0)
    if psutil.Process().memory_info().rss + at_once > limit:
        raise RuntimeError(f"{at_once / 1e9:.1f} GB of float64 weights, block by block, do not fit")
    print(f"note: float64 in {len(parts)} blocks: all at once does not fit", flush=True)
    outside = _widen(apart)
    widened_now: dict[int, OriginalWeights] = {}

    def enter(block: nn.Module, *_: object) -> None:
        widened_now[id(block)] = _widen(block.modules())

    def leave(block: nn.Module, *_: object) -> None:
        _restore(widened_now.pop(id(block), []))

    hooks = [block.register_forward_pre_hook(enter) for block in parts]
    hooks += [block.register_forward_hook(leave, always_call=True) for block in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _restore(outside)


def is_in_float64(module: nn.Module) -> bool:
    """Whether every weight is in float64 now."""
    weights = (*module.parameters(), *module.buffers())
    return all(w.dtype is torch.float64 for w in weights if w.is_floating_point())


def float64_blocks(module: nn.Module) -> list[nn.Module]:
    """The parts that run one after the other: the elements of the outermost lists of modules."""
    parts: list[nn.Module] = []
    for child in module.children():
        repeated = isinstance(child, nn.ModuleList | nn.Sequential) and len(child) > 1
        parts += list(child.children()) if repeated else float64_blocks(child)
    return parts


def _own_floats(parts: Iterable[nn.Module]) -> Iterator[tuple[dict, str, torch.Tensor]]:
    """The parts' own floating-point weights, each with the dict that has it, and its key there."""
    for part in parts:
        for place in (part._parameters, part._buffers):
            for name, weight in place.items():
                if weight is not None and weight.is_floating_point():
                    yield place, name, weight


def _wide_bytes(parts: Iterable[nn.Module]) -> int:
    """Bytes of the parts' own floating-point weights in float64, shared ones once."""
    own = {id(weight): weight for *_, weight in _own_floats(parts)}
    return 8 * sum(weight.numel() for weight in own.values())


def _widen(parts: Iterable[nn.Module]) -> OriginalWeights:
    """Replace the parts' own weights by float64 copies; return the original ones."""
    kept = list(_own_floats(parts))
    copies: dict[int, torch.Tensor] = {}
    for place, name, weight in kept:
        if id(weight) not in copies:
            wide = weight.detach().double()
            is_parameter = isinstance(weight, nn.Parameter)
            copies[id(weight)] = nn.Parameter(wide, requires_grad=False) if is_parameter else wide
        place[name] = copies[id(weight)]
    return kept


def _restore(kept: OriginalWeights) -> None:
    for place, name, weight in kept:
        place[name] = weight


def quantization_report(loaded: LoadedModel, outputs: Sequence[np.ndarray]) -> dict | None:
    """`float_bytes` and `sqnr_db` of a model whose file has get_float_model(); else None.

    `outputs` are those of the quantised model in eager mode. The float model is built here and runs on
    the same inputs. Only the inputs of `loaded` are used, so the caller can release the quantised model
    before, and the two are never in memory together. Raises ModelError if the outputs of the two
    differ in number or shape.
    """
    file = loaded.file
    if file is None or "get_float_model" not in file.functions:
        return None
    module = file.build("get_float_model")
    weights, _ = named_weights(module)
    float_bytes = sum(w.numel() * w.element_size() for w in weights.values())
    del weights
    with torch.no_grad():
        computed = module(*loaded.args, **loaded.kwargs)
    reference = [convert.to_numpy(tensor) for _, tensor in convert.flat_tensors(computed)]
    shapes = [[list(a.shape) for a in arrays] for arrays in (reference, outputs)]
    if shapes[0] != shapes[1]:
        raise errors.ModelError(
            f"{file.path}: get_float_model() gives outputs of shapes {shapes[0]}, expected those of "
            f"get_model(): {shapes[1]}",
            errors.Fault.OUTPUTS,
        )
    return {"float_bytes": float_bytes, "sqnr_db": sqnr_db(reference, outputs)}


def sqnr_db(reference: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> float | None:
    """Signal to quantisation noise over all floating-point outputs together, in decibels.

    10 · log10(Σ reference² / Σ (reference − output)²), summed in float64: torch.ao.ns's
    compute_sqnr, 20 · log10(‖x‖ / ‖x − y‖). None where either sum is 0 or not finite.
    """
    signal = noise = 0.0
    for want, got in zip(reference, outputs, strict=True):
        if want.dtype.kind != "f":
            continue
        wide = want.astype(np.float64)
        signal += float(np.square(wide).sum())
        noise += float(np.square(wide - got.astype(np.float64)).sum())
    if not (0 < signal < math.inf and 0 < noise < math.inf):
        return None
    return 10 * math.log10(signal / noise)
