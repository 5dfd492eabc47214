"""Make the golden results of a model's training step, in eager and in float64, and what the step starts from."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from scripts.core import archive, channel, tensors
from scripts.torch_model import arguments, convert, errors, golden, loading, source
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.optimizer import Optimizer
from scripts.torch_model.step import TrainStep, WholeStep, make_cotangents, to_training
from scripts.torch_model.updates import make, put, slots, stepped
from scripts.torch_model.weights import named_weights, set_weights, with_inputs
from scripts.verify import train_results


@dataclass(frozen=True)
class Reference:
    """The files of the model's reference that a training step starts from."""

    weights: Path
    inputs: Path
    signature: Path


@dataclass(frozen=True)
class Outputs:
    """The files of the training step. `weights` has the optimizer's state too, `inputs` the cotangents."""

    weights: Path
    inputs: Path
    golden: Path
    signature: Path


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.make_gradients", description=__doc__
    )
    arguments.add_arguments(parser)
    parser.add_argument(
        "--optimizer", default="{}", type=json.loads, help='JSON: {"name": "SGD", "lr": 0.01}'
    )
    for name in ("weights", "inputs", "signature"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    for name in ("weights", "inputs", "golden", "signature"):
        parser.add_argument(f"--out-{name}", required=True, type=Path)
    args = parser.parse_args()
    reference = Reference(args.weights, args.inputs, args.signature)
    files = Outputs(args.out_weights, args.out_inputs, args.out_golden, args.out_signature)
    try:
        make_gradients(arguments.model(args), reference, Optimizer.of(**args.optimizer), files)
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)


def make_gradients(
    model: ModelChoice, reference: Reference, optimizer: Optimizer, files: Outputs
) -> None:
    """Write the golden results of a model's training step. Raises ModelError or ModelFileError."""
    loaded = loading.load(
        model.name, model.file, model.options, "gradients", threads=model.load_threads
    )
    set_weights(loaded.module, reference.weights)
    loaded = to_training(with_inputs(loaded, reference.inputs))
    with golden.calling(loaded, model.file), torch.no_grad():
        outputs = loaded.module(*loaded.args, **loaded.kwargs)
    seed = int(model.options.get("seed", 0))
    cotangents = make_cotangents(outputs, seed)
    del outputs
    set_weights(loaded.module, reference.weights)  # a call in train mode changes buffers
    first = TrainStep(loaded, [torch.from_numpy(c) for c in cotangents])
    with golden.calling(loaded, model.file):
        gradients = _gradients(first)
        set_weights(loaded.module, reference.weights)
        state = _state(loaded, gradients, optimizer)
        losses = _losses(first, gradients, optimizer, state)
    del first
    set_weights(loaded.module, reference.weights)
    weights, _ = named_weights(loaded.module)
    held = [*weights.items(), *state.items()]
    archive.write(files.weights, ((key, convert.to_bytes(value)) for key, value in held))
    parameters = tuple(convert.tensor_type(key, value) for key, value in held)
    del weights, held

    def step(of: loading.LoadedModel) -> WholeStep:
        wide = any(weight.dtype is torch.float64 for weight in of.module.parameters())
        kind = torch.float64 if wide else torch.float32
        return WholeStep(of, [torch.from_numpy(c).to(kind) for c in cotangents], optimizer, state)

    signature = tensors.Signature.read(reference.signature)
    found = golden.observe(loaded, step, model.file, signature.dtype)
    _require_change(model.file, found, gradients, optimizer)
    inputs = tensors.load_npz(reference.inputs)
    stored = {str(len(inputs) + i): array for i, array in enumerate(cotangents)}
    tensors.save_npz(files.inputs, inputs | stored)
    tensors.save_npz(
        files.golden,
        found.arrays()
        | {f"{tensors.COTANGENT}{i}": array for i, array in enumerate(cotangents)}
        | {train_results.LOSSES: losses},
    )
    dataclasses.replace(
        signature,
        inputs=(*signature.inputs, *_types(cotangents)),
        outputs=found.types,
        generation=None,
        parameters=parameters,
        torch_version=torch.__version__,
        has_fp64=found.fp64 is not None,
        rmse_vs_fp64=found.rmse_vs_fp64,
        deterministic=found.deterministic,
        work=found.work,
    ).write(files.signature)


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
    made, kept = make(optimizer, weights.values()), slots(optimizer)
    for name, weight in weights.items():
        put(made, weight, name, kept, state)
    step.optimizer = made
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


def _types(cotangents: list) -> list[tensors.TensorType]:
    return [
        tensors.TensorType(f"{tensors.COTANGENT}{i}", array.shape, "float32")
        for i, array in enumerate(cotangents)
    ]


if __name__ == "__main__":
    main()
