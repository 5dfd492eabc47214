"""Write the program of an MLIR file as its golden results are made from it, with its weights, inputs and signature, for a reproducer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from scripts.core import commands, requests
from scripts.core.requests import Folders
from scripts.core.tensors import Signature
from scripts.frontends.exporters import as_it_is
from scripts.frontends.lowering import link
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import errors
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import store


@dataclass(frozen=True, kw_only=True)
class ProgramRequest:
    model: ModelChoice


def write_program(args: ProgramRequest, folders: Folders) -> None:
    """Write the four files. Exits if the model cannot be used."""
    out = folders.results
    with errors.reported():
        loaded = load_model(args.model, "reference")
    inputs, parameters, aliases = store(loaded, out / "weights.irpa", out / "inputs.npz")
    lowered, _ = as_it_is.export(loaded, {"rewrites": "none"})
    (out / "program.mlir").write_bytes(link.link(lowered, inputs))
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
    ).write(out / "signature.json")


if __name__ == "__main__":
    commands.run(lambda: requests.run(ProgramRequest, write_program))
