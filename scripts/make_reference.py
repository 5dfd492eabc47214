"""Make a model's reference: weights.irpa, inputs, golden and float64 outputs, signature."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from scripts.lib import archive, compare, exits, model, modelfile, tensors


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.make_reference", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model-file", required=True, type=Path)
    parser.add_argument("--options", default="{}", type=json.loads, help="JSON object")
    parser.add_argument("--out-weights", required=True, type=Path)
    parser.add_argument("--out-inputs", required=True, type=Path)
    parser.add_argument("--out-golden", required=True, type=Path)
    parser.add_argument("--out-signature", required=True, type=Path)
    args = parser.parse_args()
    try:
        make_reference(args)
    except (model.ModelError, model.modelfile.ModelFileError) as error:
        exits.fail(str(error))


def make_reference(args: argparse.Namespace) -> None:
    loaded = model.load(args.name, args.model_file, args.options)
    inputs = loaded.inputs
    # Stored before the first call: a model may write into its weights and its inputs.
    weights, aliases = model.named_weights(loaded.module)
    archive.write(args.out_weights, ((key, model.to_bytes(w)) for key, w in weights.items()))
    stored = {str(i): model.to_numpy(t) for i, (_, t) in enumerate(inputs)}
    tensors.save_npz(args.out_inputs, stored)
    golden = loaded()
    arrays = {f"golden.{i}": model.to_numpy(t) for i, (_, t) in enumerate(golden)}
    for i, (path, tensor) in enumerate(inputs):
        if not np.array_equal(model.to_numpy(tensor), stored[str(i)], equal_nan=True):
            raise model.ModelError(
                f"{args.model_file}: the model changes its input {path} in place"
            )
    eager = list(arrays.values())
    check_golden(args.model_file, eager)
    again = [model.to_numpy(t) for _, t in loaded()]
    dtype = args.options.get("dtype", "f32")
    repeated = compare.compare(again, eager, None, **compare.TOLERANCES[dtype])
    signature = {
        "inputs": tuple(model.tensor_type(name, t) for name, t in inputs),
        "outputs": tuple(model.tensor_type(name, t) for name, t in golden),
        "parameters": tuple(model.tensor_type(key, w) for key, w in weights.items()),
    }
    del weights, again
    fp64 = _float64_outputs(loaded)
    if fp64 is not None:
        arrays |= {f"fp64.{i}": array for i, array in enumerate(fp64)}
    tensors.save_npz(args.out_golden, arrays)
    tensors.Signature(
        model=args.name,
        dtype=dtype,
        batch_size=int(
            args.options.get("batch_size") or modelfile.default_batch_size(args.model_file)
        ),
        aliases=aliases,
        options=args.options,
        torch_version=torch.__version__,
        has_fp64=fp64 is not None,
        rmse_vs_fp64=compare.rmse(eager, fp64) if fp64 is not None else None,
        deterministic=repeated.code == compare.PASS,
        **signature,
    ).write(args.out_signature)


def check_golden(file: Path, golden: list[np.ndarray]) -> None:
    """Refuse outputs that say nothing about whether a program is right."""
    if not golden:
        raise model.ModelError(f"{file}: the model returned no tensor")
    if not any(np.isfinite(array).any() for array in golden):
        raise model.ModelError(f"{file}: no output has a finite value: nothing to compare with")
    if not any(np.any(array) for array in golden):
        raise model.ModelError(f"{file}: every output is zero: any program would pass for it")


def _float64_outputs(loaded: model.LoadedModel) -> list[np.ndarray] | None:
    """Outputs of the same (rounded) weights computed in float64; None where torch cannot.

    Converts the module in place: nothing may use it afterwards.
    """
    wide = model.LoadedModel(
        loaded.name,
        loaded.module.double(),
        *model.cast_floats((loaded.args, loaded.kwargs), torch.float64),
    )
    try:
        return [model.to_numpy(t) for _, t in wide()]
    except RuntimeError as error:
        print(f"note: no float64 reference: {error}", flush=True)
        return None


if __name__ == "__main__":
    main()
