"""Expands a checked configuration into the matrix. Every file that it names is checked first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.iree.backends import BACKENDS
from scripts.matrix import checks, feature, models, settings, stages, threads, toolchains
from scripts.matrix.entries import (
    Baseline,
    Frontend,
    Model,
    StepOverride,
    Target,
    TargetOverride,
    by_threads,
    of_tests,
    varied,
)
from scripts.matrix.feature import Draft
from scripts.matrix.matrix import Matrix
from scripts.matrix.precision import TESTS
from scripts.matrix.settings import ConfigError
from scripts.matrix.stage import IREE_ENV
from scripts.matrix.training import EVAL
from scripts.torch_model import source


def expand(config: Mapping[str, Any], selections: Mapping[str, str], root: Path) -> Matrix:
    """The matrix of a checked configuration.

    `root` is the folder of the Snakefile. Raises settings.ConfigError with every problem.
    """
    problems: list[str] = []
    known = _known(config, root, problems)
    selected = _select("test", dict.fromkeys(TESTS), selections.get("tests"), problems)
    tests = tuple(selected if "tests" in selections else config["tests"])
    chosen = _chosen(known, config, selections, problems)
    chosen["models"] = _with_sizes(chosen["models"], root, problems)
    named_by_remedies = _remedied_by(config, chosen["targets"])
    programs = _programs(chosen["baselines"], named_by_remedies, known["frontends"])
    named = {
        name: model
        for declared in feature.LOADED.values()
        if declared.named
        for name, model in declared.named(config, root, problems).items()
    }
    problems += checks.problems(config, known, chosen, programs, root, named)
    draft = Draft(config, selections, root, problems, known, chosen)
    taken = toolchains.pinned()
    for declared in feature.LOADED.values():
        if declared.toolchains:
            envs = _environments(known["frontends"])
            taken = declared.toolchains(config, selections.get("toolchains"), envs, root, problems)
    numbers = threads.numbers(config["measure"])
    problems += _tuned_for_one(chosen["targets"], taken, numbers)
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
        toolchains=taken,
    )
    for declared in feature.LOADED.values():
        if declared.extend:
            matrix = declared.extend(draft, matrix)
    return dataclasses.replace(matrix, parts=_parts(draft, matrix))


def _parts(draft: Draft, matrix: Matrix) -> dict[str, Any]:
    """The parts of the features, by their names. Raises ConfigError with every problem."""
    parts = {
        name: declared.read(draft, matrix)
        for name, declared in feature.LOADED.items()
        if declared.read
    }
    if draft.problems:
        raise ConfigError("\n".join(draft.problems))
    return {name: part for name, part in parts.items() if part is not None}


def with_absolute_paths(matrix: Matrix, root: Path) -> Matrix:
    """Return the matrix for a run in another folder than `root`, the folder of the Snakefile."""
    return dataclasses.replace(
        matrix,
        models={name: models.with_absolute_paths(one, root) for name, one in matrix.models.items()},
        parts={
            name: absolute(part, root) if (absolute := feature.LOADED[name].absolute) else part
            for name, part in matrix.parts.items()
        },
    )


def _of_features(config: Mapping[str, Any], root: Path, problems: list[str]) -> dict[str, Model]:
    """The models that features add."""
    return {
        name: model
        for declared in feature.LOADED.values()
        if declared.models
        for name, model in declared.models(config, root, problems).items()
    }


def _known(config: Mapping[str, Any], root: Path, problems: list[str]) -> dict[str, dict]:
    """Everything that the configuration declares, selected or not."""
    return {
        "models": models.listed(config["models"], root) | _of_features(config, root, problems),
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
        wanted["models"] = models.with_variants(wanted["models"], known["models"])
    chosen = {
        kind: _select(kind.removesuffix("s"), entries, wanted[kind], problems)
        if kind in wanted
        else _by_default(kind, entries, config[kind], problems)
        for kind, entries in known.items()
    }
    return chosen | {"models": _filtered(chosen["models"], config, problems)}


def _with_sizes(found: Mapping[str, Model], root: Path, problems: list[str]) -> dict[str, Model]:
    """Models with their default batch sizes, and with what is wrong with their files."""
    sized = dict(found)
    for name, model in found.items():
        try:
            sized[name] = models.with_default_size(model, root)
        except source.BrokenModelFile as error:  # a row of its own, once its reference has failed
            sized[name] = dataclasses.replace(model, broken=str(error))
        except source.ModelFileError as error:
            problems.append(f"{model.where}: {error}")
    return sized


def _tuned_for_one(
    targets: Mapping[str, Target], taken: Iterable[str], numbers: Sequence[int]
) -> list[str]:
    """What is wrong with targets that use what tuning has found: that is for one toolchain and one number of threads."""
    wrong = []
    if len(names := [*taken]) > 1:
        # Only the pinned toolchain would use it.
        wrong.append(f"auto is for runs with one toolchain, found {', '.join(names)}")
    if numbers:
        wrong.append(
            f"auto needs a single number in measure.threads, found the list {[*numbers]}; write for example "
            f"threads: {numbers[-1]}"
        )
    tuned = [name for name, target in targets.items() if target.tuned]
    return [f"targets.{name}.tuned: {what}" for what in wrong for name in tuned]


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
    return list(dict.fromkeys([IREE_ENV, *(one.env for one in frontends.values())]))


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
    found: dict[str, Model], config: Mapping[str, Any], problems: list[str]
) -> dict[str, Model]:
    try:
        names = settings.filter_names(list(found), config.get("filter"), config.get("exclude"))
    except ConfigError as error:
        problems.append(str(error))
        return found
    return {name: found[name] for name in names}


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
    own: dict[str, Any] = {}
    for declared in feature.LOADED.values():
        if declared.target:
            own |= declared.target(name, entry, config, problems)
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
        **own,
    )


def _overrides(
    target: str,
    entries: Mapping[str, Mapping[str, Any] | None],
    backend: str,
    problems: list[str],
) -> tuple[TargetOverride, ...]:
    """Return the overrides of a target's entry, without those that a later file has set to null."""

    def flags(entry: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
        if "flags" not in entry:
            return None
        return _flags(entry["flags"], f"targets.{target}.overrides.{where}", backend, problems)

    def of_training(entry: Mapping[str, Any], glob: str) -> StepOverride | None:
        if "train" not in entry:
            return None
        step = entry["train"]
        return StepOverride(step.get("opt_level"), flags(step, f"{glob}.train"))

    return tuple(
        TargetOverride(
            models=glob,
            frontends=_tuple(entry.get("frontends")),
            opt_level=entry.get("opt_level"),
            flags=flags(entry, glob),
            train=of_training(entry, glob),
        )
        for glob, entry in entries.items()
        if entry is not None
    )


def _flags(
    entries: Sequence[str], where: str, backend: str, problems: list[str]
) -> tuple[str, ...]:
    """Return flags with those of the sets that are named among them."""
    try:
        for declared in feature.LOADED.values():
            if declared.flags:
                return declared.flags(entries, backend)
    except ConfigError as error:
        problems.append(f"{where}.flags: {error}")
    return tuple(entries)


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
