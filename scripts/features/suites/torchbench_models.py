"""What models of TorchBench and a TorchBench file change in a matrix: batch sizes, skipped cells, precisions,
tolerances."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from scripts.features.suites import suites
from scripts.features.suites.suites import TORCHBENCH
from scripts.features.suites.torchbench import VERIFY_LISTS, TorchbenchFile
from scripts.iree.backends import BACKENDS
from scripts.matrix.cell import Kind
from scripts.matrix.entries import Model, Override
from scripts.matrix.feature import Draft
from scripts.matrix.matrix import Matrix, baseline_cell, iree_cell
from scripts.matrix.precision import POLICY, compute_dtype
from scripts.matrix.reading import ConfigError
from scripts.torch_model import source
from scripts.verify import tolerances


def extend(draft: Draft, matrix: Matrix) -> Matrix:
    """The matrix with the changes of a TorchBench file, if there is one, and with the batch sizes of TorchBench's
    models as options."""
    if file := read(draft.config.get(TORCHBENCH), draft.root, []):
        matrix = apply(matrix, file, draft.root)
    sized = {
        name: _with_options(model, model.options | {"batch_size": model.batch_size})
        for name, model in matrix.models.items()
    }
    return dataclasses.replace(matrix, models=sized)


def _with_options(model: Model, options: dict[str, Any]) -> Model:
    """A model of TorchBench with other options; another model as it is."""
    return dataclasses.replace(model, options=options) if model.suite == TORCHBENCH else model


def absolute(model: Model, root: Path) -> Model:
    """The model for a run in another folder: with the absolute path of TorchBench's checkout."""
    path = str(root / Path(model.options.get("path", "")).expanduser())
    return _with_options(model, model.options | {"path": path})


def batch_size(model: Model, root: Path) -> int | None:
    """The batch size of a model of TorchBench for evaluation on a CPU, read without importing the model: that
    of its metadata for the device `cpu`, else DEFAULT_EVAL_BSIZE of its class; None if neither is a
    plain number, and for other models. Raises BrokenModelFile if one of its files cannot be read."""
    if model.suite != TORCHBENCH:
        return None
    options = model.options
    folder = root / Path(options["path"]).expanduser() / suites.MODELS / options["name"]
    metadata = folder / "metadata.yaml"
    try:
        told = yaml.safe_load(metadata.read_text(encoding="utf-8")) if metadata.is_file() else None
        cpu = ((told or {}).get("devices") or {}).get("cpu") or {}
        if isinstance(size := cpu.get("eval_batch_size"), int):
            return size
        code = ast.parse((folder / "__init__.py").read_bytes())
    except (OSError, SyntaxError, ValueError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise source.BrokenModelFile(f"{folder}: its batch size cannot be read ({text})") from error
    for node in ast.walk(code):
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=int(size))):
                if any(isinstance(t, ast.Name) and t.id == "DEFAULT_EVAL_BSIZE" for t in targets):
                    return size
    return None


def read(entry: Mapping[str, str] | None, root: Path, problems: list[str]) -> TorchbenchFile | None:
    """The file that the configuration names; None if there is none. Errors are added to `problems`."""
    if not entry or "file" not in entry:
        return None
    try:
        file = TorchbenchFile.read((root / Path(entry["file"]).expanduser()).resolve())
    except ConfigError as error:
        problems.append(f"torchbench.file: {error}")
        return None
    # Rows quote the path as given, so they are the same in another checkout.
    return dataclasses.replace(file, path=entry["file"])


def apply(matrix: Matrix, file: TorchbenchFile, root: Path) -> Matrix:
    """The matrix with the changes of the file.

    Raises ConfigError naming every model that cannot have the batch size that the file sets.
    """
    problems, models = [], {}
    for name, model in matrix.models.items():
        try:
            models[name] = _model(model, file, matrix.tests)
            if not model.broken:
                source.check_options((root / model.file).resolve(), models[name].options)
        except (source.ModelFileError, ConfigError) as error:
            problems.append(f"{model.where}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    matrix = dataclasses.replace(matrix, models=models)
    return dataclasses.replace(matrix, overrides=dict(_overrides(matrix, file)))


def _model(model: Model, file: TorchbenchFile, tests: tuple[str, ...]) -> Model:
    """The model with the file's batch size, unless its entry sets one, and the file's reasons to
    skip it. Raises ConfigError if the file has different sizes for `tests`."""
    options = dict(model.options)
    if "batch_size" not in options:
        own = model.default_batch_size
        sizes = {test: file.batch_size(model.torchbench, test, own) for test in tests}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{test} {size}" for test, size in sizes.items())
            raise ConfigError(
                f"{file.path} gives it batch sizes by test ({shown}), and its weights, "
                "inputs and rows have one: set batch_size, or run the tests one by one"
            )
        size = next(iter(sizes.values()), own)
        if size != own:
            options["batch_size"] = size
    everywhere = ("skip.all", "skip.multiprocess", *VERIFY_LISTS)
    skip = file.first(everywhere, model.torchbench)
    skip_train = skip or file.first(["skip.test.training"], model.torchbench)
    return dataclasses.replace(model, options=options, skip=skip, skip_train=skip_train)


def _overrides(matrix: Matrix, file: TorchbenchFile) -> Iterator[tuple[str, Override]]:
    """The changes of the file by cell, for cells that have any."""
    for model, frontend, target in matrix.cells():
        device = BACKENDS[target.backend].torch_device
        override = _override(model, device, frontend.test, None, "none", file)
        if override != Override():
            row = iree_cell(model, frontend, target)
            yield from ((str(affected), override) for affected in (row.to(Kind.MODULE), row))
    for model, baseline, test in matrix.baseline_cells():
        policy = None
        if baseline.precision == POLICY:
            policy = file.precision(model.torchbench, baseline.device, test)
        precision = policy or baseline.precision or "none"
        override = _override(model, baseline.device, test, policy, precision, file)
        if override != Override():
            yield str(baseline_cell(model, baseline, test)), override


def _override(
    model: Model, device: str, test: str, policy: str | None, precision: str, file: TorchbenchFile
) -> Override:
    name = model.torchbench
    skip = file.skip_reason(name, device, test) or file.skip_verify_reason(name)
    tolerance = dict(file.tolerance(name, device, test, precision))
    # The lists raise PyTorch's default tolerance; the default of this project may be higher already.
    default = tolerances.TOLERANCES if test == "eval" else tolerances.TRAIN_TOLERANCES
    if tolerance.get("tol", 0.0) <= default[compute_dtype(model.dtype, precision)]:
        tolerance.pop("tol", None)
    return Override(skip, policy, tolerance)
