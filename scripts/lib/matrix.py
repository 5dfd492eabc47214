"""The matrix: models × frontends × targets, and models × baselines, as the config declares.

A model is a file; a frontend, target or baseline is a config entry. Nothing else is edited
to add one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.lib import iree_flags, modelfile, settings

PIPELINE_KEYS = ("file", "tolerance")
"""Keys of a model's entry that are not options of its functions."""


@dataclass(frozen=True)
class Model:
    """A model file under options; `suite` groups models from one source."""

    name: str
    file: str
    suite: str = "vmfbench"
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, float] = field(default_factory=dict)
    default_batch_size: int = 1

    @property
    def dtype(self) -> str:
        return self.options.get("dtype", "f32")

    @property
    def batch_size(self) -> int:
        return int(self.options.get("batch_size", self.default_batch_size))


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
    """What a program is compiled for, and the device URI that it runs on."""

    name: str
    backend: str
    arch: str
    opt_level: str
    flags: tuple[str, ...]
    device: str
    frontends: tuple[str, ...] = ("*",)

    @property
    def device_kind(self) -> str:
        """cpu, vulkan, cuda or rocm: what a latency may be compared within."""
        return "cpu" if self.backend == "llvm-cpu" else self.backend


@dataclass(frozen=True)
class Baseline:
    """A runtime of PyTorch's own on a device."""

    name: str
    runtime: str
    device: str
    env: str


@dataclass(frozen=True)
class Matrix:
    """Everything that a run is to cover, in the order declared."""

    models: dict[str, Model]
    frontends: dict[str, Frontend]
    targets: dict[str, Target]
    baselines: dict[str, Baseline]
    measure: dict[str, Any]
    limits: dict[str, dict[str, float]]
    expect: dict[str, Any]
    reference_env: str = "torch-mlir"

    def cells(self) -> Iterator[tuple[Model, Frontend, Target]]:
        for model in self.models.values():
            for frontend in self.frontends.values():
                for target in self.targets.values():
                    if any(fnmatchcase(frontend.name, glob) for glob in target.frontends):
                        yield model, frontend, target

    def baseline_cells(self) -> Iterator[tuple[Model, Baseline]]:
        for model in self.models.values():
            for baseline in self.baselines.values():
                yield model, baseline

    def to_json(self) -> dict:
        """Plain values, for a process that has no Snakemake; back with `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Matrix:
        kinds = {"models": Model, "frontends": Frontend, "targets": Target, "baselines": Baseline}
        entries = {
            key: {name: kind(**_tuples(entry)) for name, entry in values[key].items()}
            for key, kind in kinds.items()
        }
        rest = {key: values[key] for key in ("measure", "limits", "expect", "reference_env")}
        return cls(**entries, **rest)


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists only; the entries' sequences are tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


def expand(config: Mapping[str, Any], selections: Mapping[str, str], root: Path) -> Matrix:
    """The matrix of a checked configuration; every file that it names is looked at.

    `root` is the folder of the Snakefile. Raises settings.ConfigError with every problem.
    """
    problems: list[str] = []
    known = {
        "models": _models(config["models"], root),
        "frontends": {k: Frontend(name=k, **v) for k, v in config["frontends"].items()},
        "targets": {k: _target(k, v) for k, v in config["targets"].items()},
        "baselines": {k: Baseline(name=k, **v) for k, v in config["baselines"].items()},
    }
    chosen: dict[str, dict] = {}
    for kind, entries in known.items():
        try:
            names = settings.select(kind.removesuffix("s"), list(entries), selections.get(kind))
        except settings.ConfigError as error:
            problems.append(str(error))
            continue
        chosen[kind] = {name: entries[name] for name in names}
    for name, model in chosen.get("models", {}).items():
        try:
            path = _resolve(root, model.file)
            modelfile.check_options(path, model.options)
            size = modelfile.default_batch_size(path)
            chosen["models"][name] = dataclasses.replace(model, default_batch_size=size)
        except modelfile.ModelFileError as error:
            problems.append(f"models.{model.name}: {error}")
    folders = {"env": ("envs", ".yaml"), "exporter": ("scripts/exporters", ".py"), "runtime": ("scripts/baselines", ".py")}  # fmt: skip
    for kind in ("frontends", "baselines"):
        for entry in chosen.get(kind, {}).values():
            for key, (folder, suffix) in folders.items():
                name = getattr(entry, key, None)
                if name is not None and not (root / folder / f"{name}{suffix}").is_file():
                    there = [p.stem for p in (root / folder).glob(f"*{suffix}") if p.stem != "__init__"]  # fmt: skip
                    problems.append(f"{kind}.{entry.name}.{key}: {settings.unknown(key, name, there)}")  # fmt: skip
    for entry in chosen.get("frontends", {}).values():
        problems += _option_problems(entry, root / "scripts/exporters" / f"{entry.exporter}.py")
    problems += _expect_problems(config.get("expect", {}), known)
    for target in known["targets"].values():
        problems += [
            f"targets.{target.name}.frontends: {settings.unknown('frontend', glob, known['frontends'])}"
            for glob in target.frontends
            if not any(fnmatchcase(name, glob) for name in known["frontends"])
        ]
    reference_env = config["reference"]["env"]
    if not (root / "envs" / f"{reference_env}.yaml").is_file():
        there = [path.stem for path in (root / "envs").glob("*.yaml")]
        problems.append(f"reference.env: {settings.unknown('env', reference_env, there)}")
    if problems:
        raise settings.ConfigError("\n".join(problems))
    return Matrix(
        **chosen,
        measure=dict(config["measure"]),
        limits={stage: dict(limit) for stage, limit in config["limits"].items()},
        expect=dict(config.get("expect", {})),
        reference_env=reference_env,
    )


def _option_problems(frontend: Frontend, exporter: Path) -> list[str]:
    """What is wrong with a frontend's options, by its exporter's OPTIONS (name: choices)."""
    if not exporter.is_file():
        return []
    known = modelfile.literal(exporter, "OPTIONS", {})
    where = f"frontends.{frontend.name}.options"
    problems = [
        f"{where}.{name}: missing, allowed is one of {', '.join(choices)}"
        for name, choices in known.items()
        if name not in frontend.options
    ]
    for name, value in frontend.options.items():
        if name not in known:
            problems.append(f"{where}.{name}: {settings.unknown('option', name, known)}")
        elif value not in known[name]:
            problems.append(
                f"{where}.{name}: found {value!r}, allowed is one of {', '.join(known[name])}"
            )
    return problems


def _expect_problems(expect: Mapping[str, Any], known: Mapping[str, dict]) -> list[str]:
    """Patterns that no declared cell meets: they would make `snakemake check` pass for nothing."""
    everything = Matrix(**known, measure={}, limits={}, expect={})
    cells = ["/".join(entry.name for entry in cell) for cell in everything.cells()]
    cells += ["/".join(entry.name for entry in cell) for cell in everything.baseline_cells()]
    return [
        f"expect.{pattern}: matches no cell of the matrix"
        for pattern in expect
        if not any(fnmatchcase(cell, pattern) for cell in cells)
    ]


def _models(entries: Mapping[str, Mapping | None], root: Path) -> dict[str, Model]:
    """Every file of models/, then the entries that name a file of their own."""
    found = [path.stem for path in sorted((root / "models").glob("*.py")) if path.stem[0] != "_"]
    models: dict[str, Model] = {}
    for name in [*found, *(n for n in entries if n not in found)]:
        entry = dict(entries.get(name) or {})
        file = str(Path(entry.get("file", f"models/{name}.py")).expanduser())
        options = {k: v for k, v in entry.items() if k not in PIPELINE_KEYS}
        if "size" in options:
            options["size"] = str(options["size"])
        inside = _resolve(root, file).is_relative_to(root / "models")
        models[name] = Model(
            name=name,
            file=file,
            suite="vmfbench" if inside else "user",
            options=options,
            tolerance=dict(entry.get("tolerance", {})),
        )
    return models


def _target(name: str, entry: Mapping[str, Any]) -> Target:
    backend = entry["backend"]
    return Target(
        name=name,
        backend=backend,
        arch=entry.get("arch") or iree_flags.BACKENDS[backend][2],
        opt_level=entry.get("opt_level", "O2"),
        flags=tuple(entry.get("flags", ())),
        frontends=tuple(entry.get("frontends", ("*",))),
        device=entry.get("device") or iree_flags.default_device(backend),
    )


def _resolve(root: Path, file: str) -> Path:
    return (root / file).resolve()


def compact(value: Any) -> str:
    """One-line JSON for a command line, keys in order: equal values give equal commands."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
