"""Expands a checked configuration into the matrix. Every file that it names is checked first."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scripts.iree.backends import BACKENDS
from scripts.matrix import (
    cell,
    checks,
    compile_tables,
    entries,
    feature,
    models,
    plugins,
    reading,
    stages,
    suites,
    torchbench,
)
from scripts.matrix.cell import EVAL
from scripts.matrix.choices import TESTS
from scripts.matrix.entries import (
    Baseline,
    Frontend,
    Model,
    Target,
    by_threads,
    of_tests,
    varied,
    with_dynamic_baselines,
    with_dynamic_frontends,
)
from scripts.matrix.feature import Draft
from scripts.matrix.matrix import Matrix
from scripts.matrix.plugins import Plugin
from scripts.matrix.reading import ConfigError
from scripts.matrix.suites import TORCHBENCH
from scripts.sources.source import MODEL_KINDS
from scripts.torch_model.errors import BrokenModelFile, ModelFileError


def expand(config: Mapping[str, Any], selections: Mapping[str, str], root: Path) -> Matrix:
    """The matrix of a checked configuration.

    `root` is the folder of the Snakefile. Raises ConfigError with every problem.
    """
    draft = Draft(config, selections, root)
    problems = draft.problems
    _declare(draft)
    known = draft.known
    selected = _select("test", dict.fromkeys(TESTS), selections.get("tests"), problems)
    tests = tuple(selected if "tests" in selections else config["tests"])
    chosen = draft.chosen = _chosen(draft)
    for named in feature.hooks("named"):
        draft.named |= named(draft)
    named_by_remedies = _remedied_by(draft)
    there = known["frontends"]
    programs = entries.programs(chosen["baselines"].values(), chosen["models"].values(), there)
    programs |= {name: there[name] for name in named_by_remedies if name in there}
    problems += [*checks.problems(draft, programs)]
    toolchains = cell.pinned_toolchain()
    for read in feature.hooks("toolchains"):
        toolchains = read(draft)
    numbers = cell.thread_numbers(config["measure"])
    problems += _tuned_for_one(chosen["targets"], [*toolchains], numbers)
    if problems:
        raise ConfigError("\n".join(problems))
    for_remedies = {name: programs[name] for name in named_by_remedies}
    sized = chosen["models"].values()

    def of_paths(frontends: Mapping[str, Frontend], tests: Collection[str]) -> dict[str, Frontend]:
        """The frontends of each test and toolchain, and those for all sizes."""
        return varied(
            with_dynamic_frontends(of_tests(frontends, tests, root), sized, root), toolchains
        )

    by_remedy = for_remedies | of_paths(for_remedies, {EVAL, *tests})
    matrix = Matrix(
        models=chosen["models"],
        frontends=of_paths(chosen["frontends"], tests),
        targets=varied(by_threads(chosen["targets"], numbers), toolchains),
        baselines=by_threads(with_dynamic_baselines(chosen["baselines"], sized, root), numbers),
        exported=_exported(draft),
        programs=programs | by_remedy,
        remedied_by=tuple(by_remedy),
        measure=dict(config["measure"]),
        limits=stages.OPTIONAL_LIMITS | config["limits"],
        expect=dict(config.get("expect", {})),
        reference_env=config["reference"]["env"],
        tests=tests,
        train=dict(config.get("train", {})),
        dumps=dict(config.get("dumps", {})),
        nodes={kind: asked or {} for kind, asked in config.get("nodes", {}).items()},
        toolchains=toolchains,
        with_limits=not config.get("quick"),
    )
    matrix = torchbench.extend(draft, matrix)
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
        models={
            name: models.with_absolute_paths(model, root) for name, model in matrix.models.items()
        },
        parts={
            name: absolute(part, root) if (absolute := feature.LOADED[name].absolute) else part
            for name, part in matrix.parts.items()
        },
    )


def _declare(draft: Draft) -> None:
    """Add everything that the configuration declares to the known entries, selected or not."""
    config, problems = draft.config, draft.problems
    frontends = {k: _frontend(k, v, draft) for k, v in config["frontends"].items()}
    draft.known = {
        "models": models.listed(config["models"], draft.root),
        "frontends": frontends,
        "targets": {k: _target(k, v, config, problems) for k, v in config["targets"].items()},
        "baselines": {k: _baseline(k, v, draft, frontends) for k, v in config["baselines"].items()},
    }
    draft.known["models"] |= _of_suites(draft)


def _of_suites(draft: Draft) -> dict[str, Model]:
    """The models that `suites:` names, without those of kernels, which results/kernels.csv has. Errors, also those in a
    TorchBench file, are added to those of the draft."""
    torchbench.read_torchbench(draft.config.get(TORCHBENCH), draft.root, draft.problems)
    checkout = (draft.config.get(TORCHBENCH) or {}).get("path")
    try:
        if checkout:  # whether or not a suite needs it
            suites.names(TORCHBENCH, draft.root, checkout)
        named = [entry for entry in draft.config.get("suites") or [] if not suites.is_kernel(entry)]
        listed = suites.entries(named, draft.root, checkout)
    except suites.SuiteError as error:
        draft.problems.append(str(error))
        return {}
    kept: dict[str, Model] = {}
    for entry in listed:
        options = {"name": entry.name} | entry.options
        for name, family, variant in models.variants(entry.cell, options):
            if name in draft.known["models"] or name in kept:
                draft.problems.append(f"suites.{entry.where}: {name} is the name of another model")
            kept[name] = models.model_of(
                name, family, variant, file=entry.file, suite=entry.suite, known_as=entry.name
            )
    return models.with_sizes(kept)


def _chosen(draft: Draft) -> dict[str, dict]:
    """The selected entries, by the command line or by default; models with their default batch sizes."""
    known, config, problems = draft.known, draft.config, draft.problems
    wanted = dict(draft.selections)
    if "models" in wanted:
        wanted["models"] = models.with_variants(wanted["models"], known["models"])
    chosen = {
        kind: _select(kind.removesuffix("s"), entries, wanted[kind], problems)
        if kind in wanted
        else _by_default(kind, entries, config[kind], problems)
        for kind, entries in known.items()
    }
    try:
        names = filter_names([*chosen["models"]], config.get("filter"), config.get("exclude"))
        names = batch_of(names, config["batch"]) if config.get("batch") else names
    except ConfigError as error:
        problems.append(str(error))
        names = [*chosen["models"]]
    sized = {name: _with_size(chosen["models"][name], draft.root, problems) for name in names}
    kinds = {model.source for model in sized.values()}
    for kind in ("frontends", "baselines"):
        taking = {name: entry for name, entry in chosen[kind].items() if kinds & {*entry.sources}}
        if kind in wanted and sized and chosen[kind] and not taking:
            problems.append(
                f"{kind}={wanted[kind]}: takes none of the models {', '.join(sized)}; for models of {', '.join(sorted(kinds))} there are: "
                f"{', '.join(n for n, entry in known[kind].items() if kinds & {*entry.sources}) or 'none'}"
            )
        chosen[kind] = taking
    return chosen | {"models": sized}


def filter_names(known: Sequence[str], wanted: str | None, unwanted: str | None) -> list[str]:
    """The names that the regular expression `wanted` finds (all, if None) and `unwanted` does not.

    The expressions are searched for anywhere in the name, without regard to case, like `--filter`
    and `--exclude` of PyTorch's benchmark runners. Raises ConfigError for an invalid expression,
    and if no name is left.
    """
    keep, drop = _regex(wanted or ""), _regex(unwanted) if unwanted else None
    names = [name for name in known if keep.search(name) and not (drop and drop.search(name))]
    if known and not names:
        raise ConfigError(
            f"filter={wanted!r} exclude={unwanted!r} leave no model of {', '.join(known)}"
        )
    return names


def batch_of(names: list[str], batch: str) -> list[str]:
    """One of several parts of `names` that differ in size by one at most: the third of ten for "3/10". Raises ConfigError for
    another text, and if there are fewer names than parts."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", batch)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise ConfigError(
            f"batch: found {batch!r}, expected the number of a batch and of all batches, such as 3/10"
        )
    if count > len(names):
        raise ConfigError(
            f"batch: found {batch!r}, but there are {len(names)} models; ask for fewer"
        )
    first, end = (len(names) * at // count for at in (number - 1, number))
    return names[first:end]


def _regex(pattern: str) -> re.Pattern:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"filter/exclude: {pattern!r} is no regular expression: {error}"
        ) from error


def _exported(draft: Draft) -> dict[str, Model]:
    """The models whose programs are those of selected sizes, and that are not selected themselves."""
    there = draft.chosen["models"]
    named = dict.fromkeys(str(model.axes.without("sizes")) for model in there.values())
    return {
        name: _with_size(draft.known["models"][name], draft.root, [])
        for name in named
        if name not in there
    }


def _with_size(model: Model, root: Path, problems: list[str]) -> Model:
    """A model with its default batch size, or with what is wrong with its file."""
    try:
        return models.checked(model, root)
    except BrokenModelFile as error:  # a separate row, once its reference has failed
        return dataclasses.replace(model, broken=str(error))
    except ModelFileError as error:
        said = f"{model.where}: {error}"
        problems += [said] if said not in problems else []  # which its sizes have too
        return model


def _by_default(
    kind: str, known: Mapping[str, Any], config: Mapping[str, Mapping | None], problems: list[str]
) -> dict:
    """What is selected where nothing is: all but the entries with `default: false`."""
    entry_of = {
        name: config.get(getattr(declared, "family", "") or name)
        for name, declared in known.items()
    }
    default = {name: (entry or {}).get("default", True) for name, entry in entry_of.items()}
    left = {name: known[name] for name, is_in in default.items() if is_in}
    for name, kinds in default.items():
        if isinstance(kinds, list):  # for these kinds of models alone
            sources = tuple(kind for kind in known[name].sources if kind in kinds)
            left[name] = dataclasses.replace(known[name], sources=sources)
    if known and not left and kind != "baselines":
        problems.append(
            f"{kind}: every one is left out (default: false, or null); leave one in, or name some: "
            f"--config {kind}=…"
        )
    return left


def _select(kind: str, entries: Mapping, wanted: str | None, problems: list[str]) -> dict:
    try:
        return {name: entries[name] for name in reading.select(kind, list(entries), wanted)}
    except ConfigError as error:
        problems.append(str(error))
        return {}


def _tuned_for_one(
    targets: Mapping[str, Target], toolchains: Sequence[str], numbers: Sequence[int]
) -> list[str]:
    """What is wrong with targets that use what tuning has found: that is for one toolchain and one number of threads."""
    wrong = []
    if len(toolchains) > 1:
        # Only the pinned toolchain would use it.
        wrong.append(f"auto is for runs with one toolchain, found {', '.join(toolchains)}")
    if numbers:
        wrong.append(
            f"auto needs a single number in measure.threads, found the list {[*numbers]}; write for example "
            f"threads: {numbers[-1]}"
        )
    tuned = [name for name, target in targets.items() if target.tuned]
    return [f"targets.{name}.tuned: {what}" for what in wrong for name in tuned]


def _remedied_by(draft: Draft) -> tuple[str, ...]:
    """The frontends that remedies of the selected targets may take, without those with `default: false`.

    It does not matter which frontends are selected, because the inputs of a cell must be the same if
    only a part of the matrix is run.
    """
    targets: Iterable[Target] = draft.chosen["targets"].values()
    remedies = (remedy for target in targets for remedy in target.remedies)
    named = dict.fromkeys(remedy.frontend for remedy in remedies if remedy.frontend)
    there = draft.config["frontends"]
    return tuple(
        name for name in named if name in there and (there[name] or {}).get("default", True)
    )


def _baseline(
    name: str, entry: Mapping[str, Any], draft: Draft, frontends: Mapping[str, Frontend]
) -> Baseline:
    """The baseline of an entry. One that runs programs takes the models that their frontends take."""
    given = entry.get("program", ())
    program = (given,) if isinstance(given, str) else tuple(given)
    runtime = _declaration(lambda: plugins.runtime(entry["runtime"], draft.root))
    sources = runtime.sources if runtime else ("module",)
    of_frontends = {
        kind for path in program if path in frontends for kind in frontends[path].sources
    }
    if of_frontends and runtime and "program" in runtime.takes:
        sources = tuple(kind for kind in MODEL_KINDS if kind in of_frontends)
    return Baseline(name=name, sources=sources, **_own(entry) | {"program": program})


def _declaration(read: Callable[[], Plugin]) -> Plugin | None:
    """What an exporter or runtime declares; None if there is something wrong with its file, which the checks of entries say."""
    try:
        return read()
    except (OSError, plugins.DeclarationError):
        return None


def _own(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what says when it is selected."""
    return {key: value for key, value in entry.items() if key != "default"}


def _frontend(name: str, entry: Mapping[str, Any], draft: Draft) -> Frontend:
    """The frontend of an entry; with `speed_rewrites: false`, without the rewrites for speed."""
    exporter = _declaration(lambda: plugins.exporter(entry["exporter"], draft.root))
    sources = exporter.sources if exporter else ("module",)
    frontend = Frontend(name=name, sources=sources, **_own(entry))
    if draft.config.get("speed_rewrites", True) or frontend.options.get("rewrites") != "all":
        return frontend
    return dataclasses.replace(frontend, options=frontend.options | {"rewrites": "needed"})


def _target(
    name: str, entry: Mapping[str, Any], config: Mapping[str, Any], problems: list[str]
) -> Target:
    """The target of an entry, with the defaults of its backend and without overrides that a later file has set to null."""
    backend = BACKENDS[entry["backend"]]

    def expanded(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        """An entry or override with the flags of the sets that are named among its flags."""
        values = dict(entry)
        if "train" in entry:
            values["train"] = expanded(entry["train"], f"{where}.train")
        if "flags" in entry:
            try:
                flag_sets = compile_tables.flag_sets()
                values["flags"] = flag_sets.expanded(entry["flags"], backend.name)
            except ConfigError as error:
                problems.append(f"{where}.flags: {error}")
        return values

    overrides = (entry.get("overrides") or {}).items()
    values = {
        "name": name,
        "arch": backend.arch,
        "opt_level": backend.opt_level,
        "flags": (),
        "device": backend.device,
        **expanded(entry, f"targets.{name}"),
        "overrides": [
            {"models": glob, **expanded(override, f"targets.{name}.overrides.{glob}")}
            for glob, override in overrides
            if override is not None
        ],
        "remedies": (),
        "tuned": entry.get("tuned") == "auto",
    }
    wanted, table = entry.get("remedies"), compile_tables.remedies()
    unknown = [named for named in wanted or () if named not in table.remedies]
    problems += [
        f"targets.{name}.remedies: {reading.unknown('remedy', named, table.remedies)}"
        for named in unknown
    ]
    if config.get("remedies", True) and wanted is not False and not unknown:
        values |= {"remedies": table.for_target(backend.name, wanted or None), "hangs": table.hangs}
    return msgspec.convert(values, Target)
