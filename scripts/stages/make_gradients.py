"""Make the golden results of a model's training step, in eager and in float64, and what the step starts from."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import torch

from scripts.core import archive, channel, tensors
from scripts.torch_model import arguments, convert, errors, golden, loading, source
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.optimizer import Optimizer
from scripts.torch_model.step import (
    TrainStep,
    WholeStep,
    make_cotangents,
    make_optimizer,
    set_state,
    state_slots,
    stepped,
    to_training,
)
from scripts.torch_model.weights import named_weights, set_weights, with_inputs
from scripts.verify import train_results


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.make_gradients", description=__doc__
    )
    arguments.add_arguments(parser)
    arguments.add_optimizer(parser)
    for name in ("weights", "inputs", "signature"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    for name in ("weights", "inputs", "golden", "signature"):
        parser.add_argument(f"--out-{name}", required=True, type=Path)
    args = parser.parse_args()
    try:
        make_gradients(arguments.model(args), Optimizer.of(**args.optimizer), args)
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)


def make_gradients(model: ModelChoice, optimizer: Optimizer, files: argparse.Namespace) -> None:
    """Write the golden results of a model's training step. Raises ModelError or ModelFileError.

    `files`: `weights`, `inputs` and `signature` of the model's reference, and those to write: `out_weights` with the
    optimizer's state too, `out_inputs` with the cotangents, `out_golden` and `out_signature`.
    """
    loaded = loading.load(
        model.name, model.file, model.options, "gradients", threads=model.load_threads
    )
    set_weights(loaded.module, files.weights)
    loaded = to_training(with_inputs(loaded, files.inputs))
    with golden.calling(loaded, model.file), torch.no_grad():
        outputs = loaded.module(*loaded.args, **loaded.kwargs)
    seed = int(model.options.get("seed", 0))
    cotangents = make_cotangents(outputs, seed)
    del outputs
    set_weights(loaded.module, files.weights)  # a call in train mode changes buffers
    first = TrainStep(loaded, [torch.from_numpy(c) for c in cotangents])
    with golden.calling(loaded, model.file):
        gradients = _gradients(first)
        set_weights(loaded.module, files.weights)
        state = _state(loaded, gradients, optimizer)
        losses = _losses(first, gradients, optimizer, state)
    del first
    set_weights(loaded.module, files.weights)
    weights, _ = named_weights(loaded.module)
    held = [*weights.items(), *state.items()]
    archive.write(files.out_weights, ((key, convert.to_bytes(value)) for key, value in held))
    parameters = tuple(convert.tensor_type(key, value) for key, value in held)
    del weights, held

    def step(model: loading.LoadedModel) -> WholeStep:
        wide = any(weight.dtype is torch.float64 for weight in model.module.parameters())
        dtype = torch.float64 if wide else torch.float32
        fixed = [torch.from_numpy(array).to(dtype) for array in cotangents]
        return WholeStep(model, fixed, optimizer, state)

    signature = tensors.Signature.read(files.signature)
    found = golden.observe(loaded, step, model.file, signature.dtype)
    _require_change(model.file, found, gradients, optimizer)
    inputs = tensors.load_npz(files.inputs)
    further = {str(len(inputs) + i): array for i, array in enumerate(cotangents)}
    tensors.save_npz(files.out_inputs, inputs | further)
    named = {f"{tensors.COTANGENT}{i}": array for i, array in enumerate(cotangents)}
    tensors.save_npz(files.out_golden, found.arrays() | named | {train_results.LOSSES: losses})
    types = [tensors.TensorType(name, array.shape, "float32") for name, array in named.items()]
    dataclasses.replace(
        signature,
        inputs=(*signature.inputs, *types),
        outputs=found.types,
        generation=None,
        parameters=parameters,
        torch_version=torch.__version__,
        has_fp64=found.fp64 is not None,
        rmse_vs_fp64=found.rmse_vs_fp64,
        deterministic=found.deterministic,
        work=found.work,
    ).write(files.out_signature)


def _gradients(step: TrainStep) -> dict[str, torch.Tensor]:
    """The gradients of a step, by the names of the parameters that have one."""
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
        found = dict(step.results(step()))
        losses.append(float(found[tensors.LOSS]))
        del found  # its gradients
    return np.array(losses)


def _require_change(
    file: Path, found: golden.Golden, trained: Collection[str], optimizer: Optimizer
) -> None:
    """Raise ModelError if the step changes no parameter: any program would pass for the update."""
    results = dict(zip((kind.name for kind in found.types), found.eager, strict=True))
    if any(results[f"{tensors.CHANGE}{name}"].any() for name in trained):
        return
    raise errors.ModelError(
        f"{file}: a step of {optimizer.name} with the learning rate {optimizer.lr:g} changes no parameter: each change "
        "is less than a unit in the last place; set a larger train.lr",
        errors.Fault.OUTPUTS,
    )


if __name__ == "__main__":
    main()
