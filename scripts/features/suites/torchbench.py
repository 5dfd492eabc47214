"""A TorchBench configuration file: which models are skipped, and how each of the others is run.

The format is that of torchbench.yaml, huggingface.yaml and timm_models.yaml in benchmarks/dynamo of
PyTorch. The scripts in that folder read them ("PyTorch" below), and benchmarks/torchbench_model.py of
PyTorch/XLA reads the first one. A model is looked up by its exact name. Keys that are not read here
may have any value, and a missing list names no model.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.matrix import reading
from scripts.matrix.precision import PRECISIONS, check, torchbench_policy

LISTS = (
    "skip.all",
    "skip.multiprocess",
    "only_training",
    "only_fp32",
    "dont_change_batch_size",
    "non_deterministic",
    "accuracy.skip.large_models",
    "accuracy.skip.eager_not_deterministic",
    "tolerance.higher",
    "tolerance.even_higher",
    "tolerance.higher_fp16",
    "tolerance.higher_bf16",
    "tolerance.cosine",
    "require_larger_multiplier_for_smaller_tensor",
    "dtype.force_amp_for_fp16_bf16_models",
    "dtype.force_fp16_for_bf16_models",
    "dtype.amp_dtype_bfloat16",
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

    `test` is `eval` or `train`, `precision` one of precision.PRECISIONS; methods raise ValueError for others.
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
        in_groups = [f"{group}.{name}" for group in GROUPS for name in reader.mapping(group)]
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
        keys = ["skip.all", f"skip.device.{device}", f"skip.test.{_test_name(test)}"]
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
        own = max(default // self.sizes["batch_size.divisors"].get(model, 1), 1)
        return self.sizes[f"batch_size.{_test_name(test)}"].get(model, own)

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

    def precision(self, model: str, device: str, test: str) -> str:
        """The precision of a model, by precision.torchbench_policy.

        A model of only_fp32 (huggingface.yaml) keeps its own dtype; PyTorch neither casts nor
        autocasts it.
        """
        policy = torchbench_policy(
            device,
            test,
            force_amp=self._names("dtype.force_amp_for_fp16_bf16_models", model),
            force_fp16=self._names("dtype.force_fp16_for_bf16_models", model),
            amp_bf16=self._names("dtype.amp_dtype_bfloat16", model),
        )
        return "none" if self._names("only_fp32", model) else policy

    def _tol(self, model: str, device: str, test: str, run_in: str) -> float | None:
        """The tolerance by the rules of `get_tolerance_and_cosine_flag` in benchmarks/dynamo/torchbench.py
        of PyTorch.

        There a GPU is `cuda` or `xpu`; here it is any device other than the CPU. Autocast of any type
        counts as float16 there, and ends the search.
        """
        gpu_training = _test_name(test) == "training" and device != "cpu"
        check("precision", run_in, PRECISIONS)
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


class _Reader:
    """The values of a file by dotted key. Errors are collected in `problems`, each once: `skip: 3` is met for each
    key below it."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.problems: dict[str, None] = {}
        try:
            self.document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: no UTF-8, no such date
            said = " ".join(str(error).split())
            raise reading.ConfigError(f"{path}: cannot be read as YAML: {said}") from error
        if not isinstance(self.document, dict):
            short = _short(self.document)
            raise reading.ConfigError(f"{path}: found {short}, expected a mapping")

    def at(self, key: str) -> Any:
        """The value of a dotted key; None if the file does not have it."""
        above, _, last = key.rpartition(".")
        return (self.mapping(above) if above else self.document).get(last)

    def mapping(self, key: str) -> Mapping[Any, Any]:
        """A mapping; {} for a missing key."""
        value = self.at(key)
        return (
            (value or {})
            if self._is(value is None or isinstance(value, dict), key, value, "a mapping")
            else {}
        )

    def names(self, key: str) -> frozenset[str]:
        """The models of a list and of the lists in it."""
        value = self.at(key)
        if value is None or not self._is(isinstance(value, list), key, value, "a list of models"):
            return frozenset()
        # timm_models.yaml has lists of nothing but `~`.
        items = [item for item in _flat(value) if item is not None]
        return frozenset(item for item in items if self._is_name(key, item))

    def sizes(self, key: str) -> dict[str, int]:
        """A mapping from models to positive whole numbers."""
        sizes = dict(self.mapping(key))
        for model, size in sizes.items():
            self._is_name(key, model)
            # True is an int to Python; YAML reads `yes` as True.
            is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
            self._is(is_size, f"{key}.{model}", size, "a positive whole number")
        return sizes

    def _is_name(self, key: str, item: Any) -> bool:
        return self._is(isinstance(item, str), key, item, "the name of a model")

    def _is(self, holds: bool, key: str, value: Any, expected: str) -> bool:
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


def _test_name(test: str) -> str:
    """The files' name for `eval` or `train`."""
    check("test", test, _TEST_NAMES)
    return _TEST_NAMES[test]
