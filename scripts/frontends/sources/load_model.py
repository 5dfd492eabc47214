"""Loads a model from whatever its file is: the one way for all stages."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.core.dimensions import Dimension, NotOneOption, Sizes, dimension_of, opened
from scripts.core.tensors import Signature, TensorType
from scripts.frontends.sources import hugging_face, registry
from scripts.frontends.sources.registry import source_of
from scripts.frontends.sources.source import unreadable
from scripts.frontends.torch_model import convert, footprint, loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.errors import (
    Fault,
    ModelError,
    ModelFileError,
    first_line,
    with_reason,
)
from scripts.frontends.torch_model.loading import (
    LoadedModel,
    ModelFile,
    argument_names,
    loaded_from,
    named_weights,
)
from scripts.frontends.torch_model.source import DYNAMIC_FUNCTION
from scripts.supervise.diagnose import diagnose


def load_model(choice: ModelChoice, stage: str = "", memory_factor: float = 1.0) -> LoadedModel:
    """The model of an entry and its inputs, seeded.

    Exits as `oom` before it builds weights that `stage` cannot hold, which takes `memory_factor` times their bytes.
    Raises ModelError or ModelFileError for a model that cannot be used.
    """
    source = source_of(choice.model_file)
    if source is registry.PYTHON:
        return loading.load(choice, stage, memory_factor)
    try:
        return _of_foreign_file(source.name, choice, stage, memory_factor)
    except (ModelError, ModelFileError, ImportError):
        raise
    except Exception as error:
        kind = type(error).__name__
        # Full disks, too little memory and unsupported operators have reasons of their own.
        if diagnose(1, f"{kind}: {first_line(error)}").reason not in (kind, "exit-1", "stage-error"):  # fmt: skip
            raise
        traceback.print_exc()
        raise unreadable(choice.model_file, error) from error


def _of_foreign_file(name: str, choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:  # fmt: skip
    """The model of a file that is no Python file. The module of each source is imported only for its files: not every
    environment has what it needs."""
    if name == "exported-program":
        from scripts.frontends.sources import load_exported_program

        return load_exported_program.load(choice, stage, memory_factor)
    if name == "hugging-face":
        return _load_folder(choice, stage, memory_factor)
    if name == "onnx":
        from scripts.frontends.sources import load_onnx

        return load_onnx.load(choice, stage, memory_factor)
    from scripts.frontends.sources import load_mlir

    return load_mlir.load(choice, stage, memory_factor)


def _load_folder(choice: ModelChoice, stage: str, memory_factor: float) -> LoadedModel:
    """The model of a folder of Hugging Face, with inputs of its configuration, by a Python file that takes the folder as an
    option. Raises ModelError as a model file does, and BrokenModelFile for files that are damaged."""
    path = choice.model_file.expanduser()
    hugging_face.check(path, choice.options)
    count = sum(map(hugging_face.elements, hugging_face.weight_files(path.parent)))
    footprint.require(footprint.Weights(count, 4 * count, 4 * count, "f32"), stage, memory_factor)
    options = {**choice.options, "folder": str(path.parent)}
    try:
        return loaded_from(ModelFile(hugging_face.MODEL, options, choice.load_threads), choice.name)
    except ModelError as error:
        if (cause := error.__cause__) is None:
            raise
        kind = "" if isinstance(cause, ValueError) else f"{type(cause).__name__}: "
        raise ModelError(f"{path.parent}: {kind}{cause}", Fault.FILE) from error


def load_for_all_sizes(
    choice: ModelChoice,
    options: Mapping[str, Sizes],
    signature: Signature,
    stage: str,
    memory_factor: float,
) -> LoadedModel:
    """The model with inputs of sizes by which it can be captured, and its `dimensions`: those that change with one of the
    options, or those that dynamic_shapes() of its file names.

    `signature`: of its reference. Raises ModelError if they are not found, or if other sizes or weights depend on the options. The
    model is built once more for each option, and released.
    """
    captured = {option: sizes.probes()[0] for option, sizes in options.items()}

    def with_sizes(**changes: int) -> LoadedModel:
        sized = source_of(choice.model_file).with_sizes(choice.options, {**captured, **changes})
        return load_model(dataclasses.replace(choice, options=sized), stage, memory_factor)

    others = {
        option: with_sizes(**{option: sizes.probes()[1]}).input_types
        for option, sizes in options.items()
    }
    loaded = with_sizes()
    own = loaded.input_types
    declared = _declared(loaded, options)
    dimensions: list[Dimension] = []
    with _errors_of(choice.model_file, Fault.INPUTS):
        for option, sizes in options.items():
            dimensions += _dimensions(option, sizes, own, others[option], declared)
        _require_one_option_each(dimensions)
        _require_same(captured, opened(signature.inputs, dimensions), opened(own, dimensions))
    with _errors_of(choice.model_file, Fault.WEIGHTS):
        weights, _ = named_weights(loaded.module)
        types = [convert.tensor_type(name, weight) for name, weight in weights.items()]
        _require_same(captured, signature.parameters, types)
    dimensions.sort(key=lambda dimension: (dimension.position, dimension.axis))
    return dataclasses.replace(loaded, dimensions=tuple(dimensions))


@contextlib.contextmanager
def _errors_of(file: Path, reason: Fault) -> Iterator[None]:
    """Name the file and the reason of an error that is raised inside this context."""
    try:
        yield
    except (ModelError, NotOneOption) as error:
        raise ModelError(f"{file}: {error}", reason) from error


def _require_same(
    captured: Mapping[str, int], expected: Sequence[TensorType], actual: Sequence[TensorType]
) -> None:
    """Raise ModelError if inputs or weights are others than those of the reference."""
    by_name = {kind.name: kind for kind in expected}
    for kind in (*actual, *expected):
        if kind not in actual or by_name.get(kind.name) != kind:
            was = by_name[kind.name].mlir if kind.name in by_name else "none"
            now = next((own.mlir for own in actual if own.name == kind.name), "none")
            sizes = ", ".join(f"{name} {value}" for name, value in captured.items())
            raise ModelError(
                f"{kind.name} is {was} with the options of the entry, and {now} with {sizes}; a program for all sizes needs the same "
                "weights and other inputs for all of them"
            )


def _dimensions(
    option: str,
    sizes: Sizes,
    own: list[TensorType],
    other: list[TensorType],
    declared: set[tuple[int, int, str]] | None,
) -> list[Dimension]:
    """The dimensions of one option, from the inputs for its two probes. `declared`: (input, axis, option) of dynamic_shapes()."""
    first, second = sizes.probes()
    forms = [[(kind.name, kind.dtype, len(kind.shape)) for kind in types] for types in (own, other)]
    if forms[0] != forms[1]:
        raise ModelError(
            f"{option} {first} and {second} give inputs of other names, types or ranks: "
            f"{_shown(own)} and {_shown(other)}; a program has the same inputs for all sizes"
        )
    dimensions = []
    for position, (kind, changed) in enumerate(zip(own, other, strict=True)):
        for axis, observed in enumerate(zip(kind.shape, changed.shape, strict=True)):
            if declared is not None and (position, axis, option) not in declared:
                continue
            seen = {first: observed[0], second: observed[1]}
            if dimension := dimension_of(position, kind.name, axis, option, sizes, seen):
                dimensions.append(dimension)
            elif declared is not None:
                raise ModelError(
                    f"{DYNAMIC_FUNCTION}() names dimension {axis} of input {kind.name} for {option}, but it has size {observed[0]} with "
                    f"{option} {first} and with {option} {second}"
                )
    if not dimensions:
        raise ModelError(
            f"dynamic.{option}: no dimension of an input changes with it: {_shown(own)} with {option} {first} and with {option} {second}"
        )
    return dimensions


def _require_one_option_each(dimensions: list[Dimension]) -> None:
    """Raise ModelError for a dimension that changes with two options."""
    by_place: dict[tuple[int, int], Dimension] = {}
    for dimension in dimensions:
        other = by_place.setdefault((dimension.position, dimension.axis), dimension)
        if other is not dimension:
            raise ModelError(
                f"{dimension.place} changes with {other.option} and with {dimension.option}; expected one of them: name the dimensions of "
                f"each in {DYNAMIC_FUNCTION}()"
            )


def _shown(types: list[TensorType]) -> str:
    return ", ".join(f"{kind.name} {kind.iree}".strip() for kind in types)


def _declared(
    loaded: LoadedModel, options: Mapping[str, Sizes]
) -> set[tuple[int, int, str]] | None:
    """(input, axis, option) of each dimension that dynamic_shapes() of a model's file names, for example
    `{"input_ids": {1: "seq_len"}}`; None if there is no such function. An argument with several tensors has these dimensions
    in each of them."""
    if loaded.file is None or DYNAMIC_FUNCTION not in loaded.file.functions:
        return None
    given: Any = loaded.file.call(DYNAMIC_FUNCTION)
    where = f"{loaded.file.path}: {DYNAMIC_FUNCTION}() returned"
    names = argument_names(loaded.module, loaded.args, loaded.kwargs)
    declared: set[tuple[int, int, str]] = set()
    with with_reason(Fault.RETURN):
        if not isinstance(given, Mapping) or not all(
            isinstance(axes, Mapping) for axes in given.values()
        ):
            raise ModelError(
                f"{where} {given!r}, expected for each argument its dimensions: {{'input_ids': {{1: 'seq_len'}}}}"
            )
        for name, dimensions in given.items():
            positions = [position for position, own in enumerate(names) if own == name]
            if not positions:
                known = ", ".join(dict.fromkeys(names))
                raise ModelError(
                    f"{where} the argument {name!r}; expected one of the call's: {known}"
                )
            for axis, option in dimensions.items():
                rank = min(loaded.inputs[position][1].dim() for position in positions)
                if not isinstance(axis, int) or not 0 <= axis < rank:
                    raise ModelError(
                        f"{where} the dimension {axis!r} of {name}; expected 0 to {rank - 1}"
                    )
                if option in options:  # others are not dynamic in this configuration
                    declared |= {(position, axis, option) for position in positions}
    return declared
