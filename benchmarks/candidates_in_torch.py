"""Compare wrong and correct programs of models: reads a JSON list of models, prints a line of JSON per model.

Run with the Python of the torch-mlir environment; benchmarks/wrong_candidates.py does.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from benchmarks import candidates
from benchmarks.candidates import Arrays, Difference
from scripts.frontends.torch_model import convert, golden, loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import ModelFile, named_weights, with_arrays
from scripts.frontends.torch_model.step import EvalStep
from scripts.measure.verify import torch_same
from scripts.measure.verify.verification import PASS
from scripts.measure.verify.verify import Expected, verify

NUDGES = 3
"""Programs with every weight moved by a unit in the last place, up or down."""


def main() -> None:
    for model in json.load(sys.stdin):
        print(json.dumps(judge_model(**model)), flush=True)


def judge_model(
    name: str, file: str, options: dict[str, Any], tolerance: dict[str, Any], parameters: int
) -> dict[str, Any]:
    """The verdict on every program of a model, right and wrong; `parameters` of them are zeroed.

    `correct`: right programs by name, with their difference from golden and their verdict.
    `wrong`: the same of wrong ones, and whether each is material. `element`, `row`: the largest errors of the median element
    and of the smallest row, as a part of it, that pass.
    """
    start = time.perf_counter()
    loaded = loading.load(ModelChoice(name, file, options))
    right = {"eager again": _outputs(loaded)} | dict(_correct(loaded))
    wrong = dict(_of_the_model(loaded, parameters))
    found = golden.observe(loaded, EvalStep, Path(file), options.get("dtype", "f32"))
    if found.fp64 is not None:
        right["float64 with the same rounding"] = [
            wide.astype(want.dtype) for wide, want in zip(found.fp64, found.eager, strict=True)
        ]
    wrong |= dict(candidates.of_outputs(found.eager, seed=0))
    expected = _expected(found, options.get("dtype", "f32"))

    def judged(outputs: Arrays) -> tuple[Difference, str, str]:
        verdict = verify(outputs, expected, tolerance)
        return candidates.difference(outputs, found.eager), verdict.code, verdict.detail

    correct = {name: judged(outputs) for name, outputs in right.items()}
    spread = [difference for difference, _, _ in correct.values()]
    floor = torch_same.TOLERANCES[expected.dtype]
    rows = {name: judged(outputs) for name, outputs in wrong.items() if _comparable(outputs, found)}
    return {
        "model": name,
        "correct": [_row(name, *row) for name, row in correct.items()],
        "wrong": [
            _row(name, *row) | {"material": candidates.is_material(row[0], spread, floor)}
            for name, row in rows.items()
        ],
        "element": _limit(candidates.element, expected, tolerance),
        "row": _limit(candidates.smallest_row, expected, tolerance),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _limit(
    change: Callable[..., np.ndarray], expected: Expected, tolerance: Mapping[str, Any]
) -> float:
    """The largest error made by `change`, as a part of what it changes, that passes in an output."""
    limits = []
    for place, (kind, output) in enumerate(zip(expected.types, expected.golden, strict=True)):
        if output.dtype.kind != "f" or not output.any():
            continue
        fp64 = None if expected.fp64 is None else [expected.fp64[place]]
        alone = dataclasses.replace(expected, types=[kind], golden=[output], fp64=fp64)

        def passes(wrong: np.ndarray, alone: Expected = alone) -> bool:
            return verify([wrong], alone, tolerance).code == PASS

        limits.append(candidates.largest_that_passes(change, output, passes))
    return max(limits)


def _row(name: str, difference: Difference, code: str, detail: str) -> dict[str, Any]:
    return {
        "name": name,
        "passed": code == PASS,
        "detail": detail,
        **dataclasses.asdict(difference),
    }


def _expected(found: golden.Golden, dtype: str) -> Expected:
    return Expected(found.types, found.eager, found.fp64, found.deterministic, dtype)


def _comparable(outputs: Arrays, found: golden.Golden) -> bool:
    return [a.shape for a in outputs] == [a.shape for a in found.eager]


@torch.no_grad()
def _outputs(loaded: loading.LoadedModel) -> Arrays:
    step = EvalStep(loaded)
    return [convert.to_numpy(tensor) for _, tensor in step.results(step())]


def _correct(loaded: loading.LoadedModel) -> Iterator[tuple[str, Arrays]]:
    """Programs that differ by rounding alone: threads, orders of summation, weights by an ulp."""
    threads = torch.get_num_threads()
    for count in sorted({1, 2, 4} - {threads}):
        torch.set_num_threads(count)
        yield f"{count} threads", _outputs(loaded)
    torch.set_num_threads(threads)
    for parts in (2, 3, 8):
        with SplitSums(parts):
            yield f"products summed in {parts} parts", _outputs(loaded)
    for seed in range(NUDGES):
        with _Changed(loaded.module, _nudge(seed)):
            yield f"weights moved by an ulp, {seed}", _outputs(loaded)


class SplitSums(TorchFunctionMode):
    """Linear layers and matrix products as a sum of products of `parts` slices: another order."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.parts = parts

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        products = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)
        linear = torch.nn.functional.linear
        if function is not linear and (function not in products or kwargs):
            return function(*args, **kwargs)
        left, right, *rest = args
        axis = -1 if function is linear or right.ndim == 1 else -2
        slices = zip(left.chunk(self.parts, -1), right.chunk(self.parts, axis), strict=True)
        total = sum(function(a, b) for a, b in slices)
        bias = rest[0] if rest else kwargs.get("bias")
        return total if bias is None else total + bias


def _of_the_model(loaded: loading.LoadedModel, parameters: int) -> Iterator[tuple[str, Arrays]]:
    """Outputs of other weights, inputs and seeds, and of the model with a parameter zeroed."""
    other = ModelFile(loaded.file.path, {**loaded.file.options, "seed": loaded.file.seed + 1})
    model = loading.load(ModelChoice(loaded.name, other.path, other.options))
    own = [convert.to_numpy(tensor) for _, tensor in loaded.inputs]
    yield "outputs of another seed", _outputs(model)
    yield "outputs of other weights", _outputs(with_arrays(model, own))
    del model
    yield "outputs of another input", _outputs(_with_other_inputs(loaded, other))
    weights, _ = named_weights(loaded.module)
    names = sorted(key for key, weight in weights.items() if weight.numel() and weight.any())
    for i in np.unique(np.linspace(0, len(names) - 1, min(parameters, len(names))).astype(int)):
        with _Changed(loaded.module, lambda key, w, wanted=names[i]: w * 0 if key == wanted else w):
            yield f"{names[i]} zeroed", _outputs(loaded)


def _with_other_inputs(loaded: loading.LoadedModel, other: ModelFile) -> loading.LoadedModel:
    """The model with the inputs of another seed."""
    args, kwargs = loading.inputs_of(other, loaded.module)
    return dataclasses.replace(loaded, args=args, kwargs=kwargs)


def _nudge(seed: int) -> Callable[[str, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def nudged(_: str, weight: torch.Tensor) -> torch.Tensor:
        if not weight.is_floating_point():
            return weight
        up = torch.randint(0, 2, weight.shape, generator=generator, dtype=torch.bool)
        limit = torch.where(up, torch.inf, -torch.inf).to(weight.dtype)
        # Zeros stay: what an ulp of theirs becomes says nothing about rounding.
        return torch.where(weight == 0, weight, torch.nextafter(weight, limit))

    return nudged


class _Changed:
    """Context with every weight of a module changed, and as it was afterwards."""

    def __init__(
        self, module: torch.nn.Module, change: Callable[[str, torch.Tensor], torch.Tensor]
    ) -> None:
        self.weights: Mapping[str, torch.Tensor] = named_weights(module)[0]
        self.change = change
        self.kept: dict[str, torch.Tensor] = {}

    def __enter__(self) -> None:
        for key, weight in self.weights.items():
            changed = self.change(key, weight.detach())
            if changed is not weight and not torch.equal(changed, weight):
                self.kept[key] = weight.detach().clone()
                weight.detach().copy_(changed)

    def __exit__(self, *_: object) -> None:
        for key, kept in self.kept.items():
            self.weights[key].detach().copy_(kept)


if __name__ == "__main__":
    main()
