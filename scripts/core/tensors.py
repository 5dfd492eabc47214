"""Tensors on disk between stages: `.npz` files, the signature that types them, and parameter archives (`.irpa`).

numpy has no bfloat16, so a bfloat16 tensor is stored as float32, which is exact; the signature has its
original type. The reference stage writes the archive of a model's weights once, and every runtime reads it.
Every stage reads tensors with this module. Supervisors know its types, and start in half the time without numpy, which is imported
where it is used.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.core import atomic

if TYPE_CHECKING:
    import numpy as np

# torch's name: (MLIR's name, numpy's name on disk)
DTYPES = {
    "float64": ("f64", "float64"),
    "float32": ("f32", "float32"),
    "float16": ("f16", "float16"),
    "bfloat16": ("bf16", "float32"),
    "int64": ("i64", "int64"),
    "int32": ("i32", "int32"),
    "int16": ("i16", "int16"),
    "int8": ("i8", "int8"),
    "uint64": ("i64", "uint64"),
    "uint32": ("i32", "uint32"),
    "uint16": ("i16", "uint16"),
    "uint8": ("i8", "uint8"),
    "bool": ("i1", "bool"),
}

LOSS = "loss"
GRADIENT = "gradient of "
CHANGE = "change of "
"""Names of the results of a training step: the loss, and the prefixes of each parameter's gradient and of the
change of each parameter, buffer and tensor of the optimizer's state. A program returns the new value."""

COTANGENT = "cotangent."
"""The prefix of the names of cotangents: inputs of a training step's program, and arrays in golden.npz."""

OPEN = -1
"""The size of a dimension of a program's input that is known when it is called."""

OPTIMIZER = "optimizer."
"""The prefix of the keys of an optimizer's state in an archive: `optimizer.exp_avg.conv.weight`."""


@dataclass(frozen=True)
class TensorType:
    """A tensor's name (its path in the arguments or outputs), shape and torch dtype name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def mlir(self) -> str:
        """Builtin MLIR type, for example `tensor<1x3x64x64xf32>`."""
        sizes = ("?x" if size == OPEN else f"{size}x" for size in self.shape)
        return f"tensor<{''.join(sizes)}{DTYPES[self.dtype][0]}>"

    @property
    def iree(self) -> str:
        """Type in the grammar of IREE's `--input=`, for example `1x3x64x64xf32`.

        IREE's host ABI passes i1 as a byte (`i8` here).
        """
        element = {"i1": "i8"}.get(DTYPES[self.dtype][0], DTYPES[self.dtype][0])
        return "x".join([*map(str, self.shape), element])


@dataclass(frozen=True)
class Signature:
    """What the reference stage fixed for a model: every later stage goes by it.

    `parameters`: names are archive keys. `aliases` maps further state_dict names (tied weights) to the key of their
    data. `weights_bytes` is the size of the archive. `inputs_from` says what the inputs were made of, `golden_from` what has made the golden results. `generation` has
    a language model's greedy tokens (greedy_tokens.Generation). `quantization` has the error of a quantised model
    (golden.py). `resolved` has the arguments that the functions of the model file were called with, by name.
    `layers` and `vocab_size` come from the model's configuration. `work` has the FLOPs and bytes of a call
    (`step.count_work`); None if they were not counted. `left_out` says why (core/extra.py).
    """

    model: str
    dtype: str
    batch_size: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    parameters: tuple[TensorType, ...]
    aliases: dict[str, str]
    options: dict[str, Any]
    torch_version: str
    has_fp64: bool
    rmse_vs_fp64: float | None
    deterministic: bool
    weights_bytes: int = 0
    inputs_from: str = ""
    golden_from: str = ""
    generation: dict[str, Any] | None = None
    quantization: dict[str, Any] | None = None
    resolved: dict[str, Any] = field(default_factory=dict)
    layers: int | None = None
    vocab_size: int | None = None
    work: dict[str, Any] | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    def write(self, path: str | Path) -> None:
        atomic.write_json(path, asdict(self))

    @classmethod
    def read(cls, path: str | Path) -> Signature:
        values = atomic.read_json(path)
        for key in ("inputs", "outputs", "parameters"):
            values[key] = tuple(
                TensorType(v["name"], tuple(v["shape"]), v["dtype"]) for v in values[key]
            )
        return cls(**values)


def save_npz(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays under their keys; never pickled objects."""
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"{path}: {key} holds Python objects")
    import numpy as np

    # A file object, because numpy would append .npz to a name.
    with Path(path).open("wb") as out:
        np.savez(out, allow_pickle=False, **arrays)


def load_npz(path: str | Path, prefix: str = "") -> dict[str, np.ndarray]:
    """Read the arrays whose keys begin with `prefix`; refuses pickles."""
    import numpy as np

    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files if key.startswith(prefix)}


def save_results(path: str | Path, results: Iterable[np.ndarray]) -> None:
    """Write results of a program, in their order, of any type of DTYPES."""
    save_npz(path, {str(place): array for place, array in enumerate(results)})


def load_results(path: str | Path) -> list[np.ndarray]:
    """Read what `save_results` has written. numpy does not have bfloat16, and stores two bytes without a type."""
    results = load_npz(path).values()
    return [a.view(native("bfloat16")) if a.dtype.kind == "V" else a for a in results]


def as_native(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array converted to a torch dtype."""
    import numpy as np

    return np.asarray(array.astype(native(dtype), copy=False), order="C")


def native(dtype: str) -> np.dtype:
    """numpy's type of a torch dtype, bfloat16 through ml_dtypes (which IREE brings)."""
    import numpy as np

    if dtype != "bfloat16":
        return np.dtype(DTYPES[dtype][1])
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


PARAMETER_SCOPE = "model"
"""The scope of every parameter: programs refer to `#flow.parameter.named<"model"::"<key>">`."""

_UNPRINTED = re.compile(r'["\\%\x00-\x1f\x7f]')


def archive_key(name: str) -> str:
    """The key of a weight in archives and programs: its name, in which characters that IREE does not
    escape in a program's text (IREE 3.13) are percent-encoded."""
    return _UNPRINTED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def weight_name(key: str) -> str:
    """The name of the weight with this key."""
    return urllib.parse.unquote(key)


def write_archive(path: str | Path, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write (name, uint8 bytes) pairs as an IREE parameter archive.

    The bytes are referenced, not copied, until the file is written.
    """
    import iree.runtime as rt

    index = rt.ParameterIndex()
    for weight, data in weights:
        index.add_buffer(archive_key(weight), data)
    index.create_archive_file(str(path))


def read_archive(path: str | Path) -> dict[str, np.ndarray]:
    """Map an archive: a weight's name to its bytes (uint8, read-only, backed by the file)."""
    import iree.runtime as rt
    import numpy as np

    index = rt.ParameterIndex()
    index.load(str(path))
    return {
        weight_name(k): np.frombuffer(entry.file_view, dtype=np.uint8) for k, entry in index.items()
    }
