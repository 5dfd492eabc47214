"""Make the golden results of a model's training step, in eager and in float64, and what the step starts from."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from scripts.core import commands, requests, tensors
from scripts.core.requests import Folders
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import convert, errors, golden, loading
from scripts.frontends.torch_model.arguments import ModelChoice, Optimizer
from scripts.frontends.torch_model.loading import named_weights, set_weights, with_inputs
from scripts.frontends.torch_model.step import (
    TrainStep,
    WholeStep,
    make_cotangents,
    make_optimizer,
    set_state,
    state_slots,
    stepped,
    to_training,
)
from scripts.measure.verify import train_results


@dataclass(frozen=True, kw_only=True)
class GradientsRequest:
    """A model and the files of its reference."""

    model: ModelChoice
    optimizer: Optimizer = Optimizer.option()
    weights: Path
    inputs: Path
    signature: Path


def make_gradients(request: GradientsRequest, folders: Folders) -> None:
    """Write the golden results of a model's training step, the weights with the optimizer's state, and the inputs with the
    cotangents. Exits if the model cannot be used."""
    commands.report_working()
    with errors.reported():
        _make(request, folders.results)


def _make(files: GradientsRequest, folder: Path) -> None:
    model, optimizer = files.model, files.optimizer
    loaded = load_model(model, "gradients")
    set_weights(loaded.module, files.weights)
    loaded = to_training(with_inputs(loaded, files.inputs))
    with golden.calling(loaded, model.model_file), torch.no_grad():
        outputs = loaded.module(*loaded.args, **loaded.kwargs)
    cotangents = make_cotangents(outputs, model.seed)
    del outputs
    set_weights(loaded.module, files.weights)  # a call in train mode changes buffers
    first = TrainStep(loaded, [torch.from_numpy(c) for c in cotangents])
    with golden.calling(loaded, model.model_file):
        gradients = _gradients(first)
        set_weights(loaded.module, files.weights)
        state = _state(loaded, gradients, optimizer)
        losses = _losses(first, gradients, optimizer, state)
    del first
    set_weights(loaded.module, files.weights)
    weights, _ = named_weights(loaded.module)
    held = [*weights.items(), *state.items()]
    tensors.write_archive(
        folder / "weights.irpa", ((key, convert.to_bytes(value)) for key, value in held)
    )
    parameters = tuple(convert.tensor_type(key, value) for key, value in held)
    del weights, held

    def step(model: loading.LoadedModel) -> WholeStep:
        wide = any(weight.dtype is torch.float64 for weight in model.module.parameters())
        dtype = torch.float64 if wide else torch.float32
        fixed = [torch.from_numpy(array).to(dtype) for array in cotangents]
        return WholeStep(model, fixed, optimizer, state)

    signature = tensors.Signature.read(files.signature)
    observed = golden.observe(loaded, step, model.model_file, signature.dtype)
    _require_change(model.model_file, observed, gradients, optimizer)
    inputs = tensors.load_npz(files.inputs)
    further = {str(len(inputs) + i): array for i, array in enumerate(cotangents)}
    tensors.save_npz(folder / "inputs.npz", inputs | further)
    named = {f"{tensors.COTANGENT}{i}": array for i, array in enumerate(cotangents)}
    golden_arrays = observed.arrays() | named | {train_results.LOSSES: losses}
    tensors.save_npz(folder / "golden.npz", golden_arrays)
    types = [tensors.TensorType(name, array.shape, "float32") for name, array in named.items()]
    dataclasses.replace(
        signature,
        inputs=(*signature.inputs, *types),
        outputs=observed.types,
        generation=None,
        parameters=parameters,
        torch_version=torch.__version__,
        has_fp64=observed.fp64 is not None,
        rmse_vs_fp64=observed.rmse_vs_fp64,
        deterministic=observed.deterministic,
        work=observed.work,
        left_out=observed.left_out,
    ).write(folder / "signature.json")


def _gradients(step: TrainStep) -> dict[str, torch.Tensor]:
    results = dict(step.results(step()))
    start = tensors.GRADIENT
    return {n.removeprefix(start): g.clone() for n, g in results.items() if n.startswith(start)}


def _state(
    loaded: loading.LoadedModel, gradients: Mapping[str, torch.Tensor], optimizer: Optimizer
) -> Mapping[str, torch.Tensor]:
    """The optimizer's state after one step, by key. A step from zeros would not show whether a program reads the
    state; empty if the optimizer has none."""
    weights = {n: w for n, w in loaded.module.named_parameters() if n in gradients}
    after = stepped(optimizer, weights, gradients, {})
    return {key: value for key, value in after.items() if key.startswith(tensors.OPTIMIZER)}


def _losses(
    step: TrainStep,
    trained: Collection[str],
    optimizer: Optimizer,
    state: Mapping[str, torch.Tensor],
) -> np.ndarray:
    """The losses of successive training steps in eager mode, [train_results.STEPS], as float64. The model is trained."""
    weights = {n: w for n, w in step.loaded.module.named_parameters() if n in trained}
    step.optimizer, slots = make_optimizer(optimizer, weights.values()), state_slots(optimizer)
    for name, weight in weights.items():
        set_state(step.optimizer, weight, name, slots, state)
    losses = []
    for _ in range(train_results.STEPS):
        results = dict(step.results(step()))
        losses.append(float(results[tensors.LOSS]))
        del results  # its gradients
    return np.array(losses)


def _require_change(
    file: Path, observed: golden.Golden, trained: Collection[str], optimizer: Optimizer
) -> None:
    """Raise ModelError if the step changes no parameter: any program would pass for the update."""
    results = dict(zip((kind.name for kind in observed.types), observed.eager, strict=True))
    if any(results[f"{tensors.CHANGE}{name}"].any() for name in trained):
        return
    raise errors.ModelError(
        f"{file}: a step of {optimizer.name} with the learning rate {optimizer.lr:g} changes no parameter: each change "
        "is less than a unit in the last place; set a larger train.lr",
        errors.Fault.OUTPUTS,
    )


if __name__ == "__main__":
    requests.run(GradientsRequest, make_gradients)
