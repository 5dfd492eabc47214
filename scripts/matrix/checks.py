"""Checks of the entries of a configuration that the schema cannot make: whether the files that they
name exist, and whether entries fit together. The schema has checked each entry's types before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.matrix import feature, models, plugins, settings, threads, toolchains, training
from scripts.matrix.entries import Baseline, Frontend, Model, Target, by_threads, of_tests, varied
from scripts.matrix.matrix import Matrix
from scripts.matrix.precision import POLICY, TESTS
from scripts.matrix.stage import IREE_ENV
from scripts.matrix.toolchains import Toolchain

# The kinds of files that entries name, and their folders.
_FOLDERS = {
    "env": ("envs", ".yaml"),
    "exporter": ("scripts/exporters", ".py"),
    "runtime": ("scripts/baselines", ".py"),
}


def problems(
    config: Mapping[str, Any],
    known: Mapping[str, dict],
    chosen: Mapping[str, dict],
    programs: Mapping[str, Frontend],
    root: Path,
    named: Mapping[str, Model],
) -> list[str]:
    """Error messages about the entries. `known`: all of them. `chosen`: those that are selected.

    `programs`: the frontends whose programs baselines run. `named`: models of features' parts.
    """
    found = entry_problems(chosen, programs, root, has_lists(config), list(known["frontends"]))
    numbers = threads.numbers(config["measure"])
    found += expect_problems(
        config.get("expect", {}), known, config.get("toolchains") or (), numbers, root
    )
    found += glob_problems({**known, "models": {**known["models"], **named}})
    found += node_problems(known, config.get("nodes", {}))
    found += reserved_problems(known)
    found += training.problems(config.get("train", {}))
    return found + reference_problems(config["reference"]["env"], root)


def has_lists(config: Mapping[str, Any]) -> bool:
    """Whether the configuration names a TorchBench file."""
    return bool((config.get("torchbench") or {}).get("file"))


def entry_problems(
    chosen: Mapping[str, Mapping],
    programs: Mapping[str, Frontend],
    root: Path,
    has_lists: bool,
    frontends: Collection[str],
) -> list[str]:
    """Error messages about the selected frontends and baselines. `frontends`: the names of all."""
    lowering = {**chosen["frontends"], **programs}
    found = file_problems({**chosen, "frontends": lowering}, root)
    for frontend in lowering.values():
        found += option_problems(frontend, root)
    for baseline in chosen["baselines"].values():
        found += baseline_problems(baseline, root, has_lists, frontends)
    return found


def reserved_problems(known: Mapping[str, Collection[str]]) -> list[str]:
    """Error messages about frontends that have a name that a feature reserves, or that of a training step, and
    about entries that have that of a number of threads. `known`: names by kind."""
    found = {
        f"frontends.{name}": what
        for declared in feature.LOADED.values()
        for name, what in declared.reserved.items()
        if name in known["frontends"]
    }
    found |= {
        f"frontends.{name}": "the end of the name of a frontend of training steps"
        for name in known["frontends"]
        if name.endswith(training.SUFFIX)
    }
    found |= {
        f"{kind}.{name}": "the end of a name of a number of threads"
        for kind, names in known.items()
        for name in names
        if threads.of(name)
    }
    return [f"{where}: found {what}, expected another name" for where, what in found.items()]


def reference_problems(env: str, root: Path) -> list[str]:
    """Error messages if the environment of the references does not exist."""
    if (root / "envs" / f"{env}.yaml").is_file():
        return []
    there = [path.stem for path in (root / "envs").glob("*.yaml")]
    return [f"reference.env: {settings.unknown('env', env, there)}"]


def file_problems(chosen: Mapping[str, Mapping], root: Path) -> list[str]:
    """Error messages about environments, exporters and runtimes that do not exist."""
    problems = []
    for kind in ("frontends", "baselines"):
        for entry in chosen[kind].values():
            for key, (folder, suffix) in _FOLDERS.items():
                name = getattr(entry, key, None)
                if name is None or (root / folder / f"{name}{suffix}").is_file():
                    continue
                there = [p.stem for p in (root / folder).glob(f"*{suffix}") if p.stem[0] != "_"]
                problems.append(f"{kind}.{entry.name}.{key}: {settings.unknown(key, name, there)}")
    return problems


def option_problems(frontend: Frontend, root: Path) -> list[str]:
    """Error messages about a frontend's options that its exporter does not declare (name: choices)."""
    if not (root / plugins.EXPORTERS / f"{frontend.exporter}.py").is_file():
        return []
    try:
        known = plugins.exporter(frontend.exporter, root).options
    except plugins.DeclarationError as error:
        return [str(error)]
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


def baseline_problems(
    baseline: Baseline, root: Path, has_lists: bool, frontends: Collection[str]
) -> list[str]:
    """Error messages about a baseline that does not fit the declarations of its runtime: an unsupported
    device or key, a program that no frontend makes, or a TorchBench policy without a file."""
    where = f"baselines.{baseline.name}"
    problems = []
    if baseline.precision == POLICY and not has_lists:
        problems.append(
            f"{where}.precision: the policy {POLICY} needs the file that "
            "lists its exceptions; set torchbench.file"
        )
    if not (root / plugins.RUNTIMES / f"{baseline.runtime}.py").is_file():
        return problems
    try:
        runtime = plugins.runtime(baseline.runtime, root)
    except plugins.DeclarationError as error:
        return [*problems, str(error)]
    if baseline.device not in runtime.devices:
        problems.append(
            f"{where}.device: found {baseline.device!r}, "
            f"{baseline.runtime} runs on {', '.join(runtime.devices)}"
        )
    for key in plugins.TAKES:
        if getattr(baseline, key) not in ("", "none", {}) and key not in runtime.takes:
            problems.append(f"{where}.{key}: means nothing to {baseline.runtime}; leave it out")
    if {"mode", "options"} <= baseline.compile.keys():
        problems.append(
            f"{where}.compile: found mode and options, but torch.compile takes one of them; "
            "torch.compiler.list_mode_options() has the options of each mode"
        )
    if "program" in runtime.takes and baseline.program not in frontends:
        problems.append(
            f"{where}.program: {settings.unknown('frontend', baseline.program, frontends)}"
        )
    return problems


def expect_problems(
    expect: Mapping[str, Any],
    known: Mapping[str, dict],
    named: Iterable[str] = (),
    numbers: Collection[int] = (),
    root: Path = plugins.ROOT,
) -> list[str]:
    """Error messages about patterns that match no declared cell: `snakemake check` would pass without
    checking anything. `named`: all declared toolchains, selected or not. `numbers`: of threads; a pattern may
    name one or leave it out. `root`: the folder of scripts/."""
    variants = _variants(known["frontends"], named) if any("@" in one for one in expect) else {}
    everything = Matrix(
        models=known["models"],
        frontends=varied(_of_tests(known["frontends"], root), toolchains.pinned() | variants),
        targets=varied(
            known["targets"] | by_threads(known["targets"], numbers),
            toolchains.pinned() | variants,
        ),
        toolchains=toolchains.pinned() | variants,
        baselines=known["baselines"] | by_threads(known["baselines"], numbers),
        measure={},
        limits={},
        expect={},
        tests=TESTS,
    )
    cells = list(map(str, everything.rows())) if expect else []
    return [
        f"expect.{pattern}: matches no cell of the matrix"
        for pattern in expect
        if not any(fnmatchcase(cell, pattern) for cell in cells)
    ]


def _of_tests(frontends: Mapping[str, Frontend], root: Path) -> dict[str, Frontend]:
    """The frontends of all tests; of an exporter that does not declare its tests, which is another error, those of eval."""
    found = dict(frontends)
    for name, one in frontends.items():
        with contextlib.suppress(OSError, plugins.DeclarationError):
            found |= of_tests({name: one}, TESTS, root)
    return found


def _variants(frontends: Mapping[str, Frontend], named: Iterable[str]) -> dict[str, Toolchain]:
    """Toolchains of these names that change any environments, for all names of cells that they may have."""
    lowering = tuple(dict.fromkeys(one.env for one in frontends.values()))
    changes = {"": (IREE_ENV,), "-lowering": lowering, "-both": (IREE_ENV, *lowering)}
    return {
        f"{name}{kind}": Toolchain(name, envs=envs)
        for name in named
        for kind, envs in changes.items()
    }


def glob_problems(known: Mapping[str, dict]) -> list[str]:
    """Return error messages about globs of targets and their overrides that match nothing.

    They are compared with all declared frontends and models, selected or not. The name of a variant in overrides stands
    also where a configuration file that is read later declares other variants of the model.
    """
    families = {model.family: None for model in known["models"].values() if model.family}
    names = {"frontend": known["frontends"], "model": families | known["models"]}
    return [
        f"{where}: {settings.unknown(kind, glob, names[kind])}"
        for target in known["targets"].values()
        for where, kind, glob in _globs(target)
        if not any(fnmatchcase(name, glob) for name in names[kind])
        and not (
            where.endswith(".overrides") and models.could_be_variant(glob, known["models"].values())
        )
    ]


def _globs(target: Target) -> Iterator[tuple[str, str, str]]:
    """Yield (key, "frontend" or "model", glob) for each glob of a target, without a leading `!`."""
    where = f"targets.{target.name}"
    listed = [(f"{where}.frontends", "frontend", glob) for glob in target.frontends]
    listed += [(f"{where}.models", "model", glob) for glob in target.models]
    for one in target.overrides:
        listed.append((f"{where}.overrides", "model", one.models))
        of_override = f"{where}.overrides.{one.models}.frontends"
        listed += [(of_override, "frontend", glob) for glob in one.frontends or ()]
    for key, kind, glob in listed:
        yield key, kind, glob.removeprefix("!")


def node_problems(known: Mapping[str, dict], nodes: Mapping[str, Any]) -> list[str]:
    """Error messages about targets and baselines on an undeclared kind of node; cpu needs no entry."""
    return [
        f"{kind}.{entry.name}.node: {settings.unknown('node', entry.node, ['cpu', *nodes])}"
        for kind in ("targets", "baselines")
        for entry in known[kind].values()
        if entry.node not in ("cpu", *nodes)
    ]
