"""Make a model's reference: weights.irpa, inputs, golden and float64 outputs, signature."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from scripts.core import commands, extra, requests, tensors
from scripts.core.requests import Folders
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.sources.registry import source_of
from scripts.frontends.torch_model import errors, golden
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import store
from scripts.frontends.torch_model.step import EvalStep
from scripts.measure.verify import greedy_tokens


@dataclass(frozen=True, kw_only=True)
class ReferenceRequest:
    model: ModelChoice


def make_reference(request: ReferenceRequest, folders: Folders) -> None:
    """Write a model's reference. Exits if the model cannot be used."""
    commands.report_working()
    with errors.reported():
        _make(request.model, folders.results)


def _make(model: ModelChoice, folder: Path) -> None:
    weights = folder / "weights.irpa"
    loaded = load_model(model, "reference")
    # Stored before the first call: a model may write into its weights and its inputs.
    inputs, parameters, aliases = store(loaded, weights, folder / "inputs.npz")
    inputs_from = loaded.input_description() or ""
    left_out: dict[str, str] = {}
    greedy = extra.or_left_out(
        extra.GREEDY, lambda: greedy_tokens.generation_of(loaded.module), left_out, None
    )
    sizes = extra.or_left_out(
        extra.SIZES, lambda: _sizes(loaded.module), left_out, dict.fromkeys(_SIZES)
    )
    # The last use of the model, which may stay in float64 afterwards.
    observed = golden.observe(loaded, EvalStep, model.model_file, model.dtype)
    tensors.save_npz(folder / "golden.npz", observed.arrays())
    golden_from = loaded.golden_from
    loaded.module = torch.nn.Identity()  # a float model is as large again
    distance = extra.or_left_out(
        extra.QUANTIZATION,
        lambda: golden.quantization_report(loaded, observed.eager),
        left_out,
        None,
    )
    tensors.Signature(
        model=model.name,
        dtype=model.dtype,
        batch_size=int(
            model.options.get("batch_size")
            or source_of(model.model_file).facts(model.model_file, model.options).batch_size
        ),
        inputs=inputs,
        outputs=observed.types,
        parameters=parameters,
        aliases=aliases,
        options=dict(model.options),
        resolved=loaded.file.resolved_options() if loaded.file else {},
        layers=sizes["num_hidden_layers"],
        vocab_size=sizes["vocab_size"],
        torch_version=torch.__version__,
        has_fp64=observed.fp64 is not None,
        rmse_vs_fp64=observed.rmse_vs_fp64,
        deterministic=observed.deterministic,
        weights_bytes=weights.stat().st_size,
        inputs_from=inputs_from,
        golden_from=golden_from,
        generation=asdict(greedy) if greedy else None,
        quantization=distance,
        work=observed.work,
        left_out=left_out | observed.left_out,
    ).write(folder / "signature.json")


_SIZES = ("num_hidden_layers", "vocab_size")


def _sizes(module: torch.nn.Module) -> dict[str, int | None]:
    """_SIZES of a language model; each is None if no configuration has it.

    Models of transformers have a `config`. A module may contain such a model, and the parts of a
    model may have their own; the outermost one is used.
    """
    configs = [
        config for part in module.modules() if (config := getattr(part, "config", None)) is not None
    ]
    sizes = {}
    for name in _SIZES:
        values = (getattr(config, name, None) for config in configs)
        sizes[name] = next((v for v in values if type(v) is int and v > 0), None)
    return sizes


if __name__ == "__main__":
    requests.run(ReferenceRequest, make_reference)
