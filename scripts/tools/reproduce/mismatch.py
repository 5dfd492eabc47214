"""Whether a program computes other values when it is compiled with other flags.

Both modules get the same random inputs. iree-run-module runs them, so that a crash ends only the tool.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.core import process
from scripts.iree.session import runtime_flags
from scripts.iree.tools import Compiler, tool

MODULE, NOT_COMPARED = "module.vmfb", "not compared"
"""The module in the folder of a compiler, and the status of what has no outputs to compare it with."""
RELATIVE = 0.01
"""Values differ if they are further apart than this share of the largest value of the output."""
XLA, O0, SAME, COMPARED = "xla", "O0", "same", "compared.json"
"""The keys of what scripts.tools.reproduce.compare_executors writes, and its file: `code` ("" if it has no results) and `detail` of each
executor, and the code of the comparison of both."""
_TENSOR = re.compile(r"(?:!torch\.vtensor<\[([\d,]*)\],|tensor<((?:\d+x)*))([a-z]+\d+)>")
_KINDS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "i1": np.int8,
}


def save(folder: Path, **arrays: Iterable[np.ndarray]) -> None:
    """Write lists of arrays by name: input=[…] as input_0.npy and so on."""
    for name, several in arrays.items():
        for number, array in enumerate(several):
            np.save(folder / f"{name}_{number}.npy", array)


def saved(folder: Path, name: str) -> list[np.ndarray]:
    """The arrays that `save` has written by a name."""
    return [
        np.load(folder / f"{name}_{n}.npy") for n in range(len([*folder.glob(f"{name}_*.npy")]))
    ]


def calling(
    module: str, device: str, inputs: int, outputs: int, largest: float | None = None
) -> list[str]:
    """The command that calls a module with saved inputs, and compares its results with the saved outputs. `largest`: the largest value
    of the right outputs, for the tolerance of this module; None for that of the tool."""
    tolerance = (
        []
        if largest is None
        else [
            f"--expected_{kind}_threshold={RELATIVE * largest:g}" for kind in ("f16", "f32", "f64")
        ]
    )
    return [
        *("iree-run-module", f"--module={module}", "--function=main", f"--device={device}"),
        *(f"--input=@input_{number}.npy" for number in range(inputs)),
        *(f"--expected_output=@expected_{number}.npy" for number in range(outputs)),
        *tolerance,
    ]


@dataclass(frozen=True)
class Compared:
    """The right outputs of a program and the `computed` ones, for the same inputs. Without `computed`, one of the two modules was not compiled
    or did not run, or an input has a type that is not supported."""

    inputs: list[np.ndarray]
    right: list[np.ndarray]
    computed: list[np.ndarray]

    @property
    def output(self) -> int | None:
        """The number of the first output that differs."""
        pairs = enumerate(zip(self.right, self.computed, strict=False))
        return next((number for number, pair in pairs if differs(*pair)), None)

    @property
    def ending(self) -> str:
        if not self.computed:
            return "does not compile or run"
        return "right" if self.output is None else "wrong"


@dataclass(frozen=True)
class Comparison:
    """Compiles with two sets of flags, of which one is taken to be right, and runs both on a CPU device."""

    wrong: Compiler
    right: Compiler
    device: str
    threads: int

    def compared(self, text: str, limit_s: float) -> Compared:
        """What both compute of a program (its text)."""
        try:
            given, count = interface(text)
            right, computed = (
                outputs(compiler, text, given, count, self.device, self.threads, limit_s)
                for compiler in (self.right, self.wrong)
            )
        except NoOutputs:
            return Compared([], [], [])
        return Compared(given, right, computed)


class NoOutputs(Exception):
    """A program has no outputs to compare. `status`: what it does not do."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def interface(text: str) -> tuple[list[np.ndarray], int]:
    """Random inputs of `main` of a program, and the number of its results. Raises NoOutputs if an input has a type that is not
    supported."""
    main = next(line for line in text.splitlines() if "func.func @main(" in line)
    arguments, _, results = main.partition(" -> ")
    given = _inputs(arguments)
    if given is None or len(given) != arguments.count("%"):
        raise NoOutputs(NOT_COMPARED, f"no inputs of these types are made: {arguments.strip()}")
    return given, len(_types(results))


def outputs(
    compiler: Compiler,
    text: str,
    given: Sequence[np.ndarray],
    count: int,
    device: str,
    threads: int,
    limit_s: float,
) -> list[np.ndarray]:
    """The results of a program for these inputs. Raises NoOutputs."""
    folder = compiler.folder
    module = folder / MODULE
    compiled = compiler.run(text, limit_s, module)
    if compiled.returncode != 0:
        raise NoOutputs("does not compile", compiled.log)
    for old in folder.glob("*.npy"):
        old.unlink()
    save(folder, input=given)
    command = [
        *(tool("iree-run-module"), f"--module={module}", "--function=main"),
        *(f"--device={device}", *runtime_flags(device, threads)),
        *(f"--input=@{folder}/input_{number}.npy" for number in range(len(given))),
        *(f"--output=@{folder}/output_{number}.npy" for number in range(count)),
    ]
    try:
        run = process.captured(command, timeout_s=limit_s)
    except subprocess.TimeoutExpired as error:
        raise NoOutputs("does not run", f"it takes more than {limit_s:.0f} s") from error
    if run.returncode != 0:
        raise NoOutputs("does not run", run.stderr or f"it ended with {run.returncode}")
    return [np.load(folder / f"output_{number}.npy") for number in range(count)]


def differs(expected: np.ndarray, computed: np.ndarray) -> bool:
    """Whether values are further apart than rounding explains, or have another shape. Expected values that are not all
    finite cannot be compared."""
    if expected.shape != computed.shape:
        return True
    if not np.isfinite(expected.astype(np.float64)).all():
        return False
    largest, scale = distance(expected, computed)
    return largest > RELATIVE * scale


def distance(expected: np.ndarray, computed: np.ndarray) -> tuple[float, float]:
    """The largest difference, and the largest value that is expected."""
    right, wrong = (array.astype(np.float64) for array in (expected, computed))
    scale = float(np.abs(right).max(initial=0.0))
    return float(np.nan_to_num(np.abs(wrong - right), nan=np.inf).max(initial=0.0)), scale


def _inputs(arguments: str) -> list[np.ndarray] | None:
    """Random values for the arguments of a function, as written; None if one has a type that is not supported.

    Numbers are normal, scaled by the number of values per row as weights usually are, so that the results of many
    layers stay finite. Vectors and scalars are between 0.5 and 1.5, because they may be variances. Integers are 0 or 1.
    """
    random = np.random.default_rng(0)
    arrays = []
    for shape, kind in _types(arguments):
        if (dtype := _KINDS.get(kind.removeprefix("s"))) is None:
            return None
        values: np.ndarray
        if not kind.startswith("f"):
            values = random.integers(0, 2, shape)
        elif len(shape) < 2:
            values = random.uniform(0.5, 1.5, shape)
        else:
            values = random.standard_normal(shape) / math.sqrt(max(1, math.prod(shape[1:])))
        arrays.append(np.asarray(values, dtype))
    return arrays


def _types(text: str) -> list[tuple[tuple[int, ...], str]]:
    """(shape, element type) of each tensor type in a text."""
    return [
        (tuple(int(n) for n in re.findall(r"\d+", torch or builtin)), kind)
        for torch, builtin, kind in _TENSOR.findall(text)
    ]
