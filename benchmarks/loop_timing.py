"""Typical loops of PyTorch/XLA in training and serving, timed wrongly and correctly.

benchmarks/naive_timing.py runs them. A loop is a function of the number of calls. It returns when its
author assumes that the work is done. The time from its start to its end is divided by the number of
calls. The correct form of each waits for the device inside the timed region.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from scripts.frontends.torch_model.loading import LoadedModel
from scripts.frontends.torch_model.step import EvalStep, TrainStep, make_cotangents, to_training

Loop = Callable[[int], None]
LEARNING_RATE = 0.01


@dataclasses.dataclass(frozen=True)
class Loops:
    """One thing that loops do: wrong forms by name, and the right one that they are compared with."""

    name: str
    wrong: dict[str, Loop]
    right: dict[str, Loop]


def inference(step: EvalStep) -> list[Loops]:
    """Loops over a forward pass on an XLA device."""
    import torch_xla.core.xla_model as xm

    def tensors(results: Any) -> list[torch.Tensor]:
        return [tensor for _, tensor in step.results(results)]

    def marked(calls: int) -> None:
        for _ in range(calls):
            held = step()
            xm.mark_step()
            del held

    def marked_and_waited(calls: int) -> None:
        marked(calls)
        xm.wait_device_ops()

    def last_to_cpu(calls: int) -> None:
        for _ in range(calls):
            held = tensors(step())
        [tensor.cpu() for tensor in held]

    def each_to_cpu(calls: int) -> None:
        for _ in range(calls):
            [tensor.cpu() for tensor in tensors(step())]

    def one_item(calls: int) -> None:
        for _ in range(calls):
            held = tensors(step())
        held[0].flatten()[0].item()

    def item_of_each(calls: int) -> None:
        for _ in range(calls):
            held = tensors(step())
            xm.mark_step()
            held[0].flatten()[0].item()

    def unlazied(calls: int) -> None:
        for _ in range(calls):
            xm.unlazy(tensors(step()))

    def unlazied_and_waited(calls: int) -> None:
        for _ in range(calls):
            xm.unlazy(tensors(step()))
            xm.wait_device_ops()

    return [
        Loops(
            "mark_step() in a loop", {"no wait": marked}, {"one wait after it": marked_and_waited}
        ),
        Loops(".cpu()", {"of the last result": last_to_cpu}, {"of each result": each_to_cpu}),
        Loops(
            ".item()",
            {"of the last result": one_item},
            {"of each result, after mark_step()": item_of_each},
        ),
        Loops("unlazy()", {"alone": unlazied}, {"and wait_device_ops()": unlazied_and_waited}),
    ]


def training(loaded: LoadedModel, device: Any) -> list[Loops]:
    """Loops over a training step on an XLA device; the model is in train mode afterwards."""
    import torch_xla.core.xla_model as xm

    loaded = to_training(loaded)
    with torch.no_grad():
        outputs = loaded.module(*loaded.args, **loaded.kwargs)
    kept = [torch.from_numpy(c).to(device.device) for c in make_cotangents(outputs, seed=0)]
    step = TrainStep(loaded, kept)  # without an optimizer: each loop has one
    weights = [weight for weight in loaded.module.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=LEARNING_RATE)

    def stepped(calls: int, barrier: bool) -> None:
        for _ in range(calls):
            held = step()
            xm.optimizer_step(optimizer, barrier=barrier)
            del held

    def waited(calls: int) -> None:
        stepped(calls, barrier=True)
        xm.wait_device_ops()

    return [
        Loops(
            "optimizer_step()",
            {
                "no barrier": lambda calls: stepped(calls, barrier=False),
                "barrier=True, no wait": lambda calls: stepped(calls, barrier=True),
            },
            {"barrier=True, one wait after the loop": waited},
        )
    ]
