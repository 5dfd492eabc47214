"""Expands a checked configuration into the matrix. Every file that it names is checked first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.lib.config import (
    cell,
    checks,
    flag_sets,
    kernel_matrix,
    operators,
    remedies,
    settings,
    stages,
    suites,
    threads,
    toolchains,
    torchbench_pass,
    tuning,
)
from scripts.lib.config.entries import (
    Baseline,
    Frontend,
    Model,
    Target,
    TargetOverride,
    Tuning,
    by_threads,
    of_tests,
    varied,
)
from scripts.lib.config.matrix import Matrix
from scripts.lib.config.precision import TESTS
from scripts.lib.config.settings import ConfigError
from scripts.lib.config.training import EVAL
from scripts.lib.iree.backends import BACKENDS
from scripts.lib.modeling import source

PIPELINE_KEYS = ("file", "tolerance", "torchbench", "default")
"""Keys of a model's entry that are not options of its functions."""
AXES = {"dtype": "", "batch_size": "b", "phase": ""}
"""Options that may be lists, and the prefix of their values in the names of variants."""


def expand(config: Mapping[str, Any], selections: Mapping[str, str], root: Path) -> Matrix:
    """The matrix of a checked configuration.

    `root` is the folder of the Snakefile. Raises settings.ConfigError with every problem.
    """
    problems: list[str] = []
    lists = torchbench_pass.read(config.get("torchbench"), root, problems)
    known = _known(config, root, problems)
    selected = _select("test", dict.fromkeys(TESTS), selections.get("tests"), problems)
    tests = tuple(selected if "tests" in selections else config["tests"])
    chosen = _chosen(known, config, selections, problems)
    for name, model in chosen["models"].items():
        try:
            chosen["models"][name] = _with_default_size(model, root)
        except source.BrokenModelFile as error:  # a row of its own, once its reference has failed
            chosen["models"][name] = dataclasses.replace(model, broken=str(error))
        except source.ModelFileError as error:
            problems.append(f"{model.where}: {error}")
    named_by_remedies = _remedied_by(config, chosen["targets"])
    programs = _programs(chosen["baselines"], named_by_remedies, known["frontends"])
    of_kernels = kernel_matrix.models(config, root, problems)
    problems += checks.problems(config, known, chosen, programs, root, lists, of_kernels)
    of_operators = operators.of(config, known, chosen, selections, problems)
    taken = toolchains.selected(
        config, selections.get("toolchains"), _environments(known["frontends"]), root, problems
    )
    if len(taken) > 1:
        # Only the pinned toolchain would use what tuning has found for it.
        problems += [
            f"targets.{name}.tuned: auto is for runs with one toolchain, found {', '.join(taken)}"
            for name, target in chosen["targets"].items()
            if target.tuned
        ]
    numbers = threads.numbers(config["measure"])
    if numbers:
        # A result of tuning is for one number of threads.
        problems += [
            f"targets.{name}.tuned: auto needs a single number in measure.threads, found the list {[*numbers]}; write for example threads: {numbers[-1]}"
            for name, target in chosen["targets"].items()
            if target.tuned
        ]
    if problems:
        raise ConfigError("\n".join(problems))
    for_remedies = {name: programs[name] for name in named_by_remedies}
    by_remedy = for_remedies | varied(of_tests(for_remedies, {EVAL, *tests}, root), taken)
    matrix = Matrix(
        models=chosen["models"],
        frontends=varied(of_tests(chosen["frontends"], tests, root), taken),
        targets=varied(by_threads(chosen["targets"], numbers), taken),
        baselines=by_threads(chosen["baselines"], numbers),
        programs=programs | by_remedy,
        remedied_by=tuple(by_remedy),
        measure=dict(config["measure"]),
        limits={
            key: dict(limit) for key, limit in (stages.OPTIONAL_LIMITS | config["limits"]).items()
        },
        expect=dict(config.get("expect", {})),
        reference_env=config["reference"]["env"],
        tests=tests,
        train=dict(config.get("train", {})),
        dumps=dict(config.get("dumps", {})),
        nodes={kind: dict(asked or {}) for kind, asked in config.get("nodes", {}).items()},
        operators=of_operators,
        toolchains=taken,
    )
    if lists:
        matrix = torchbench_pass.apply(matrix, lists, root)
    sized = {name: _with_suite_size(model) for name, model in matrix.models.items()}
    matrix = dataclasses.replace(matrix, models=sized)
    kernels = kernel_matrix.expand(matrix, config, selections, known, of_kernels, root)
    return dataclasses.replace(
        matrix, kernels=kernels, tuning=_tuning(config, known, chosen, selections)
    )


def with_absolute_paths(matrix: Matrix, root: Path) -> Matrix:
    """Return the matrix for a run in another folder than `root`, the folder of the Snakefile."""
    models = {}
    for name, model in matrix.models.items():
        options = dict(model.options)
        if _of_torchbench(model):
            options["path"] = str(root / Path(options["path"]).expanduser())
        models[name] = dataclasses.replace(model, file=str(root / model.file), options=options)
    return dataclasses.replace(
        matrix,
        models=models,
        operators=operators.with_absolute_paths(matrix.operators, root),
        kernels=matrix.kernels and with_absolute_paths(matrix.kernels, root),
    )


def _known(config: Mapping[str, Any], root: Path, problems: list[str]) -> dict[str, dict]:
    """Everything that the configuration declares, selected or not."""
    return {
        "models": _models(config["models"], root) | _suite_models(config, root, problems),
        "frontends": {k: _frontend(k, v, config) for k, v in config["frontends"].items()},
        "targets": {k: _target(k, v, config, problems) for k, v in config["targets"].items()},
        "baselines": {k: Baseline(name=k, **_own(v)) for k, v in config["baselines"].items()},
    }


def _chosen(
    known: Mapping[str, dict],
    config: Mapping[str, Any],
    selections: Mapping[str, str],
    problems: list[str],
) -> dict[str, dict]:
    """The selected part of `known`, by the command line or by default."""
    wanted = dict(selections)
    if "models" in wanted:
        wanted["models"] = _families(wanted["models"], known["models"])
    chosen = {
        kind: _select(kind.removesuffix("s"), entries, wanted[kind], problems)
        if kind in wanted
        else _by_default(kind, entries, config[kind], problems)
        for kind, entries in known.items()
    }
    return chosen | {"models": _filtered(chosen["models"], config, problems)}


def _tuning(
    config: Mapping[str, Any],
    known: Mapping[str, dict],
    chosen: Mapping[str, dict],
    selections: Mapping[str, str],
) -> Tuning:
    """Return what is tuned: for the targets that the command line selects, or those of `tune.targets`."""
    section = dict(config.get("tune") or {})
    globs = section.pop("targets", ["*"])
    targets = (
        chosen["targets"]
        if "targets" in selections
        else {name: one for name, one in known["targets"].items() if cell.selects(globs, name)}
    )
    return Tuning(targets=targets, **section)


def _programs(
    baselines: Mapping[str, Baseline],
    by_remedy: Sequence[str],
    frontends: Mapping[str, Frontend],
) -> dict[str, Frontend]:
    """The frontends whose programs baselines run or remedies take, selected for IREE or not."""
    named = dict.fromkeys([baseline.program for baseline in baselines.values()] + [*by_remedy])
    return {name: frontends[name] for name in named if name in frontends}


def _remedied_by(config: Mapping[str, Any], targets: Mapping[str, Target]) -> tuple[str, ...]:
    """The frontends that remedies of these targets may take, without those with `default: false`.

    It does not matter which frontends are selected, because the inputs of a cell must be the same if
    only a part of the matrix is run.
    """
    named = dict.fromkeys(
        remedy.frontend
        for target in targets.values()
        for remedy in target.remedies
        if remedy.frontend
    )
    there = config["frontends"]
    return tuple(
        name for name in named if name in there and (there[name] or {}).get("default", True)
    )


def _environments(frontends: Mapping[str, Frontend]) -> list[str]:
    """Return the environments that a toolchain may change: those of IREE and of the frontends."""
    return list(dict.fromkeys([stages.IREE_ENV, *(one.env for one in frontends.values())]))


def _own(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what says when it is selected."""
    return {key: value for key, value in entry.items() if key != "default"}


def _by_default(
    kind: str, known: Mapping[str, Any], config: Mapping[str, Mapping | None], problems: list[str]
) -> dict:
    """What is selected where nothing is: all but the entries with `default: false`."""
    entry_of = {name: config.get(getattr(one, "family", "") or name) for name, one in known.items()}
    left = {
        name: known[name] for name, entry in entry_of.items() if (entry or {}).get("default", True)
    }
    if known and not left and kind != "baselines":
        problems.append(
            f"{kind}: every one is left out (default: false, or null); leave one in, or name some: "
            f"--config {kind}=…"
        )
    return left


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
    found = source.shipped(root)
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
    """The models that `suites:` names."""
    checkout = (config.get("torchbench") or {}).get("path")
    try:
        _, named = kernel_matrix.of_suites(config.get("suites") or [])
        entries = suites.entries(named, root, checkout)
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
    """The model of an entry. `known_as` is its name in a TorchBench file, unless the entry gives one."""
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


def _families(wanted: str, models: Mapping[str, Model]) -> str:
    """A selection of models in which the name of a family is replaced by its variants."""
    parts = [part.strip() for part in wanted.split(",")]
    members = {part: [m.name for m in models.values() if m.family == part] for part in parts}
    return ",".join(",".join(members[p]) if p not in models and members[p] else p for p in parts)


def _with_default_size(model: Model, root: Path) -> Model:
    """The model with its batch size where its entry sets none: its file's, or its suite's.

    Raises ModelFileError for options that its file does not take, BrokenModelFile where there is
    something wrong with the file.
    """
    path = _resolve(root, model.file)
    source.check_options(path, model.options)
    if "batch_size" in model.options:
        return model
    default = source.default_batch_size(path)
    if _of_torchbench(model):
        default = suites.batch_size(model.options, model.options["name"], root) or default
    return dataclasses.replace(model, default_batch_size=default)


def _with_suite_size(model: Model) -> Model:
    """The model with its batch size as an option, for the suite torchbench, whose models have different
    defaults."""
    if not _of_torchbench(model) or "batch_size" in model.options:
        return model
    options = model.options | {"batch_size": model.default_batch_size}
    return dataclasses.replace(model, options=options)


def _of_torchbench(model: Model) -> bool:
    return model.suite == "torchbench"


def _frontend(name: str, entry: Mapping[str, Any], config: Mapping[str, Any]) -> Frontend:
    """The frontend of an entry; with `speed_rewrites: false`, without the rewrites for speed."""
    found = Frontend(name=name, **_own(entry))
    if config.get("speed_rewrites", True) or found.options.get("rewrites") != "all":
        return found
    return dataclasses.replace(found, options=found.options | {"rewrites": "needed"})


def _target(
    name: str, entry: Mapping[str, Any], config: Mapping[str, Any], problems: list[str]
) -> Target:
    backend = BACKENDS[entry["backend"]]
    wanted = entry.get("remedies")
    remedied = config.get("remedies", True) and wanted is not False
    table = remedies.table()
    if unknown := [one for one in wanted or () if one not in table.remedies]:
        problems += [
            f"targets.{name}.remedies: {settings.unknown('remedy', one, table.remedies)}"
            for one in unknown
        ]
        remedied = False
    return Target(
        name=name,
        backend=backend.name,
        arch=entry.get("arch") or backend.arch,
        opt_level=entry.get("opt_level") or backend.opt_level,
        flags=_flags(entry.get("flags", ()), f"targets.{name}", backend.name, problems),
        frontends=tuple(entry.get("frontends", ("*",))),
        models=tuple(entry.get("models", ("*",))),
        overrides=_overrides(name, entry.get("overrides") or {}, backend.name, problems),
        node=entry.get("node", "cpu"),
        device=entry.get("device") or backend.device,
        remedies=table.of(backend.name, wanted or None) if remedied else (),
        hangs=table.hangs if remedied else (),
        tuned=entry.get("tuned") == tuning.AUTO,
    )


def _overrides(
    target: str,
    entries: Mapping[str, Mapping[str, Any] | None],
    backend: str,
    problems: list[str],
) -> tuple[TargetOverride, ...]:
    """Return the overrides of a target's entry, without those that a later file has set to null."""
    return tuple(
        TargetOverride(
            models=glob,
            frontends=_tuple(entry.get("frontends")),
            opt_level=entry.get("opt_level"),
            flags=_flags(entry["flags"], f"targets.{target}.overrides.{glob}", backend, problems)
            if "flags" in entry
            else None,
        )
        for glob, entry in entries.items()
        if entry is not None
    )


def _flags(
    entries: Sequence[str], where: str, backend: str, problems: list[str]
) -> tuple[str, ...]:
    """Return flags with those of the sets that are named among them."""
    try:
        return flag_sets.table().expanded(entries, backend)
    except ConfigError as error:
        problems.append(f"{where}.flags: {error}")
        return ()


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _resolve(root: Path, file: str) -> Path:
    return (root / file).resolve()
