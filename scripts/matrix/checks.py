"""Checks of a configuration that its form does not make: whether the files that entries name exist, and whether entries
fit together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.iree.backends import BACKENDS, driver_of, flag_problem
from scripts.matrix import cell, models, plugins, reading
from scripts.matrix.cell import EntryName, Kind
from scripts.matrix.choices import TESTS
from scripts.matrix.entries import (
    DYNAMIC,
    TUNED_FRONTENDS,
    Baseline,
    Frontend,
    Model,
    Target,
    by_threads,
    of_tests,
    size_problems,
    with_dynamic_baselines,
    with_dynamic_frontends,
)
from scripts.matrix.feature import Draft
from scripts.matrix.matrix import Matrix
from scripts.sources.source import MODEL_KINDS
from scripts.torch_model.arguments import Optimizer

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


def problems(draft: Draft, programs: Mapping[str, Frontend]) -> Iterator[str]:
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
    for kind, entries in (("frontends", lowering), ("baselines", chosen["baselines"])):
        for entry in entries.values():
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
        there = [p.stem for p in (root / folder).glob(f"*{suffix}") if p.stem[0] != "_"]
        yield f"{where}.{key}: {reading.unknown(key, name, there)}"


def _option_problems(frontend: Frontend, root: Path) -> Iterator[str]:
    """Error messages about a frontend's options that its exporter does not declare (name: choices)."""
    try:
        known = plugins.exporter(frontend.exporter, root).options
    except OSError:
        return  # one of the file problems
    except plugins.DeclarationError as error:
        yield str(error)
        return
    where = f"frontends.{frontend.name}.options"
    for name, choices in known.items():
        if name not in frontend.options:
            yield f"{where}.{name}: missing, allowed is one of {', '.join(choices)}"
    for name, value in frontend.options.items():
        if name not in known:
            yield f"{where}.{name}: {reading.unknown('option', name, known)}"
        elif value not in known[name]:
            yield f"{where}.{name}: found {value!r}, allowed is one of {', '.join(known[name])}"


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
    for kind, entries in known.items():
        for parts in map(EntryName.read, entries):
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
            if isinstance(given := entry.get(option), list):
                yield f"{where}.{option}: found the list {given}, and sizes of {option} in {DYNAMIC}; expected one of the two"


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
    baselines = with_dynamic_baselines(declared_ones, known["models"].values(), draft.root)
    everything = Matrix(
        models=known["models"],
        frontends=with_dynamic_frontends(
            of_tests(known["frontends"], TESTS, draft.root), known["models"].values(), draft.root
        ),
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
