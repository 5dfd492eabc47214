"""Make the golden loss and gradients of a model's training step, in eager and in float64."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import torch

from scripts.lib.artifacts import tensors
from scripts.lib.core import exits
from scripts.lib.modeling import arguments, errors, golden, loading, source
from scripts.lib.modeling.step import TrainStep, make_cotangents, to_training
from scripts.lib.modeling.weights import set_weights, with_inputs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.make_gradients", description=__doc__)
    arguments.add_arguments(parser)
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--inputs", required=True, type=Path)
    parser.add_argument("--signature", required=True, type=Path)
    parser.add_argument("--out-golden", required=True, type=Path)
    parser.add_argument("--out-signature", required=True, type=Path)
    args = parser.parse_args()
    try:
        make_gradients(args)
    except (errors.ModelError, source.ModelFileError) as error:
        exits.fail(str(error))


def make_gradients(args: argparse.Namespace) -> None:
    loaded = loading.load(args.name, args.model_file, args.options, "gradients")
    set_weights(loaded.module, args.weights)
    loaded = to_training(with_inputs(loaded, args.inputs))
    with torch.no_grad():
        outputs = loaded.module(*loaded.args, **loaded.kwargs)
    seed = int(args.options.get("seed", 0))
    cotangents = make_cotangents(outputs, seed)

    def step(of: loading.LoadedModel) -> TrainStep:
        wide = any(weight.dtype is torch.float64 for weight in of.module.parameters())
        kind = torch.float64 if wide else torch.float32
        return TrainStep(of, [torch.from_numpy(c).to(kind) for c in cotangents])

    signature = tensors.Signature.read(args.signature)
    found = golden.observe(loaded, step, args.model_file, signature.dtype)
    if len(found.types) == 1:
        raise errors.ModelError(f"{args.model_file}: no parameter has a gradient: nothing to train")
    stored = {f"cotangent.{i}": array for i, array in enumerate(cotangents)}
    tensors.save_npz(args.out_golden, found.arrays() | stored)
    dataclasses.replace(
        signature,
        outputs=found.types,
        torch_version=torch.__version__,
        has_fp64=found.fp64 is not None,
        rmse_vs_fp64=found.rmse_vs_fp64,
        deterministic=found.deterministic,
    ).write(args.out_signature)


if __name__ == "__main__":
    main()
