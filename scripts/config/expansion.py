"""Expands a checked configuration into the matrix. Files that entries name are checked first, and whether entries fit together."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import (
    cell,
    compile_tables,
    entries,
    feature,
    models,
    plugins,
    reading,
    stages,
    torchbench,
)
from scripts.config.cell import EVAL, EntryName, Kind
from scripts.config.choices import TESTS
from scripts.config.entries import (
    DYNAMIC,
    TUNED_FRONTENDS,
    Baseline,
    Frontend,
    Model,
    Target,
    by_threads,
    by_toolchain,
    size_problems,
    variants_of_frontends,
    with_dynamic_baselines,
)
from scripts.config.feature import Draft
from scripts.config.models import TORCHBENCH
from scripts.config.reading import ConfigError
from scripts.config.rows import Matrix
from scripts.frontends.sources.source import MODEL_KINDS
from scripts.frontends.torch_model.arguments import Optimizer
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError
from scripts.iree.backends import BACKENDS, driver_of, flag_problem


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
    sized = chosen["models"].values()
    for_remedies = _for_remedies(draft)
    programs = (
        entries.programs(chosen["baselines"].values(), sized, known["frontends"]) | for_remedies
    )
    problems += [*_problems(draft, programs)]
    toolchains = cell.pinned_toolchain()
    for read in feature.hooks("toolchains"):
        toolchains = read(draft)
    numbers = cell.thread_numbers(config["measure"])
    problems += _tuned_for_one(chosen["targets"], [*toolchains], numbers)
    if problems:
        raise ConfigError("\n".join(problems))

    def of_paths(frontends: Mapping[str, Frontend], tests: Collection[str]) -> dict[str, Frontend]:
        """The frontends of each test and toolchain, and those for all sizes."""
        return by_toolchain(variants_of_frontends(frontends, tests, sized, root), toolchains)

    by_remedy = for_remedies | of_paths(for_remedies, {EVAL, *tests})
    matrix = Matrix(
        models=chosen["models"],
        frontends=of_paths(chosen["frontends"], tests),
        targets=by_toolchain(by_threads(chosen["targets"], numbers), toolchains),
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
            models.suite_names(TORCHBENCH, draft.root, checkout)
        named = [entry for entry in draft.config.get("suites") or [] if not models.is_kernel(entry)]
        listed = models.suite_entries(named, draft.root, checkout)
    except models.SuiteError as error:
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
    selected = draft.chosen["models"]
    named = dict.fromkeys(str(model.axes.without("sizes")) for model in selected.values())
    return {
        name: _with_size(draft.known["models"][name], draft.root, [])
        for name in named
        if name not in selected
    }


def _with_size(model: Model, root: Path, problems: list[str]) -> Model:
    """A model with its default batch size, or with what is wrong with its file."""
    try:
        return models.checked(model, root)
    except BrokenModelFile as error:  # a separate row, once its reference has failed
        return dataclasses.replace(model, broken=str(error))
    except ModelFileError as error:
        problem = f"{model.where}: {error}"
        problems += [problem] if problem not in problems else []  # which its sizes have too
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


def _for_remedies(draft: Draft) -> dict[str, Frontend]:
    """The frontends that remedies of the selected targets may take, without those with `default: false`.

    It does not matter which frontends are selected, because the inputs of a cell must be the same if
    only a part of the matrix is run.
    """
    config, declared = draft.config["frontends"], draft.known["frontends"]
    remedies = (remedy for target in draft.chosen["targets"].values() for remedy in target.remedies)
    named = dict.fromkeys(remedy.frontend for remedy in remedies if remedy.frontend)
    return {
        name: declared[name]
        for name in named
        if name in declared and config[name].get("default", True)
    }


def _baseline(
    name: str, entry: Mapping[str, Any], draft: Draft, frontends: Mapping[str, Frontend]
) -> Baseline:
    """The baseline of an entry. One that runs programs takes the models that their frontends take."""
    program = entry.get("program", ())
    frontends_run = (program,) if isinstance(program, str) else tuple(program)
    runtime = plugins.readable(plugins.runtime, entry["runtime"], draft.root)
    sources = runtime.sources if runtime else ("module",)
    of_frontends = {
        kind for path in frontends_run if path in frontends for kind in frontends[path].sources
    }
    if of_frontends and runtime and "program" in runtime.takes:
        sources = tuple(kind for kind in MODEL_KINDS if kind in of_frontends)
    return Baseline(name=name, sources=sources, **_own(entry) | {"program": frontends_run})


def _own(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what says when it is selected."""
    return {key: value for key, value in entry.items() if key != "default"}


def _frontend(name: str, entry: Mapping[str, Any], draft: Draft) -> Frontend:
    """The frontend of an entry; with `speed_rewrites: false`, without the rewrites for speed."""
    exporter = plugins.readable(plugins.exporter, entry["exporter"], draft.root)
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


# The kinds of files that entries name, and their folders.
_FOLDERS = {
    "env": ("envs", ".yaml"),
    "exporter": (plugins.EXPORTERS, ".py"),
    "runtime": (plugins.RUNTIMES, ".py"),
}

_ADAM = ("lr", "betas", "eps", "weight_decay", "amsgrad")
_OPTIMIZER_ARGUMENTS = {
    "SGD": ("lr", "momentum", "weight_decay", "nesterov"),
    "Adam": _ADAM,
    "AdamW": _ADAM,
}
"""The arguments that `train` takes for each optimizer of torch.optim, by name."""


def _problems(draft: Draft, programs: Mapping[str, Frontend]) -> Iterator[str]:
    """Error messages about a configuration. `programs`: the frontends whose programs baselines run."""
    config, known = draft.config, draft.known
    yield from entry_problems(draft.chosen, programs, draft.root, known["frontends"])
    yield from _expect_problems(draft)
    yield from _glob_problems(known, known["models"] | draft.named)
    nodes = ["cpu", *config.get("nodes", {})]
    for kind in ("targets", "baselines"):
        for entry in known[kind].values():
            if entry.node not in nodes:
                yield f"{kind}.{entry.name}.node: {reading.unknown('node', entry.node, nodes)}"
    for target in known["targets"].values():
        drivers = BACKENDS[target.backend].drivers
        if driver_of(target.device) not in drivers:
            yield (
                f"targets.{target.name}.device: found {target.device!r}, programs of {target.backend} run "
                f"on {', '.join(drivers)}"
            )
        for key, flags in flag_lists(target):
            for flag in flags:
                if problem := flag_problem(flag):
                    yield f"{key}: {flag} {problem}"
    yield from _reserved_problems(known)
    yield from _train_problems(config.get("train", {}))
    yield from _axis_problems(config)
    for model in known["models"].values():
        if model.dynamic and not model.axes.sizes:
            yield from size_problems(model)
        yield from _cache_problems(model)
    yield from _file_problems("reference", "env", config["reference"]["env"], draft.root)


def entry_problems(
    chosen: Mapping[str, Mapping],
    programs: Mapping[str, Frontend],
    root: Path,
    frontends: Collection[str],
) -> Iterator[str]:
    """Error messages about the selected frontends and baselines. `frontends`: the names of all."""
    lowering = {**chosen["frontends"], **programs}
    for kind, used in (("frontends", lowering), ("baselines", chosen["baselines"])):
        for entry in used.values():
            for key in filter(vars(entry).__contains__, _FOLDERS):
                yield from _file_problems(f"{kind}.{entry.name}", key, getattr(entry, key), root)
    for frontend in lowering.values():
        yield from _option_problems(frontend, root)
    for baseline in chosen["baselines"].values():
        yield from _baseline_problems(baseline, root, frontends)


def flag_lists(target: Target) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each list of flags of a target, with the key of the configuration that has it."""
    where = f"targets.{target.axes.entry}"
    yield f"{where}.flags", target.flags
    for override in target.overrides:
        if override.flags:
            yield f"{where}.overrides.{override.models}.flags", override.flags
        if override.train and override.train.flags:
            yield f"{where}.overrides.{override.models}.train.flags", override.train.flags


def _file_problems(where: str, key: str, name: str, root: Path) -> Iterator[str]:
    """An error message if there is no such environment, exporter or runtime."""
    folder, suffix = _FOLDERS[key]
    if not (root / folder / f"{name}{suffix}").is_file():
        names = [p.stem for p in (root / folder).glob(f"*{suffix}") if p.stem[0] != "_"]
        yield f"{where}.{key}: {reading.unknown(key, name, names)}"


def _option_problems(frontend: Frontend, root: Path) -> Iterator[str]:
    """Error messages about a frontend's options that its exporter does not declare (name: choices)."""
    try:
        options = plugins.exporter(frontend.exporter, root).options
    except OSError:
        return  # one of the file problems
    except plugins.DeclarationError as error:
        yield str(error)
        return
    where = f"frontends.{frontend.name}.options"
    for name, choices in options.items():
        if name not in frontend.options:
            yield f"{where}.{name}: missing, allowed is one of {', '.join(choices)}"
    for name, value in frontend.options.items():
        if name not in options:
            yield f"{where}.{name}: {reading.unknown('option', name, options)}"
        elif value not in options[name]:
            yield f"{where}.{name}: found {value!r}, allowed is one of {', '.join(options[name])}"


def _baseline_problems(baseline: Baseline, root: Path, frontends: Collection[str]) -> Iterator[str]:
    """Error messages about a baseline that does not fit the declarations of its runtime: an unsupported
    device or key, or a program that no frontend makes."""
    where = f"baselines.{baseline.name}"
    try:
        runtime = plugins.runtime(baseline.runtime, root)
    except OSError:
        return  # one of the file problems
    except plugins.DeclarationError as error:
        yield str(error)
        return
    if baseline.device not in runtime.devices:
        yield (
            f"{where}.device: found {baseline.device!r}, "
            f"{baseline.runtime} runs on {', '.join(runtime.devices)}"
        )
    for key in plugins.TAKES:
        if getattr(baseline, key) not in ("", "none", {}, ()) and key not in runtime.takes:
            yield f"{where}.{key}: means nothing to {baseline.runtime}; leave it out"
    if {"mode", "options"} <= baseline.compile.keys():
        yield (
            f"{where}.compile: found mode and options, but torch.compile takes one of them; "
            "torch.compiler.list_mode_options() has the options of each mode"
        )
    if "program" in runtime.takes:
        for name in baseline.program or ("",):
            if name not in frontends:
                yield f"{where}.program: {reading.unknown('frontend', name, frontends)}"


def _reserved_problems(known: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Error messages about entries that have a name that is made of others. `known`: names by kind."""
    for name in TUNED_FRONTENDS:
        if name in known["frontends"]:
            yield f"frontends.{name}: found the name of a row of results/tuned.csv, expected another name"
    for kind, names in known.items():
        for parts in map(EntryName.read, names):
            if parts.without("sizes") != EntryName(parts.entry):
                yield (
                    f"{kind}.{parts}: found the end of a name for training steps (+train), all sizes (+dynamic) or a number of "
                    "threads (+2-threads), expected another name"
                )


def _train_problems(train: Mapping[str, Any]) -> Iterator[str]:
    """Error messages about an entry `train` that torch.optim would refuse in every training step."""
    name = train.get("name", Optimizer.name)
    for key in train:
        if key not in ("name", *_OPTIMIZER_ARGUMENTS[name]):
            yield f"train.{key}: {reading.unknown(f'argument of {name}', key, _OPTIMIZER_ARGUMENTS[name])}"
    if name == "SGD" and train.get("nesterov") and not train.get("momentum"):
        yield "train.nesterov: found true, expected with a momentum above 0"


def _axis_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """Error messages about options of models that are lists and have `dynamic` sizes too, so that it is open which count."""
    entries = [(f"models.{name}", entry) for name, entry in config["models"].items()]
    for item in config.get("suites") or ():
        entries += [(f"suites.{name}", entry) for name, entry in item.items()] if isinstance(item, Mapping) else []  # fmt: skip
    for where, entry in entries:
        for option in (entry or {}).get(DYNAMIC) or ():
            if isinstance(values := entry.get(option), list):
                yield f"{where}.{option}: found the list {values}, and sizes of {option} in {DYNAMIC}; expected one of the two"


def _cache_problems(model: Model) -> Iterator[str]:
    """An error message about a language model whose cache is too short for its prompt."""
    cache, prompt = model.options.get("cache_len"), model.options.get("seq_len")
    if isinstance(cache, int) and isinstance(prompt, int) and cache < prompt:
        yield f"{model.where}.cache_len: found {cache}, but seq_len is {prompt}; expected a cache that holds the prompt and new tokens"


def _expect_problems(draft: Draft) -> Iterator[str]:
    """Error messages about patterns that match no declared cell: `snakemake check` would pass without checking anything.

    A pattern may name a number of threads or leave it out. If it names a toolchain, IREE's cell without that has to be
    declared.
    """
    expect, known = draft.config.get("expect", {}), draft.known
    numbers = cell.thread_numbers(draft.config["measure"])
    # One that is in runs by default for some kinds of models only has cells of the others too.
    declared_ones = {
        name: dataclasses.replace(baseline, sources=MODEL_KINDS)
        for name, baseline in known["baselines"].items()
    }
    sized = known["models"].values()
    baselines = with_dynamic_baselines(declared_ones, sized, draft.root)
    everything = Matrix(
        models=known["models"],
        frontends=variants_of_frontends(known["frontends"], TESTS, sized, draft.root),
        targets=known["targets"] | by_threads(known["targets"], numbers),
        baselines=baselines | by_threads(baselines, numbers),
        measure={},
        limits={},
        expect={},
        tests=TESTS,
    )
    rows = [*everything.rows()] if expect else []
    cells = [*map(str, rows)]
    of_iree = [str(row) for row in rows if row.kind is Kind.IREE]
    declared = draft.config.get("toolchains") or ()

    def without_known_toolchain(part: str) -> str:
        name = EntryName.read(part)
        is_known = any(fnmatchcase(toolchain, name.toolchain) for toolchain in declared)
        return str(name.without("toolchain")) if is_known else part

    for pattern in expect:
        plain = "/".join(map(without_known_toolchain, pattern.split("/")))
        among = cells if plain == pattern else of_iree
        if not any(fnmatchcase(name, plain) for name in among):
            yield f"expect.{pattern}: matches no cell of the matrix"


def _glob_problems(known: Mapping[str, dict], declared: Mapping[str, Model]) -> Iterator[str]:
    """Error messages about globs of targets and their overrides that match nothing.

    They are compared with all declared frontends and models, selected or not. The name of a variant in overrides is accepted
    also where a configuration file that is read later declares other variants of the model.
    """
    families = {model.family: None for model in declared.values() if model.family}
    names: dict[str, Any] = {"frontend": known["frontends"], "model": {**families, **declared}}
    for target in known["targets"].values():
        where = f"targets.{target.name}"
        yield from selection_problems(f"{where}.frontends", "frontend", target.frontends, names["frontend"])  # fmt: skip
        yield from selection_problems(f"{where}.models", "model", target.models, names["model"])
        for override in target.overrides:
            glob = override.models.removeprefix("!")
            if not any(fnmatchcase(name, glob) for name in names["model"]) and not models.could_be_variant(glob, declared.values()):  # fmt: skip
                yield f"{where}.overrides: {reading.unknown('model', glob, names['model'])}"
            place = f"{where}.overrides.{override.models}.frontends"
            yield from selection_problems(place, "frontend", override.frontends or (), names["frontend"])  # fmt: skip


def selection_problems(
    where: str, kind: str, globs: Iterable[str], known: Collection[str]
) -> Iterator[str]:
    """Error messages about globs that match none of the known names, or that leave out all of them."""
    globs = [*globs]
    without = (glob.removeprefix("!") for glob in globs)
    unknown = [glob for glob in without if not any(fnmatchcase(name, glob) for name in known)]
    for glob in unknown:
        yield f"{where}: {reading.unknown(kind, glob, known)}"
    if known and not unknown and not any(cell.selects(globs, name) for name in known):
        yield f"{where}: found {globs}, which leaves out every {kind}; expected a glob that leaves one in"
