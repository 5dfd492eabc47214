"""Loads an exported program of PyTorch as a model."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from scripts.frontends.sources import exported_program
from scripts.frontends.sources.exported_program import Archive
from scripts.frontends.sources.source import TRUST, given_arrays, option_file, require_types
from scripts.frontends.torch_model import convert, footprint
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.errors import (
    BrokenModelFile,
    Fault,
    ModelError,
    cause,
    with_reason,
)
from scripts.frontends.torch_model.loading import (
    LoadedModel,
    check_inputs,
    check_weights,
    with_arrays,
)


def load(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The module of a program and its example inputs, or the inputs that its entry names.

    Raises BrokenModelFile for a file that is damaged or would be executed, and ModelError for one that torch does not load.
    """
    path = choice.model_file.expanduser()
    archive = exported_program.read(path)
    exported_program.require_whole(path)
    graph = None
    if not choice.options.get("trust"):
        graph = exported_program.refuse_code(path, archive)
        _require_plain(path, archive)
    footprint.require(_weights(archive), stage, memory_factor)
    program = _program(path, archive, graph)
    # Guards are Python code of the file.
    module = program.module(check_guards=False)
    # The module refuses these two, which set a flag that its graph does not read.
    for name in ("train", "eval"):
        module.__dict__.pop(name, None)
    # The hook that takes keyword arguments compares the inputs with the program's in every call, which takes longer than a small
    # model.
    for key in [*module._forward_pre_hooks_with_kwargs]:
        del module._forward_pre_hooks[key], module._forward_pre_hooks_with_kwargs[key]
    with with_reason(Fault.WEIGHTS):
        check_weights(f"{path}: has", module)
    module.eval().requires_grad_(False)
    # A tensor that requires a gradient is a leaf of a graph that no stage wants.
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, torch.Tensor.detach, program.example_inputs or ((), {})
    )
    loaded = LoadedModel(choice.name, module, tuple(args), dict(kwargs), None)
    with with_reason(Fault.INPUTS):
        if not convert.flat_tensors((args, kwargs)):
            raise ModelError(f"{path}: it has no example inputs; save it with the arguments of torch.export.export")  # fmt: skip
        check_inputs(f"{path}: its example inputs are", (args, kwargs))
        if dims := choice.options.get("dims"):
            args, kwargs = _of_sizes(program, (tuple(args), dict(kwargs)), dims)
            loaded = dataclasses.replace(loaded, args=args, kwargs=kwargs)
        if file := option_file(choice.options, "inputs"):
            arrays = given_arrays(file)
            require_types(file, arrays, loaded.input_types)
            loaded = with_arrays(loaded, list(arrays.values()))
    return loaded


def _weights(archive: Archive) -> footprint.Weights:
    counts, sizes = zip(*archive.tensors().values(), strict=True) if archive.tensors() else ((), ())
    return footprint.Weights(sum(counts), sum(sizes), sum(sizes), "as saved")


def _require_plain(path: Path, archive: Archive) -> None:
    """Raise an error unless torch's own zip library reads the same, and the example inputs are only tensors and plain
    values: torch.export.load would unpickle others with weights_only=False."""
    from torch.export.pt2_archive import (
        PT2ArchiveReader,  # imports torch._inductor, which takes a second
    )

    try:
        reader = PT2ArchiveReader(str(path))
        same = sorted(reader.get_file_names()) == sorted(archive.sizes) and all(
            reader.read_bytes(name) == text for name, text in archive.texts.items()
        )
        samples = reader.read_bytes(exported_program.SAMPLES)
    except RuntimeError as error:
        raise BrokenModelFile(f"{path}: {cause(error)}; it is damaged") from error
    if not same:
        raise BrokenModelFile(f"{path}: its directory can be read in two ways; torch.export.save does not write such files")  # fmt: skip
    if not samples:
        return
    try:
        torch.load(io.BytesIO(samples), weights_only=True)
    except Exception as error:
        raise ModelError(
            f"{path}: its example inputs are more than tensors and plain values, and loading them may execute code "
            f"({cause(error)}); {TRUST}",
            Fault.INPUTS,
        ) from error


def _program(path: Path, archive: Archive, graph: dict[str, Any] | None) -> torch.export.ExportedProgram:  # fmt: skip
    """What torch.export.load returns, with `graph` in the place of the file's unless it is None. torch.export.load logs the
    cause of a failure, raises another error, and tries to read the file in an older format, which is a pickle; so functions
    inside it are called."""
    from torch.export.pt2_archive import _package

    class Reader(_package.PT2ArchiveReader):
        def read_bytes(self, name: str) -> bytes:
            changed = name == exported_program.MODEL and graph is not None
            return json.dumps(graph).encode() if changed else super().read_bytes(name)

    for last in (False, True):
        try:
            with Reader(str(path)) as reader:
                names = reader.get_file_names()
                return _package._load_exported_programs(reader, names, None)["model"]
        except Exception as error:
            if not last and "is not registered" in str(error):
                # The classes of results of transformers are known to torch once that is imported.
                with contextlib.suppress(ImportError):
                    import transformers.modeling_outputs  # noqa: F401
                continue
            version = archive.graph.get("schema_version") or {}
            saved = f"PyTorch {archive.graph.get('torch_version')}, schema {version.get('major')}.{version.get('minor')}"
            raise ModelError(
                f"{path}: PyTorch {torch.__version__} does not load it: {cause(error)} (saved by {saved})",
                Fault.FILE,
            ) from error
    raise AssertionError


def _of_sizes(
    program: torch.export.ExportedProgram,
    inputs: tuple[tuple, dict[str, Any]],
    dims: Mapping[str, int],
) -> tuple[tuple, dict[str, Any]]:
    """The example inputs with other sizes of dynamic dimensions: along these, their values are repeated, or the first ones taken."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    shapes = iter([placeholders[name].meta["val"] for name in program.graph_signature.user_inputs if isinstance(name, str)])  # fmt: skip
    leaves, spec = pytree.tree_flatten(inputs)
    resized = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            for axis, (old, size) in enumerate(zip(leaf.shape, next(shapes).shape, strict=True)):
                if isinstance(size, torch.SymInt):
                    new = size.node.expr.subs({s: dims[s.name] for s in size.node.expr.free_symbols if s.name in dims})  # fmt: skip
                    if new.is_number and int(new) != old:
                        leaf = leaf.index_select(axis, torch.arange(int(new)) % old)
        resized.append(leaf)
    args, kwargs = pytree.tree_unflatten(resized, spec)
    return tuple(args), dict(kwargs)
