"""A TorchBench configuration file: which models are skipped, and the batch sizes and tolerances of the others.

The format is that of torchbench.yaml, huggingface.yaml and timm_models.yaml in benchmarks/dynamo of
PyTorch. The scripts in that folder read them ("PyTorch" below), and benchmarks/torchbench_model.py of
PyTorch/XLA reads the first one. A model is looked up by its exact name. Keys that are not read here
may have any value, and a missing list names no model.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.config import reading
from scripts.config.cell import Kind
from scripts.config.choices import compute_dtype
from scripts.config.entries import Model, Override
from scripts.config.feature import Draft
from scripts.config.models import TORCHBENCH, with_torchbench_options
from scripts.config.reading import ConfigError
from scripts.config.rows import Matrix, baseline_cell, iree_cell
from scripts.frontends.torch_model import source
from scripts.iree.backends import BACKENDS
from scripts.measure.verify import torch_same

LISTS = (
    "skip.all",
    "skip.multiprocess",
    "only_training",
    "non_deterministic",
    "accuracy.skip.large_models",
    "accuracy.skip.eager_not_deterministic",
    "tolerance.higher",
    "tolerance.even_higher",
    "tolerance.higher_fp16",
    "tolerance.higher_bf16",
    "tolerance.cosine",
    "require_larger_multiplier_for_smaller_tensor",
)
"""Keys of lists of models."""

GROUPS = ("skip.device", "skip.test")
"""Keys of mappings to lists of models, by device or by `training` and `inference`."""

SIZES = ("batch_size.training", "batch_size.inference", "batch_size.divisors")
"""Keys of mappings from a model to a positive whole number."""

VERIFY_LISTS = (
    "accuracy.skip.large_models",
    "accuracy.skip.eager_not_deterministic",
    "non_deterministic",
)

_TEST_NAMES = {"eval": "inference", "train": "training"}


@dataclass(frozen=True)
class TorchbenchFile:
    """A file as read. `lists` and `sizes` are by dotted key, for instance `skip.device.cpu`.

    `test` is `eval` or `train`, `precision` one of choices.PRECISIONS.
    """

    path: str
    lists: Mapping[str, frozenset[str]]
    sizes: Mapping[str, Mapping[str, int]]

    @classmethod
    def read(cls, path: str | Path) -> TorchbenchFile:
        """Read a file; lists in lists (`- *ANCHOR`) are flattened, null stands for nothing.

        Raises reading.ConfigError with every problem: the file, the key, what was found and what
        is expected there.
        """
        reader = _Reader(path)
        in_groups = [f"{group}.{name}" for group in GROUPS for name in reader.at(group, dict)]
        lists = {key: reader.names(key) for key in (*LISTS, *in_groups)}
        sizes = {key: reader.sizes(key) for key in SIZES}
        if reader.problems:
            raise reading.ConfigError("\n".join(reader.problems))
        return cls(str(path), lists, sizes)

    def skip_reason(self, model: str, device: str, test: str) -> str:
        """Why a model does not run, as `skip.device.cpu of <file>`; "" if it does.

        `device` is PyTorch's name of the device (`cuda` for ROCm). Models of skip.multiprocess are skipped because
        nothing here runs several processes. PyTorch runs those of only_training in evaluation too. But the file says
        that their accuracy cannot be checked there, and here only verified results have a latency.
        """
        keys = ["skip.all", f"skip.device.{device}", f"skip.test.{_TEST_NAMES[test]}"]
        keys += ["skip.multiprocess", "only_training"] if test == "eval" else ["skip.multiprocess"]
        return self.first(keys, model)

    def skip_verify_reason(self, model: str) -> str:
        """Why a model's results cannot be compared with eager's, as `<key> of <file>`; "" if they can.

        This uses the two lists of accuracy.skip for every test, as PyTorch/XLA does (PyTorch uses
        eager_not_deterministic in training only), and non_deterministic, whose failures PyTorch
        counts as passes.
        """
        return self.first(VERIFY_LISTS, model)

    def batch_size(self, model: str, test: str, default: int) -> int:
        """The batch size of a model: the one that the file sets, or else `default`, the model's own, divided by the
        file's divisor for it, rounded down, at least 1.

        dont_change_batch_size does not matter here: for models of that list, PyTorch and PyTorch/XLA ignore a size
        from the command line but still use that of the file. accuracy.max_batch_size is not read, because PyTorch
        applies it to runs that are checked and not timed. batch_size.divisors is in huggingface.yaml and
        timm_models.yaml, whose models' own sizes are recorded elsewhere as those that fill a GPU of 40 GB.
        """
        divided = max(default // self.sizes["batch_size.divisors"].get(model, 1), 1)
        return self.sizes[f"batch_size.{_TEST_NAMES[test]}"].get(model, divided)

    def tolerance(
        self, model: str, device: str, test: str, precision: str
    ) -> dict[str, float | bool]:
        """What the file's lists set for the verification of a model; empty if no list names it.

        - `tol`, absolute and relative tolerance: 1e-3, 1e-2 or 8e-2 (see `_tol`). PyTorch's
          tolerances for models in no list are not used, because the pipeline has its own by dtype.
          Those may be larger; the caller takes the larger of the two.
        - `cosine`, True: compare by cosine similarity. This applies to every test, as in PyTorch/XLA;
          PyTorch uses this list only for training on a GPU without autocast.
        - `small_tensor_multiplier`, True: a larger tolerance for small tensors, as
          `use_larger_multiplier_for_smaller_tensor` of `torch._dynamo.utils.same`.

        The lists that only huggingface.py and timm_models.py have (`tolerance.higher_training` and so on) are not read:
        the same key means 2e-2 in one and 4e-2 in the other, and a file does not say to which it belongs.
        """
        tolerances: dict[str, float | bool] = {}
        if (tol := self._tol(model, device, test, precision)) is not None:
            tolerances["tol"] = tol
        if self._names("tolerance.cosine", model):
            tolerances["cosine"] = True
        if self._names("require_larger_multiplier_for_smaller_tensor", model):
            tolerances["small_tensor_multiplier"] = True
        return tolerances

    def _tol(self, model: str, device: str, test: str, run_in: str) -> float | None:
        """The tolerance by the rules of `get_tolerance_and_cosine_flag` in benchmarks/dynamo/torchbench.py
        of PyTorch.

        There a GPU is `cuda` or `xpu`; here it is any device other than the CPU. Autocast of any type
        counts as float16 there, and ends the search.
        """
        gpu_training = _TEST_NAMES[test] == "training" and device != "cpu"
        if run_in in ("none", "bf16"):
            lists = {"higher_bf16": 1e-2} if run_in == "bf16" else {}
            lists |= {"higher": 1e-3, "even_higher": 8e-2} if gpu_training else {}
        else:
            lists = {"higher_fp16": 1e-2, "even_higher": 8e-2}
        named = (tol for key, tol in lists.items() if self._names(f"tolerance.{key}", model))
        return next(named, None)

    def _names(self, key: str, model: str) -> bool:
        return model in self.lists.get(key, ())

    def first(self, keys: Iterable[str], model: str) -> str:
        """The first of these lists that names a model, as `<key> of <file>`; "" if none does."""
        return next((f"{key} of {self.path}" for key in keys if self._names(key, model)), "")


_FORMS: dict[type[Any], str] = {dict: "a mapping", list: "a list of models"}


class _Reader:
    """The values of a file by dotted key. Errors are collected in `problems`, each once: `skip: 3` is met for each
    key below it."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.problems: dict[str, None] = {}
        try:
            text = Path(path).read_text(encoding="utf-8")
            self.document = yaml.load(text, Loader=reading.BoundedLoader)
        except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: no UTF-8, no such date
            message = " ".join(str(error).split())
            raise reading.ConfigError(f"{path}: cannot be read as YAML: {message}") from error
        if not isinstance(self.document, dict):
            short = _short(self.document)
            raise reading.ConfigError(f"{path}: found {short}, expected a mapping")

    def at(self, key: str, form: type[Any]) -> Any:
        """The value of a dotted key, of the form dict or list. An empty one where the file has none, null or, which is a
        problem, another value."""
        above, _, last = key.rpartition(".")
        value = (self.at(above, dict) if above else self.document).get(last)
        is_right = value is None or self._expect(isinstance(value, form), key, value, _FORMS[form])
        return (value or form()) if is_right else form()

    def names(self, key: str) -> frozenset[str]:
        """The models of a list and of the lists in it."""
        # timm_models.yaml has lists of nothing but `~`.
        items = (item for item in _flat(self.at(key, list)) if item is not None)
        return frozenset(item for item in items if self._expect_name(key, item))

    def sizes(self, key: str) -> dict[str, int]:
        """A mapping from models to positive whole numbers."""
        sizes = dict(self.at(key, dict))
        for model, size in sizes.items():
            self._expect_name(key, model)
            # True is an int to Python; YAML reads `yes` as True.
            is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
            self._expect(is_size, f"{key}.{model}", size, "a positive whole number")
        return sizes

    def _expect_name(self, key: str, item: Any) -> bool:
        return self._expect(isinstance(item, str), key, item, "the name of a model")

    def _expect(self, holds: bool, key: str, value: Any, expected: str) -> bool:
        """Whether a value is as expected; if not, this is a problem."""
        if not holds:
            self.problems[f"{self.path}: {key}: found {_short(value)}, expected {expected}"] = None
        return holds


def _flat(value: list[Any]) -> Iterator[Any]:
    """The items of a list and of the lists in it. Each list is visited once: an anchor may occur in many lists, and
    even in its own."""
    waiting, seen = [value], {id(value)}
    while waiting:
        for item in waiting.pop():
            if not isinstance(item, list):
                yield item
            elif id(item) not in seen:
                seen.add(id(item))
                waiting.append(item)


def _short(value: Any) -> str:
    """A short form of a value for messages. With anchors, a value can be infinitely large."""
    return "nothing" if value is None else reprlib.repr(value)


def extend(draft: Draft, matrix: Matrix) -> Matrix:
    """The matrix with the changes of a TorchBench file, if there is one, and with the batch sizes of TorchBench's
    models as options."""
    if file := read_torchbench(draft.config.get(TORCHBENCH), draft.root, []):
        matrix = apply_torchbench(matrix, file, draft.root)
    sized = {
        name: with_torchbench_options(model, batch_size=model.batch_size)
        for name, model in matrix.models.items()
    }
    return dataclasses.replace(matrix, models=sized)


def read_torchbench(
    entry: Mapping[str, str] | None, root: Path, problems: list[str]
) -> TorchbenchFile | None:
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


def apply_torchbench(matrix: Matrix, file: TorchbenchFile, root: Path) -> Matrix:
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
        default = model.default_batch_size
        sizes = {test: file.batch_size(model.torchbench, test, default) for test in tests}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{test} {size}" for test, size in sizes.items())
            raise ConfigError(
                f"{file.path} gives it batch sizes by test ({shown}), and its weights, "
                "inputs and rows have one: set batch_size, or run the tests one by one"
            )
        size = next(iter(sizes.values()), default)
        if size != default:
            options["batch_size"] = size
    everywhere = ("skip.all", "skip.multiprocess", *VERIFY_LISTS)
    skip = file.first(everywhere, model.torchbench)
    skip_train = skip or file.first(["skip.test.training"], model.torchbench)
    return dataclasses.replace(model, options=options, skip=skip, skip_train=skip_train)


def _overrides(matrix: Matrix, file: TorchbenchFile) -> Iterator[tuple[str, Override]]:
    """The changes of the file by cell, for cells that have any."""
    for model, frontend, target in matrix.cells():
        device = BACKENDS[target.backend].torch_device
        override = _override(model, device, frontend.test, "none", file)
        if override != Override():
            row = iree_cell(model, frontend, target)
            yield from ((str(affected), override) for affected in (row.to(Kind.MODULE), row))
    for model, baseline, test in matrix.baseline_cells():
        override = _override(model, baseline.device, test, baseline.precision, file)
        if override != Override():
            yield str(baseline_cell(model, baseline, test)), override


def _override(
    model: Model, device: str, test: str, precision: str, file: TorchbenchFile
) -> Override:
    name = model.torchbench
    skip = file.skip_reason(name, device, test) or file.skip_verify_reason(name)
    tolerance = dict(file.tolerance(name, device, test, precision))
    # The lists raise PyTorch's default tolerance; the default of this project may be higher already.
    default = torch_same.TOLERANCES if test == "eval" else torch_same.TRAIN_TOLERANCES
    if tolerance.get("tol", 0.0) <= default[compute_dtype(model.dtype, precision)]:
        tolerance.pop("tol", None)
    return Override(skip, tolerance)
