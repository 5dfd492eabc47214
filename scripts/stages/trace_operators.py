"""Record the operators, with arguments, that a model calls in one eval step and one train step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from scripts.core import commands, requests
from scripts.core.requests import Folders
from scripts.features.operators.calls.tracing import Trace
from scripts.features.operators.problems import traces
from scripts.sources.load_model import load_model
from scripts.torch_model import errors, loading
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.step import EvalStep, TrainStep, make_cotangents, to_training


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    model: ModelChoice


def trace_operators(request: TraceRequest, folders: Folders) -> None:
    """Write the trace of a model. Exits if the model has an error."""
    commands.report_working()
    with errors.reported():
        _trace(request.model, folders.results / f"{request.model.name}.txt")


def _trace(model: ModelChoice, out_trace: Path) -> None:
    """Write the trace of a model. Raises ModelError or ModelFileError if the model has an error.

    If a model cannot be trained, its trace has only the operators of its eval step.
    """
    loaded = load_model(model, "trace")
    trace = Trace()
    try:
        with trace:
            EvalStep(loaded)()
    except Exception as error:
        raise errors.ModelError(
            f"{model.model_file}: its forward pass raised {errors.raised(error, model.model_file)}",
            errors.Fault.FORWARD,
        ) from error
    try:
        _train(loaded, trace, model.seed)
    except Exception as error:
        print(f"note: no training step: {errors.raised(error, model.model_file)}", flush=True)
    traces.write(out_trace, trace.counts)


def _train(loaded: loading.LoadedModel, trace: Trace, seed: int) -> None:
    """Record a training step without its optimizer, as the gradients stage runs it."""
    trained = to_training(loaded)
    with torch.no_grad():
        outputs = trained.module(*trained.args, **trained.kwargs)
    cotangents = [torch.from_numpy(array) for array in make_cotangents(outputs, seed)]
    del outputs
    step = TrainStep(trained, cotangents)
    before = trace.counts.copy()
    try:
        with trace:
            step()
    except Exception:
        trace.counts = before  # do not keep an incomplete step
        raise


if __name__ == "__main__":
    requests.run(TraceRequest, trace_operators)
