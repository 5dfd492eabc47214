"""The captured graph of a model, rewritten for speed, in place of the model: for baselines with `rewrites: speed`.

Exporters capture and rewrite the graph in the same way, so the runtimes that IREE is compared with can use
the same rewrites.
"""

from __future__ import annotations

import dataclasses

import torch

from scripts.core import exits
from scripts.lowering import capture, fx_rewrites
from scripts.torch_model.loading import LoadedModel


def for_speed(loaded: LoadedModel) -> tuple[LoadedModel, tuple[str, ...]]:
    """The rewritten graph as a model of the flat tensor inputs, and the names of the rewrites.

    Its outputs are the tensors among the model's outputs, in order. Exits as `unsupported` if no
    rewrite changes the graph, because the row would repeat that of the model as it is.
    """
    with torch.no_grad():
        program = capture.functional(capture.capture(loaded), {})
    capture.results(program)  # refuses a graph whose calls depend on the calls before
    names = fx_rewrites.apply(program, fx_rewrites.SPEED)
    if not names:
        exits.fail("no rewrite for speed changes the graph of this model", exits.UNSUPPORTED)
    inputs = tuple(tensor for _, tensor in loaded.inputs)
    # Without the checks of the inputs, which no other baseline makes in each call.
    module = program.module(check_guards=False)
    module.validate_inputs = False
    return dataclasses.replace(loaded, module=module, args=inputs, kwargs={}), names
