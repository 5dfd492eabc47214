"""Write the program of an MLIR file as its golden results are made from it, with its weights, inputs and signature, for a reproducer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from scripts.core import commands
from scripts.core.tensors import Signature
from scripts.exporters import as_it_is
from scripts.lowering import link
from scripts.sources.load_model import load_model
from scripts.torch_model import errors
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.loading import store


@dataclass(frozen=True, kw_only=True)
class Options:
    """The model, and the folder to write to."""

    model: ModelChoice
    out: Path


def main() -> None:
    args = commands.parse_options(Options)
    with errors.reported():
        loaded = load_model(args.model, "reference")
    inputs, parameters, aliases = store(loaded, args.out / "weights.irpa", args.out / "inputs.npz")
    lowered, _ = as_it_is.export(loaded, {"rewrites": "none"})
    (args.out / "program.mlir").write_bytes(link.link(lowered, inputs))
    Signature(
        model=args.model.name,
        dtype=args.model.dtype,
        batch_size=1,
        inputs=inputs,
        outputs=(),
        parameters=parameters,
        aliases=aliases,
        options=dict(args.model.options),
        torch_version=torch.__version__,
        has_fp64=False,
        rmse_vs_fp64=None,
        deterministic=True,
    ).write(args.out / "signature.json")


if __name__ == "__main__":
    commands.run(main)
