"""From a checked configuration to the matrix; every file that it names is looked at first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.lib.config import checks, settings, suites
from scripts.lib.config.matrix import (
    Baseline,
    Frontend,
    Matrix,
    Model,
    Override,
    Target,
    baseline_cell,
)
from scripts.lib.config.precision import TESTS, compute_dtype
from scripts.lib.config.settings import ConfigError
from scripts.lib.config.torchbench import TorchbenchFile
from scripts.lib.iree import backends
from scripts.lib.modeling import source

PIPELINE_KEYS = ("file", "tolerance", "torchbench")
"""Keys of a model's entry that are not options of its functions."""
OWN_SUITES = ("vmfbench", "user")
"""Suites of the entries of models; the others are of suites."""
AXES = {"dtype": "", "batch_size": "b", "phase": ""}
"""Options of which an entry may list several, and what stands before a value in the name."""


def expand(config: Mapping[str, Any], selections: Mapping[str, str], root: Path) -> Matrix:
    """The matrix of a checked configuration.

    `root` is the folder of the Snakefile. Raises settings.ConfigError with every problem.
    """
    problems: list[str] = []
    torchbench = _read_torchbench(config.get("torchbench"), root, problems)
    known = {
        "models": _models(config["models"], root) | _suite_models(config, root, problems),
        "frontends": {k: Frontend(name=k, **_own(v)) for k, v in config["frontends"].items()},
        "targets": {k: _target(k, v) for k, v in config["targets"].items()},
        "baselines": {k: Baseline(name=k, **_own(v)) for k, v in config["baselines"].items()},
    }
    tests = _select("test", dict.fromkeys(TESTS), selections.get("tests"), problems)
    tests = tuple(tests) if "tests" in selections else tuple(config["tests"])
    selections = dict(selections)
    if "models" in selections:
        selections["models"] = _families(selections["models"], known["models"])
    chosen = {
        kind: _select(
            kind.removesuffix("s"),
            entries,
            selections.get(kind, None if kind == "models" else _by_default(config[kind])),
            problems,
        )
        for kind, entries in known.items()
    }
    chosen["models"] = _filtered(chosen["models"], config, problems)
    for name, model in chosen["models"].items():
        try:
            chosen["models"][name] = _sized(model, root, torchbench, tests)
        except (source.ModelFileError, ConfigError) as error:
            where = "models" if model.suite in OWN_SUITES else f"suites.{model.suite}"
            problems.append(f"{where}.{name}: {error}")
    programs = _programs(chosen["baselines"], known["frontends"])
    problems += checks.file_problems(chosen | {"frontends": chosen["frontends"] | programs}, root)
    for frontend in (chosen["frontends"] | programs).values():
        problems += checks.option_problems(frontend, root)
    for baseline in chosen["baselines"].values():
        problems += checks.baseline_problems(baseline, root, torchbench, list(known["frontends"]))
    problems += checks.expect_problems(config.get("expect", {}), known)
    problems += checks.glob_problems(known)
    problems += checks.node_problems(known, config.get("nodes", {}))
    reference_env = config["reference"]["env"]
    if not (root / "envs" / f"{reference_env}.yaml").is_file():
        there = [path.stem for path in (root / "envs").glob("*.yaml")]
        problems.append(f"reference.env: {settings.unknown('env', reference_env, there)}")
    if problems:
        raise ConfigError("\n".join(problems))
    matrix = Matrix(
        **chosen,
        programs=programs,
        measure=dict(config["measure"]),
        limits={stage: dict(limit) for stage, limit in config["limits"].items()},
        expect=dict(config.get("expect", {})),
        reference_env=reference_env,
        tests=tests,
        train=dict(config.get("train", {})),
        dumps=dict(config.get("dumps", {})),
        nodes={kind: dict(asked or {}) for kind, asked in config.get("nodes", {}).items()},
    )
    overrides = dict(_overrides(matrix, torchbench)) if torchbench else {}
    return dataclasses.replace(matrix, overrides=overrides)


def _programs(
    baselines: Mapping[str, Baseline], frontends: Mapping[str, Frontend]
) -> dict[str, Frontend]:
    """The frontends whose programs baselines run, selected for IREE or not."""
    named = dict.fromkeys(baseline.program for baseline in baselines.values())
    return {name: frontends[name] for name in named if name in frontends}


def _own(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what says when it is selected."""
    return {key: value for key, value in entry.items() if key != "default"}


def _by_default(entries: Mapping[str, Mapping]) -> str | None:
    """What is selected where nothing is: all but the entries with `default: false`."""
    left = [name for name, entry in entries.items() if entry.get("default", True)]
    return None if len(left) == len(entries) else ",".join(left)


def _select(kind: str, entries: Mapping, wanted: str | None, problems: list[str]) -> dict:
    try:
        return {name: entries[name] for name in settings.select(kind, list(entries), wanted)}
    except ConfigError as error:
        problems.append(str(error))
        return {}


def _filtered(
    models: dict[str, Model], config: Mapping[str, Any], problems: list[str]
) -> dict[str, Model]:
    try:
        names = settings.filter_names(list(models), config.get("filter"), config.get("exclude"))
    except ConfigError as error:
        problems.append(str(error))
        return models
    return {name: models[name] for name in names}


def _models(entries: Mapping[str, Mapping | None], root: Path) -> dict[str, Model]:
    """Every file of models/, then the entries that name a file of their own."""
    found = [path.stem for path in sorted((root / "models").glob("*.py")) if path.stem[0] != "_"]
    models: dict[str, Model] = {}
    variants = [
        variant
        for name in [*found, *(n for n in entries if n not in found)]
        for variant in _variants(name, dict(entries.get(name) or {}))
    ]
    for name, family, entry in variants:
        if name in models:
            raise ConfigError(f"models.{family}: its variant {name} is the name of another model")
        file = str(Path(entry.get("file", f"models/{family}.py")).expanduser())
        inside = _resolve(root, file).is_relative_to(root / "models")
        suite = "vmfbench" if inside else "user"
        models[name] = _model(name, family, entry, file=file, suite=suite, known_as=family)
    return models


def _suite_models(config: Mapping[str, Any], root: Path, problems: list[str]) -> dict[str, Model]:
    """What `suites:` names, a model of the suite's file each."""
    checkout = (config.get("torchbench") or {}).get("path")
    try:
        entries = suites.entries(config.get("suites") or [], root, checkout)
    except suites.SuiteError as error:
        problems.append(str(error))
        return {}
    models: dict[str, Model] = {}
    taken = set(_models(config["models"], root)) if entries else set()
    for suite_entry in entries:
        options = {"name": suite_entry.name} | suite_entry.options
        for name, family, entry in _variants(suite_entry.cell, options):
            if name in taken:
                problems.append(f"suites.{suite_entry.where}: {name} is the name of another model")
            taken.add(name)
            models[name] = _model(
                name,
                family,
                entry,
                file=suite_entry.file,
                suite=suite_entry.suite,
                known_as=suite_entry.name,
            )
    return models


def _model(
    name: str, family: str, entry: Mapping[str, Any], *, file: str, suite: str, known_as: str
) -> Model:
    """The model of an entry; `known_as` is its name in a TorchBench file where it gives none."""
    options = {k: v for k, v in entry.items() if k not in PIPELINE_KEYS}
    if "size" in options:
        options["size"] = str(options["size"])
    return Model(
        name=name,
        file=file,
        suite=suite,
        options=options,
        tolerance=dict(entry.get("tolerance", {})),
        torchbench=entry.get("torchbench", known_as),
        family=family,
    )


def _variants(name: str, entry: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """(name, family, entry) for each value of the axes that are lists: bert-bf16-b8."""
    axes = {axis: entry[axis] for axis in AXES if isinstance(entry.get(axis), list)}
    found = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        suffix = "".join(f"-{AXES[axis]}{value}" for axis, value in chosen.items())
        found.append((name + suffix, name, entry | chosen))
    return found


def _families(wanted: str | None, models: Mapping[str, Model]) -> str | None:
    """A selection of models, a family's name standing for all of its variants."""
    if wanted is None:
        return None
    parts = [part.strip() for part in wanted.split(",")]
    members = {part: [m.name for m in models.values() if m.family == part] for part in parts}
    return ",".join(",".join(members[p]) if p not in models and members[p] else p for p in parts)


def _sized(
    model: Model, root: Path, torchbench: TorchbenchFile | None, tests: tuple[str, ...]
) -> Model:
    """The model with its batch size (its entry's, TorchBench's, or its file's) and why it is to
    be skipped, if it is."""
    path = _resolve(root, model.file)
    source.check_options(path, model.options)
    default = source.default_batch_size(path)
    options = dict(model.options)
    if model.suite == "torchbench" and "batch_size" not in options:
        default = suites.batch_size(options, options["name"], root) or default
    if torchbench and "batch_size" not in options:
        own = torchbench.divided_batch_size(model.torchbench, default)
        sizes = {test: torchbench.batch_size(model.torchbench, test) or own for test in tests}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{test} {size}" for test, size in sizes.items())
            raise ConfigError(
                f"{torchbench.path} gives it batch sizes by test ({shown}), and its weights, "
                "inputs and rows have one: set batch_size, or run the tests one by one"
            )
        size = next(iter(sizes.values()), own)
        if size != default:
            options["batch_size"] = size
            source.check_options(path, options)
    if model.suite == "torchbench":
        # Its file has no default of its own: each model there has one.
        options.setdefault("batch_size", default)
    if torchbench:
        skip = torchbench.skip_model_reason(model.torchbench)
        skip_train = skip or torchbench.skip_test_reason(model.torchbench, "train")
        model = dataclasses.replace(model, skip=skip, skip_train=skip_train)
    return dataclasses.replace(model, options=options, default_batch_size=default)


def _target(name: str, entry: Mapping[str, Any]) -> Target:
    backend = entry["backend"]
    return Target(
        name=name,
        backend=backend,
        arch=entry.get("arch") or backends.BACKENDS[backend][2],
        opt_level=entry.get("opt_level", "O2"),
        flags=tuple(entry.get("flags", ())),
        frontends=tuple(entry.get("frontends", ("*",))),
        models=tuple(entry.get("models", ("*",))),
        node=entry.get("node", "cpu"),
        device=entry.get("device") or backends.default_device(backend),
    )


def _read_torchbench(
    entry: Mapping[str, str] | None, root: Path, problems: list[str]
) -> TorchbenchFile | None:
    if not entry or "file" not in entry:
        return None
    try:
        file = TorchbenchFile.read(_resolve(root, str(Path(entry["file"]).expanduser())))
        # Rows quote it: as it was given, so that they are the same in another checkout.
        return dataclasses.replace(file, path=entry["file"])
    except ConfigError as error:
        problems.append(f"torchbench.file: {error}")
        return None


def _overrides(matrix: Matrix, torchbench: TorchbenchFile) -> Iterator[tuple[str, Override]]:
    """What the file says of every cell that it says something of."""
    for model, frontend, target in matrix.cells():
        cell = f"{model.name}/{frontend.name}/{target.name}"
        # PyTorch calls ROCm's devices cuda.
        device = {"rocm": "cuda"}.get(target.device_kind, target.device_kind)
        yield from _override(cell, model, device, "eval", None, "none", torchbench)
    for model, baseline, test in matrix.baseline_cells():
        cell = baseline_cell(model.name, baseline.name, test)
        policy = None
        if baseline.precision == checks.POLICY:
            policy = torchbench.precision(model.torchbench, baseline.device, test)
        precision = policy or baseline.precision
        yield from _override(cell, model, baseline.device, test, policy, precision, torchbench)


def _override(
    cell: str,
    model: Model,
    device: str,
    test: str,
    policy: str | None,
    precision: str,
    torchbench: TorchbenchFile,
) -> Iterator[tuple[str, Override]]:
    name = model.torchbench
    skip = torchbench.skip_reason(name, device, test) or torchbench.skip_verify_reason(name)
    tolerance = dict(torchbench.tolerance(name, device, test, precision or "none"))
    # The lists ask for more room than PyTorch gives; we may give more than that already.
    if tolerance.get("tol", 0.0) <= _default_tol(model, test, precision):
        tolerance.pop("tol", None)
    override = Override(skip, policy, tolerance)
    if override != Override():
        yield cell, override


def _default_tol(model: Model, test: str, precision: str | None) -> float:
    from scripts.lib.verification import tolerances

    default = tolerances.TOLERANCES if test == "eval" else tolerances.TRAIN_TOLERANCES
    return default[compute_dtype(model.dtype, precision or "none")]


def _resolve(root: Path, file: str) -> Path:
    return (root / file).resolve()
