"""Make the golden loss and gradients of a model's training step, in eager and in float64."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch

from scripts.lib.artifacts import tensors
from scripts.lib.core import channel
from scripts.lib.modeling import arguments, errors, golden, loading, source
from scripts.lib.modeling.arguments import ModelChoice
from scripts.lib.modeling.step import TrainStep, make_cotangents, to_training
from scripts.lib.modeling.weights import set_weights, with_inputs


@dataclass(frozen=True)
class Reference:
    """The files of the model's reference that a training step starts from."""

    weights: Path
    inputs: Path
    signature: Path


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(prog="python -m scripts.make_gradients", description=__doc__)
    arguments.add_arguments(parser)
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--signature", required=True, type=Path)
    parser.add_argument("--out-golden", required=True, type=Path)
    parser.add_argument("--out-signature", required=True, type=Path)
    args = parser.parse_args()
    reference = Reference(args.weights, args.inputs, args.signature)
    try:
        make_gradients(arguments.model(args), reference, args.out_golden, args.out_signature)
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)


def make_gradients(
    model: ModelChoice, reference: Reference, out_golden: Path, out_signature: Path
) -> None:
    """Write the golden results of a model's training step. Raises ModelError or ModelFileError."""
    loaded = loading.load(
        model.name, model.file, model.options, "gradients", threads=model.load_threads
    )
    set_weights(loaded.module, reference.weights)
    loaded = to_training(with_inputs(loaded, reference.inputs))
    with torch.no_grad():
        outputs = loaded.module(*loaded.args, **loaded.kwargs)
    seed = int(model.options.get("seed", 0))
    cotangents = make_cotangents(outputs, seed)

    def step(of: loading.LoadedModel) -> TrainStep:
        wide = any(weight.dtype is torch.float64 for weight in of.module.parameters())
        kind = torch.float64 if wide else torch.float32
        return TrainStep(of, [torch.from_numpy(c).to(kind) for c in cotangents])

    signature = tensors.Signature.read(reference.signature)
    found = golden.observe(loaded, step, model.file, signature.dtype)
    if len(found.types) == 1:
        text = f"{model.file}: no parameter has a gradient: nothing to train"
        raise errors.ModelError(text, errors.Fault.OUTPUTS)
    stored = {f"cotangent.{i}": array for i, array in enumerate(cotangents)}
    tensors.save_npz(out_golden, found.arrays() | stored)
    dataclasses.replace(
        signature,
        outputs=found.types,
        torch_version=torch.__version__,
        has_fp64=found.fp64 is not None,
        rmse_vs_fp64=found.rmse_vs_fp64,
        deterministic=found.deterministic,
        work=found.work,
    ).write(out_signature)


if __name__ == "__main__":
    main()
