"""A call of a model: a forward pass (eval) or a training step (train), and what a program of a training step takes and
returns.

A step takes a model on its device. `call` is its module, or what a runtime compiled from it. A step
returns all of its results, so that nothing can be removed as unused. `count_work` counts the FLOPs and bytes of one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from scripts.core import tensors
from scripts.core.tensors import CHANGE, GRADIENT, OPTIMIZER, Signature, TensorType
from scripts.frontends.torch_model import convert, errors
from scripts.frontends.torch_model.arguments import Optimizer
from scripts.frontends.torch_model.loading import LoadedModel

Autocast = Callable[[], AbstractContextManager]
Named = list[tuple[str, torch.Tensor]]
Tensors = Mapping[str, torch.Tensor]


class EvalStep:
    """The forward pass without gradients; results are the model's tensor outputs."""

    def __init__(self, loaded: LoadedModel, autocast: Autocast = contextlib.nullcontext) -> None:
        self.loaded, self.autocast = loaded, autocast
        self.call: Callable = loaded.module

    def __call__(self) -> Any:
        with torch.no_grad(), self.autocast():
            return self.call(*self.loaded.args, **self.loaded.kwargs)

    def results(self, outputs: Any) -> Named:
        """(path, tensor) of every output."""
        return convert.flat_tensors(outputs)


class TrainStep:
    """Forward, loss, backward, optimizer step; results are the loss and every gradient.

    The loss is the model's own, if its output has a tensor `loss`. Otherwise it is the sum over the
    floating-point outputs of mean(output * cotangent), with fixed cotangents. A plain mean, as in
    PyTorch's dynamo benchmarks, has no gradient through a layer norm, so any gradient would pass.
    Until `optimizer` is set, the weights do not change.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cotangents: Sequence[torch.Tensor],
        autocast: Autocast = contextlib.nullcontext,
    ) -> None:
        self.loaded, self.cotangents, self.autocast = loaded, cotangents, autocast
        self.call: Callable = loaded.module
        self.optimizer: torch.optim.Optimizer | None = None

    def __call__(self) -> Any:
        self.loaded.module.zero_grad(set_to_none=True)
        with self.autocast():
            outputs = self.call(*self.loaded.args, **self.loaded.kwargs)
            loss = loss_of(outputs, self.cotangents)
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            raise errors.ModelError(
                "nothing to train: no floating-point output depends on a parameter that has a gradient"
            )
        loss.backward()
        gradients = [
            (f"{GRADIENT}{name}", weight.grad)
            for name, weight in self.loaded.module.named_parameters()
            if weight.grad is not None
        ]
        if self.optimizer:
            self.optimizer.step()
        return [(tensors.LOSS, loss.detach()), *gradients]

    def results(self, observed: Named) -> Named:
        """(name, tensor) of the loss and of every parameter's gradient."""
        return observed


class WholeStep(TrainStep):
    """A training step that has everything that it changes among its results: after the loss and the gradients,
    the changes of the buffers that the step changes, of each parameter, and of each tensor of the optimizer's state.

    The model and `state` (the optimizer's, by `state_key`) stay as they are, so every call takes the same step.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cotangents: Sequence[torch.Tensor],
        optimizer: Optimizer,
        state: Tensors,
    ) -> None:
        super().__init__(loaded, cotangents)
        self.update, self.state = optimizer, state

    def __call__(self) -> Any:
        module = self.loaded.module
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        observed = super().__call__()
        changes = {}
        for name, buffer in module.named_buffers():
            if not torch.equal(buffer, before[name]):
                old = before[name]
                changes[name] = buffer ^ old if buffer.dtype is torch.bool else buffer - old
                buffer.copy_(before[name])
        weights = {n: w.detach() for n, w in module.named_parameters() if w.grad is not None}
        gradients = {n: w.grad for n, w in module.named_parameters() if w.grad is not None}
        for name, value in stepped(self.update, weights, gradients, self.state).items():
            old = weights[name] if name in weights else self.state[name].to(value.dtype)
            changes[name] = value - old
        return observed + [(f"{CHANGE}{name}", value) for name, value in changes.items()]


def loss_of(outputs: Any, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
    """The loss of a model's outputs, as TrainStep has it. Raises ModelError if the cotangents are those of other
    outputs."""
    own = _own_loss(outputs)
    if own is not None:
        return own
    floats = _floating_outputs(outputs)
    if [o.shape for o in floats] != [c.shape for c in cotangents]:
        raise errors.ModelError(
            f"outputs of shapes {[list(o.shape) for o in floats]}, expected those of the "
            f"gradients stage: {[list(c.shape) for c in cotangents]}"
        )
    return sum((o.to(c.dtype) * c).mean() for o, c in zip(floats, cotangents, strict=True))


def make_cotangents(outputs: Any, seed: int) -> list[np.ndarray]:
    """Standard normal values of the shape of each floating-point output.

    numpy's, since torch's generators differ between versions and devices.
    """
    if _own_loss(outputs) is not None:
        return []
    random = np.random.default_rng(seed)
    return [random.standard_normal(o.shape, np.float32) for o in _floating_outputs(outputs)]


def _own_loss(outputs: Any) -> torch.Tensor | None:
    """The loss that the model itself returns (as transformers' models do when given labels)."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    return loss if isinstance(loss, torch.Tensor) and loss.numel() == 1 else None


def _floating_outputs(outputs: Any) -> list[torch.Tensor]:
    return [t for _, t in convert.flat_tensors(outputs) if t.is_floating_point()]


def to_training(loaded: LoadedModel) -> LoadedModel:
    """The model in train mode with gradients and without dropout, in place.

    Dropout draws from each runtime's own generator: with it, no two runtimes could agree on a
    gradient. Every probability is set to zero: `p` of torch's dropout layers and torchvision's
    StochasticDepth, and any float attribute named after dropping (transformers, timm).
    """
    loaded.module.train()
    for weight in loaded.module.parameters():
        weight.requires_grad_(weight.is_floating_point())
    for module in loaded.module.modules():
        drops = "Dropout" in type(module).__name__ or "Stochastic" in type(module).__name__
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("drop" in name or (drops and name == "p")):
                setattr(module, name, 0.0)
    return loaded


def placed(loaded: LoadedModel, device: torch.device) -> LoadedModel:
    """The model and its inputs on `device`; on the CPU, as they are.

    Weights that are one stay one: moved to an XLA device, a tied weight becomes two, each with
    half of the gradient (GPT-2's embedding and its head).
    """
    if device.type == "cpu":
        return loaded
    places: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for owner in loaded.module.modules():
        for name, weight in owner._parameters.items():
            if weight is not None:
                places.setdefault(id(weight), []).append((owner, name))
    loaded.module.to(device)
    for (owner, name), *others in places.values():
        for other, other_name in others:
            setattr(other, other_name, getattr(owner, name))
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(device), (loaded.args, loaded.kwargs)
    )
    return dataclasses.replace(loaded, args=args, kwargs=kwargs)


def state_key(slot: str, weight: str) -> str:
    """The key in archives of one of an optimizer's tensors for a weight."""
    return f"{OPTIMIZER}{slot}.{weight}"


def make_optimizer(optimizer: Optimizer, weights: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """The optimizer of these weights, which updates one after the other as the captured programs do."""
    kind = getattr(torch.optim, optimizer.name)
    return kind(list(weights), **optimizer.arguments, foreach=False)


def state_slots(optimizer: Optimizer) -> tuple[str, ...]:
    """The names of the tensors that it keeps for each weight: none for SGD, `momentum_buffer` for SGD with momentum,
    `step`, `exp_avg` and `exp_avg_sq` for Adam."""
    weight = torch.zeros(1)
    weight.grad = torch.ones(1)
    stepper = make_optimizer(optimizer, [weight])
    stepper.step()
    return tuple(n for n, value in stepper.state[weight].items() if isinstance(value, torch.Tensor))


def set_state(
    stepper: torch.optim.Optimizer,
    weight: torch.Tensor,
    name: str,
    slots: Sequence[str],
    state: Tensors,
) -> None:
    """Give an optimizer its state for a weight: copies of the tensors for `slots` in `state`, in the weight's dtype where
    they have its shape. Nothing, if `state` has none."""
    given = {slot: state[state_key(slot, name)] for slot in slots if state_key(slot, name) in state}
    if given:
        stepper.state[weight] = {
            slot: (value.to(weight.dtype) if value.shape == weight.shape else value).clone()
            for slot, value in given.items()
        }


def stepped(
    optimizer: Optimizer, weights: Tensors, gradients: Tensors, state: Tensors
) -> dict[str, torch.Tensor]:
    """Return what a step of the optimizer makes of weights and of its state, by key.

    The arguments stay as they are. `gradients`: by the names of their weights. `state`: by `state_key`; without an entry
    the optimizer starts anew.
    """
    copies = {name: weights[name].detach().clone() for name in gradients}
    for name, copy in copies.items():
        copy.grad = gradients[name].detach()
    stepper = make_optimizer(optimizer, copies.values())
    slots = state_slots(optimizer)
    for name, copy in copies.items():
        set_state(stepper, copy, name, slots, state)
    stepper.step()
    return copies | {
        state_key(slot, name): value
        for name, copy in copies.items()
        for slot, value in stepper.state[copy].items()
        if isinstance(value, torch.Tensor)
    }


@dataclass(frozen=True)
class Training:
    """What a program of a training step takes and returns, as the gradients stage has fixed it.

    `cotangents`: inputs of the program after those of the model. `state`: the optimizer's tensors by key.
    `results`: the names of the results in order (core/tensors.py).
    """

    optimizer: Optimizer
    cotangents: tuple[TensorType, ...]
    state: Mapping[str, TensorType]
    results: tuple[str, ...]

    def results_of(self, prefix: str) -> frozenset[str]:
        """The names after GRADIENT, of the parameters that have one; or after CHANGE, of the weights, buffers and tensors
        of the optimizer that the step changes."""
        names = (name for name in self.results if name.startswith(prefix))
        return frozenset(name.removeprefix(prefix) for name in names)


def for_capture(loaded: LoadedModel, signature: Signature, optimizer: Optimizer) -> LoadedModel:
    """The model as a training step is captured of it, in place: in train mode, with gradients for those parameters
    that the step changes. `signature`: of the gradients stage."""
    kinds = {kind.name: kind for kind in signature.parameters}
    loaded.training = Training(
        optimizer=optimizer,
        cotangents=signature.inputs[len(loaded.inputs) :],
        state={key: kind for key, kind in kinds.items() if key.startswith(OPTIMIZER)},
        results=tuple(kind.name for kind in signature.outputs),
    )
    to_training(loaded)
    trained = loaded.training.results_of(GRADIENT)
    for name, weight in loaded.module.named_parameters():
        weight.requires_grad_(name in trained)
    return loaded


_aten = torch.ops.aten
_GATHERS: dict[Any, tuple[int, int, int | None]] = {
    _aten.embedding: (0, 1, 0),
    _aten.index_select: (0, 2, None),
    _aten._embedding_bag: (0, 1, 0),
    _aten._embedding_bag_forward_only: (0, 1, 0),
}
"""Operators that read rows of a tensor: the positions of the tensor and the indices among their arguments, and the
dimension that is indexed; None: the argument between the two."""


@dataclass
class ModuleWork:
    """The part of a module without the modules that it calls: FLOPs, and bytes that are read or written there first."""

    flop: int = 0
    bytes: int = 0


@dataclass
class Work:
    """The work of one call. `weight_bytes`, `input_bytes`, `output_bytes`: what must be moved. `no_formula`: calls
    by operator without a FLOP formula. `modules`: by path."""

    flop: int = 0
    weight_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    no_formula: dict[str, int] = field(default_factory=dict)
    modules: dict[str, ModuleWork] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """All bytes that must be moved."""
        return self.weight_bytes + self.input_bytes + self.output_bytes

    def totals(self) -> dict[str, Any]:
        """The work of the whole call, without that of single modules, for a signature."""
        return {key: value for key, value in vars(self).items() if key != "modules"}

    def of_module(self, module: str) -> ModuleWork:
        """The part of a module, to which more may be added."""
        return self.modules.setdefault(module, ModuleWork())


def count_work(call: Callable[[], Any], loaded: LoadedModel) -> Work:
    """The work of one call of `call`, which calls `loaded.module` with its inputs once and returns its results.

    Of a training step, the weights count once, although the forward and the backward pass read them.
    """
    model = loaded.module
    weights = [*model.parameters(), *model.buffers()]
    stored = {_storage(t): "weight_bytes" for t in weights}
    stored |= {_storage(tensor): "input_bytes" for _, tensor in loaded.inputs}
    counter = _Counter(stored)
    # Let nn.MultiheadAttention call single operators. Its fast path is one operator without a FLOP formula.
    usual = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _current_module(model, counter), counter:
            outputs = call()
    finally:
        torch.backends.mha.set_fastpath_enabled(usual)
    work = counter.finished()
    written = {_storage(t): t for _, t in convert.flat_tensors(outputs)}
    work.output_bytes = sum(_bytes(t) for key, t in written.items() if key not in stored)
    work.of_module("").bytes += work.output_bytes
    return work


class _Counter(TorchDispatchMode):
    """Counts what runs while it is active. `stored`: the field of Work that a storage counts for."""

    def __init__(self, stored: dict[int, str]) -> None:
        super().__init__()
        self.work = Work()
        self.modules = [""]
        self._stored = stored
        self._read: dict[int, _Read] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = getattr(func, "_overloadpacket", func)
        if packet not in flop_registry and hasattr(func, "decompose"):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        if getattr(func, "is_view", False):
            return out
        if packet in flop_registry:
            flop = flop_registry[packet](*args, **kwargs, out_val=out)
            self.work.flop += flop
            self.work.of_module(self.modules[-1]).flop += flop
        else:
            self.work.no_formula[str(func)] = self.work.no_formula.get(str(func), 0) + 1
        self._note_reads(packet, args, kwargs)
        return out

    def _note_reads(self, packet: Any, args: Any, kwargs: Any) -> None:
        gathered = _gathered(packet, args)
        for tensor in pytree.tree_leaves((args, kwargs)):
            if isinstance(tensor, torch.Tensor) and (key := _storage(tensor)) in self._stored:
                read = self._read.setdefault(
                    key, _Read(self.modules[-1], tensor.untyped_storage().nbytes())
                )
                if gathered and tensor is gathered[0]:
                    read.add_rows(*gathered)
                else:
                    read.add(tensor)

    def finished(self) -> Work:
        """The work, with the bytes of everything that was read."""
        for key, read in self._read.items():
            name = self._stored[key]
            setattr(self.work, name, getattr(self.work, name) + read.bytes)
            self.work.of_module(read.module).bytes += read.bytes
        return self.work


class _Read:
    """What was read of one storage. `module`: the first module that read it."""

    def __init__(self, module: str, limit: int) -> None:
        self.module = module
        self._limit = limit
        self._views: dict[tuple, int] = {}
        self._rows: dict[tuple, torch.Tensor] = {}

    @property
    def bytes(self) -> int:
        """Bytes of all different views, but no more than the storage has."""
        rows = sum(int(seen.sum()) * size for (size, *_), seen in self._rows.items())
        return min(self._limit, sum(self._views.values()) + rows)

    def add(self, tensor: torch.Tensor) -> None:
        """Note that a tensor was read as a whole."""
        place = (tensor.storage_offset(), tensor.shape, tensor.stride())
        self._views[place] = _bytes(tensor)

    def add_rows(self, tensor: torch.Tensor, indices: torch.Tensor, dim: int) -> None:
        """Note that slices of a tensor along `dim` were read."""
        rows = tensor.shape[dim]
        size = _bytes(tensor) // rows if rows else 0
        place = (size, tensor.storage_offset(), tensor.shape, tensor.stride(), dim)
        seen = self._rows.setdefault(place, torch.zeros(rows, dtype=torch.bool))
        seen[indices.detach().reshape(-1).long()] = True


def _gathered(packet: Any, args: Any) -> tuple[torch.Tensor, torch.Tensor, int] | None:
    """The tensor, the indices and the dimension of a call that reads only some rows of a tensor."""
    if packet is _aten.index:
        indexed = [(dim, place) for dim, place in enumerate(args[1]) if place is not None]
        if len(indexed) == 1 and indexed[0][1].dtype != torch.bool:
            return args[0], indexed[0][1], indexed[0][0]
        return None
    if packet not in _GATHERS:
        return None
    tensor, indices, dim = _GATHERS[packet]
    return args[tensor], args[indices], args[1] if dim is None else dim


@contextlib.contextmanager
def _current_module(model: torch.nn.Module, counter: _Counter) -> Iterator[None]:
    """Let `counter.modules` end with the path of the module that runs, while the context lasts."""
    handles = []
    for path, module in model.named_modules():

        def enter(*_: Any, path: str = path) -> None:
            counter.modules.append(path)

        def leave(*_: Any) -> None:
            counter.modules.pop()

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements, each once: an expanded dimension counts as one."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride) * tensor.element_size()
