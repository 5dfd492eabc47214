"""Writes the model of a Python file as an exported program, <name>.pt2, and as an ONNX file, <name>/model.onnx, with the same weights and
inputs.

.venvs/onnxruntime/bin/python -m benchmarks.model_files models/conv.py files
snakemake --cores 8 results/latency.csv --config file=models/conv.py,files/conv.pt2,files/conv/model.onnx targets=llvm-cpu
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
import torch

from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import convert
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import FlatModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    inputs = args.folder / args.model.stem / "test_data_set_0"
    inputs.mkdir(parents=True, exist_ok=True)
    loaded = load_model(ModelChoice(args.model.stem, args.model, {}))
    program = torch.export.export(loaded.module, loaded.args, loaded.kwargs)
    torch.export.save(program, args.folder / f"{args.model.stem}.pt2")
    tensors = tuple(tensor for _, tensor in loaded.inputs)
    exported = torch.onnx.export(FlatModel(loaded).eval(), tensors, dynamo=True, verbose=False)
    exported.save(inputs.parent / "model.onnx")
    for number, tensor in enumerate(tensors):
        array = onnx.numpy_helper.from_array(convert.to_numpy(tensor))
        onnx.save_tensor(array, inputs / f"input_{number}.pb")


if __name__ == "__main__":
    main()
