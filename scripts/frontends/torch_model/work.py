"""What a call of a model has to do at least: its FLOPs, and the bytes that it must read and write.

The FLOPs are those of torch.utils.flop_counter (a multiplication and an addition are two). An operator
without a formula there counts 0; the counter lists it. The bytes are each weight and input once,
of one that is only gathered from the rows that are read, and each output once. Intermediate results may
stay in caches, so they do not count.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from scripts.frontends.torch_model import convert
from scripts.frontends.torch_model.loading import LoadedModel

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


def count(call: Callable[[], Any], loaded: LoadedModel) -> Work:
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
    """What identifies the memory of a tensor."""
    return tensor.untyped_storage()._cdata


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements, each once: an expanded dimension counts as one."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride) * tensor.element_size()
