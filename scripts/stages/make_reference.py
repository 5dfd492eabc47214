"""Make a model's reference: weights.irpa, inputs, golden and float64 outputs, signature."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from scripts.core import archive, channel, tensors
from scripts.torch_model import (
    arguments,
    convert,
    depth,
    errors,
    golden,
    loading,
    quantization,
    source,
)
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.step import EvalStep
from scripts.torch_model.weights import named_weights
from scripts.verify import greedy_tokens


@dataclass(frozen=True)
class Outputs:
    """The files of a reference."""

    weights: Path
    inputs: Path
    golden: Path
    signature: Path


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.make_reference", description=__doc__
    )
    arguments.add_arguments(parser)
    parser.add_argument("--out-weights", required=True, type=Path)
    parser.add_argument("--out-inputs", required=True, type=Path)
    parser.add_argument("--out-golden", required=True, type=Path)
    parser.add_argument("--out-signature", required=True, type=Path)
    args = parser.parse_args()
    files = Outputs(args.out_weights, args.out_inputs, args.out_golden, args.out_signature)
    try:
        make_reference(arguments.model(args), files)
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)


def make_reference(model: ModelChoice, files: Outputs) -> None:
    """Write a model's reference. Raises ModelError or ModelFileError if the model cannot be used."""
    loaded = loading.load(
        model.name, model.file, model.options, "reference", threads=model.load_threads
    )
    # Stored before the first call: a model may write into its weights and its inputs.
    weights, aliases = named_weights(loaded.module)
    archive.write(files.weights, ((key, convert.to_bytes(w)) for key, w in weights.items()))
    stored = {str(i): convert.to_numpy(t) for i, (_, t) in enumerate(loaded.inputs)}
    tensors.save_npz(files.inputs, stored)
    inputs = tuple(convert.tensor_type(name, t) for name, t in loaded.inputs)
    parameters = tuple(convert.tensor_type(key, w) for key, w in weights.items())
    del weights
    inputs_from = loaded.input_description() or ""
    greedy = greedy_tokens.of(loaded.module)
    known = depth.of(loaded.module)
    dtype = model.options.get("dtype", "f32")
    # The last use of the model, which may stay in float64 afterwards.
    found = golden.observe(loaded, EvalStep, model.file, dtype)
    tensors.save_npz(files.golden, found.arrays())
    loaded.module = torch.nn.Identity()  # a float model is as large again
    distance = quantization.report(loaded, found.eager)
    tensors.Signature(
        model=model.name,
        dtype=dtype,
        batch_size=int(model.options.get("batch_size") or source.default_batch_size(model.file)),
        inputs=inputs,
        outputs=found.types,
        parameters=parameters,
        aliases=aliases,
        options=dict(model.options),
        resolved=loaded.resolved_options(),
        layers=known["layers"],
        vocab_size=known["vocab_size"],
        torch_version=torch.__version__,
        has_fp64=found.fp64 is not None,
        rmse_vs_fp64=found.rmse_vs_fp64,
        deterministic=found.deterministic,
        weights_bytes=files.weights.stat().st_size,
        inputs_from=inputs_from,
        generation=asdict(greedy) if greedy else None,
        quantization=distance,
        work=found.work,
    ).write(files.signature)


if __name__ == "__main__":
    main()
