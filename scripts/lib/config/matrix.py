"""The matrix: models × frontends × targets, and models × baselines × tests.

A model is a file; a frontend, target or baseline is a config entry. Nothing else is edited
to add one. scripts/lib/config/expansion.py makes a matrix of a configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True)
class Model:
    """A model file under options; `suite` groups models from one source, `family` the variants
    of one entry (its dtypes and batch sizes).

    `torchbench` is its name in a TorchBench file; `skip` says why that file has none of it run,
    `skip_train` why it has it not trained.
    """

    name: str
    file: str
    suite: str = "vmfbench"
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, Any] = field(default_factory=dict)
    default_batch_size: int = 1
    torchbench: str = ""
    skip: str = ""
    skip_train: str = ""
    family: str = ""

    @property
    def dtype(self) -> str:
        return self.options.get("dtype", "f32")

    @property
    def batch_size(self) -> int:
        return int(self.options.get("batch_size", self.default_batch_size))

    @property
    def phase(self) -> str | None:
        """Of a language model: forward, prefill or decode."""
        return self.options.get("phase")


@dataclass(frozen=True)
class Frontend:
    """A road from PyTorch to a program."""

    name: str
    exporter: str
    env: str
    options: dict[str, Any] = field(default_factory=dict)
    ir_format: str = "text"


@dataclass(frozen=True)
class Target:
    """What a program is compiled for, the device URI that it runs on, and the kind of a cluster's
    nodes (Matrix.nodes) that has such a device."""

    name: str
    backend: str
    arch: str
    opt_level: str
    flags: tuple[str, ...]
    device: str
    frontends: tuple[str, ...] = ("*",)
    models: tuple[str, ...] = ("*",)
    node: str = "cpu"

    def takes(self, model: Model, frontend: Frontend) -> bool:
        """Whether a program is compiled for it, by the globs of its entry; a model's family
        stands for all of its variants."""
        return _selects(self.frontends, frontend.name) and _selects(
            self.models, model.name, model.family
        )

    @property
    def device_kind(self) -> str:
        """cpu, vulkan, cuda or rocm: what a latency may be compared within."""
        return "cpu" if self.backend == "llvm-cpu" else self.backend


@dataclass(frozen=True)
class Baseline:
    """A runtime on a device, in a precision (precision.PRECISIONS, or the policy `torchbench`), under
    XLA flags. It runs the PyTorch model, or the program that the frontend `program` exports."""

    name: str
    runtime: str
    device: str
    env: str
    precision: str = "none"
    xla_flags: str = ""
    program: str = ""
    node: str = "cpu"


@dataclass(frozen=True)
class Override:
    """What a TorchBench file says of one cell.

    `skip`: why it is not to be run; `precision`, `tolerance`: instead of the entries' own.
    """

    skip: str = ""
    precision: str | None = None
    tolerance: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    """Everything that a run is to cover, in the order declared.

    `programs`: the frontends whose programs baselines run, whether IREE's cells are of them or not.
    """

    models: dict[str, Model]
    frontends: dict[str, Frontend]
    targets: dict[str, Target]
    baselines: dict[str, Baseline]
    measure: dict[str, Any]
    limits: dict[str, dict[str, float]]
    expect: dict[str, Any]
    reference_env: str = "torch-mlir"
    tests: tuple[str, ...] = ("eval",)
    train: dict[str, Any] = field(default_factory=dict)
    dumps: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Override] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    programs: dict[str, Frontend] = field(default_factory=dict)

    def cells(self) -> Iterator[tuple[Model, Frontend, Target]]:
        for model in self.models.values():
            for frontend in self.frontends.values():
                for target in self.targets.values():
                    if target.takes(model, frontend):
                        yield model, frontend, target

    def baseline_cells(self) -> Iterator[tuple[Model, Baseline, str]]:
        """(model, baseline, test); IREE's cells are eval alone."""
        for model in self.models.values():
            for baseline in self.baselines.values():
                for test in self.tests:
                    yield model, baseline, test

    def override(self, cell: str) -> Override:
        """What a TorchBench file says of a cell, by its name; nothing where there is no file."""
        return self.overrides.get(cell, Override())

    def precision(self, model: Model, baseline: Baseline, test: str) -> str:
        """What a baseline's cell computes in, one of precision.PRECISIONS."""
        given = self.override(baseline_cell(model.name, baseline.name, test)).precision
        return given or baseline.precision

    def tolerance(self, model: Model, cell: str) -> dict[str, Any]:
        """What differs from the default tolerance for a cell; the model's own entry wins."""
        return {**self.override(cell).tolerance, **model.tolerance}

    def to_json(self) -> dict:
        """Plain values, for a process that has no Snakemake; back with `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Matrix:
        kinds = {
            "models": Model,
            "frontends": Frontend,
            "programs": Frontend,
            "targets": Target,
            "baselines": Baseline,
        }
        entries = {
            key: {name: kind(**_tuples(entry)) for name, entry in values.get(key, {}).items()}
            for key, kind in kinds.items()
        }
        overrides = {k: Override(**v) for k, v in values.get("overrides", {}).items()}
        rest = {k: v for k, v in values.items() if k not in (*kinds, "overrides", "tests")}
        return cls(
            **entries, **rest, tests=tuple(values.get("tests", ("eval",))), overrides=overrides
        )


def _selects(globs: tuple[str, ...], *names: str) -> bool:
    """Whether globs match one of the names; `!glob` leaves out what it matches, and globs that
    only leave out take the rest."""

    def matched(found: list[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in found for name in names)

    without = [glob[1:] for glob in globs if glob.startswith("!")]
    within = [glob for glob in globs if not glob.startswith("!")] or ["*"]
    return matched(within) and not matched(without)


def baseline_cell(model: str, baseline: str, test: str) -> str:
    """The name of a baseline's cell."""
    return f"{model}/{baseline}/{test}"


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists only; the entries' sequences are tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


def compact(value: Any) -> str:
    """One-line JSON for a command line, keys in order: equal values give equal commands."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
