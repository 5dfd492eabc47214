"""Record the operators, with arguments, that a model calls in one eval step and one train step."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from scripts.core import channel
from scripts.features.operators.calls.tracing import Trace
from scripts.features.operators.problems import traces
from scripts.torch_model import arguments, errors, loading, source
from scripts.torch_model.arguments import ModelChoice
from scripts.torch_model.step import EvalStep, TrainStep, make_cotangents, to_training


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.trace_operators", description=__doc__
    )
    arguments.add_arguments(parser)
    parser.add_argument("--out-trace", required=True, type=Path)
    args = parser.parse_args()
    try:
        trace_operators(arguments.model(args), args.out_trace)
    except (errors.ModelError, source.ModelFileError) as error:
        errors.fail(error)


def trace_operators(model: ModelChoice, out_trace: Path) -> None:
    """Write the trace of a model. Raises ModelError or ModelFileError if the model has an error.

    If a model cannot be trained, its trace has only the operators of its eval step.
    """
    loaded = loading.load(
        model.name, model.file, model.options, "trace", threads=model.load_threads
    )
    trace = Trace()
    try:
        with trace:
            EvalStep(loaded)()
    except Exception as error:
        raise errors.ModelError(
            f"{model.file}: its forward pass raised {errors.raised(error, model.file)}",
            errors.Fault.FORWARD,
        ) from error
    try:
        _train(loaded, trace, int(model.options.get("seed", 0)))
    except Exception as error:
        print(f"note: no training step: {errors.raised(error, model.file)}", flush=True)
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
    main()
