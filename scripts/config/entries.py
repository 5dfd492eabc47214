"""The entries of a matrix: models, frontends, targets and baselines.

An entry of the configuration gives several where tests, toolchains, numbers of threads or sizes do. For programs of all sizes of
some options, a model whose entry has `dynamic` has a variant for each listed size: `bert~16` and `bert~128`, with a separate reference. Each
frontend whose exporter declares DYNAMIC has an entry `<frontend>+dynamic` beside it. Its program is that of `bert`, exported
and compiled once; each variant calls it: `bert~16/torchmlir-torch+dynamic/llvm-cpu`. Runtimes that compile for a model have an
entry `<baseline>+dynamic`, which compiles for any size.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from scripts.config import cell, plugins
from scripts.config.cell import EntryName, Toolchain
from scripts.config.compile_tables import Hang, Remedy, Variant
from scripts.config.stages import IREE_ENV
from scripts.core.dimensions import Sizes
from scripts.frontends.sources.registry import source_of
from scripts.frontends.sources.source import ModelKind
from scripts.iree.backends import BACKENDS, runs_on_cpu

NODE = "cpu"
"""The kind of cluster node of an entry that names none."""
OWN_SUITES = ("vmfbench", "user")
"""Suite names of models from `models:`; all others come from `suites:`."""


@dataclass(frozen=True)
class Named:
    """An entry with a name. One entry of the configuration gives several, whose `axes` differ."""

    name: str

    @property
    def axes(self) -> EntryName:
        """The parts of its name."""
        return EntryName.read(self.name)

    @property
    def toolchain(self) -> str:
        """The toolchain that it is of."""
        return self.axes.toolchain

    def with_axes(self, **axes: Any) -> Self:
        """The same with other values of these parts of its name."""
        return dataclasses.replace(self, name=str(dataclasses.replace(self.axes, **axes)))


@dataclass(frozen=True)
class Model(Named):
    """A model file with options. `suite` groups models from one source, `family` the variants of one
    entry (dtypes, batch sizes, phases).

    `source`: what its file gives (frontends/sources/source.py). `torchbench` is its name in a TorchBench file. `skip` is the reason if that file excludes the model,
    `skip_train` the reason if it excludes training. `broken` is the error message if the model's file
    cannot be used. `dynamic`: the options of which there are programs for all sizes.
    """

    file: str
    suite: str = "vmfbench"
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, Any] = field(default_factory=dict)
    default_batch_size: int = 1
    torchbench: str = ""
    skip: str = ""
    skip_train: str = ""
    family: str = ""
    broken: str = ""
    source: ModelKind = "module"
    dynamic: dict[str, Sizes] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        return self.options.get("dtype", "f32")

    @property
    def batch_size(self) -> int:
        return int(self.options.get("batch_size", self.default_batch_size))

    @property
    def where(self) -> str:
        """The configuration's entry from which it comes, for messages."""
        kind = "models" if self.suite in OWN_SUITES else f"suites.{self.suite}"
        return f"{kind}.{EntryName.read(self.name).entry}"

    @property
    def phase(self) -> str | None:
        """Of a language model: forward, prefill or decode."""
        return self.options.get("phase")


@dataclass(frozen=True)
class Frontend(Named):
    """A lowering path from a model of these sources to a program, for a test of choices.TESTS. With a toolchain that changes its
    environment, the name of that ends with `@<toolchain>` too."""

    exporter: str
    env: str
    options: dict[str, Any] = field(default_factory=dict)
    ir_format: str = "text"
    sources: tuple[ModelKind, ...] = ("module",)

    @property
    def test(self) -> str:
        """The test whose programs it exports."""
        return self.axes.test


@dataclass(frozen=True)
class StepOverride:
    """Values of a target that differ for training steps. None keeps the value of the target."""

    opt_level: str | None = None
    flags: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TargetOverride:
    """Values of a target that differ for the models whose name or family matches the glob `models`.

    None keeps the value of the target. `train`: values that differ for their training steps.
    """

    models: str
    frontends: tuple[str, ...] | None = None
    opt_level: str | None = None
    flags: tuple[str, ...] | None = None
    train: StepOverride | None = None

    def is_for(self, model: Model) -> bool:
        """Whether its glob matches a model."""
        return cell.selects((self.models,), model.name, model.family)


@dataclass(frozen=True)
class Choice:
    """A kept result of tuning that a target uses for a model: how the program of `frontend` is compiled.
    `file` has the whole result."""

    frontend: str
    opt_level: str
    flags: tuple[str, ...]
    file: str


@dataclass(frozen=True)
class Target(Named):
    """What a program is compiled for, the device URI on which it runs, and the kind of cluster node
    (Matrix.nodes) that has such a device. `overrides` are in the order of the
    configuration. `remedies` are tried in this order where a compilation fails; `hangs` are not run.
    `tuned`: whether kept results of tuning are used; `choices` are those that apply, by model.
    `tuned_by`: the file of the one that has set opt level and flags.
    `env`: the environment of its compiler and runtime. With a toolchain that changes it, the name of the environment ends
    with `@<toolchain>` too.
    """

    backend: str
    arch: str
    opt_level: str
    flags: tuple[str, ...]
    device: str
    frontends: tuple[str, ...] = ("*",)
    models: tuple[str, ...] = ("*",)
    node: str = NODE
    overrides: tuple[TargetOverride, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    hangs: tuple[Hang, ...] = ()
    tuned: bool = False
    choices: dict[str, Choice] = field(default_factory=dict)
    tuned_by: str = ""
    env: str = IREE_ENV

    def for_model(self, model: Model) -> Target:
        """Return the target with its overrides for a model."""
        return self._with(override for override in self.overrides if override.is_for(model))

    def _with(self, overrides: Iterable[TargetOverride | StepOverride | None]) -> Target:
        """Return the target with the values that overrides set; the last override of a value counts."""
        changes = {
            key: value
            for override in overrides
            for key in ("frontends", "opt_level", "flags")
            if (value := getattr(override, key, None)) is not None
        }
        return dataclasses.replace(self, **changes) if changes else self

    def by_path(self, model: Model, frontend: str) -> Target:
        """Return the target (with its overrides for a model) for the program of a frontend: with the overrides for
        training steps, if it is one, or the kept result of tuning, if that is for this frontend."""
        if EntryName.read(frontend).test == cell.TRAIN:
            return self._with(
                override.train for override in self.overrides if override.is_for(model)
            )
        choice = self.choices.get(model.name)
        if choice is None or choice.frontend != frontend:
            return self
        return dataclasses.replace(
            self, opt_level=choice.opt_level, flags=choice.flags, tuned_by=choice.file
        )

    def takes(self, model: Model, frontend: Frontend) -> bool:
        """Whether a program is compiled for this target, by the globs of its entry. The name of a model's
        family matches all of its variants."""
        return cell.selects(self.frontends, frontend.axes.entry) and cell.selects(
            self.models, model.name, model.family
        )

    def asked(self, frontend: str) -> Variant:
        """The requested way to compile a program of a frontend for this target."""
        return Variant(frontend, self.opt_level, self.flags)

    @property
    def device_kind(self) -> str:
        """cpu, vulkan, cuda or rocm. Latencies are compared only within one kind."""
        return BACKENDS[self.backend].device_kind

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on a CPU device, for which threads can be set."""
        return runs_on_cpu(self.device)


@dataclass(frozen=True)
class Baseline(Named):
    """A runtime on a device, in a precision (choices.PRECISIONS), under
    XLA flags. It runs models of these sources; with `program`, what the first of these frontends that takes a model's source exports.

    `compile`: arguments of torch.compile that differ from this project's defaults.
    `rewrites`: "speed" for the captured graph of the model, rewritten for speed; "" for the model as it is.
    """

    runtime: str
    device: str
    env: str
    precision: str = "none"
    xla_flags: str = ""
    program: tuple[str, ...] = ()
    node: str = NODE
    compile: dict[str, Any] = field(default_factory=dict)
    rewrites: str = ""
    sources: tuple[ModelKind, ...] = ("module",)

    @property
    def on_cpu(self) -> bool:
        """Whether it runs on a CPU, for which threads can be set."""
        return self.device == "cpu"

    @property
    def runtime_name(self) -> str:
        """The name of its runtime in rows: that of the module, which has no dash."""
        return self.runtime.replace("_", "-")

    @property
    def is_plain(self) -> bool:
        """Whether it is its runtime without options of its own, with which rows are compared."""
        return self.precision == "none" and not self.compile and not self.rewrites


@dataclass(frozen=True)
class Override:
    """What a TorchBench file sets for one cell.

    `skip`: the reason why it does not run. `tolerance`: replaces that of the entries.
    """

    skip: str = ""
    tolerance: dict[str, Any] = field(default_factory=dict)


def variants_of_frontends(
    frontends: Mapping[str, Frontend],
    tests: Collection[str],
    models: Iterable[Model] = (),
    root: Path = plugins.ROOT,
) -> dict[str, Frontend]:
    """Return the frontends of each test by name, and those for all sizes where a model has them. An exporter that does not
    declare training steps or such programs has none of these. `root`: the folder of scripts/."""
    declared = [
        (frontend, exporter)
        for frontend in frontends.values()
        if (exporter := plugins.readable(plugins.exporter, frontend.exporter, root))
    ]
    variants = [*frontends.values()] if cell.EVAL in tests else []
    if cell.TRAIN in tests:
        variants += [f.with_axes(test=cell.TRAIN) for f, exporter in declared if cell.TRAIN in exporter.tests]  # fmt: skip
    if cell.EVAL in tests and _any_dynamic(models):
        variants += [f.with_axes(dynamic=True) for f, exporter in declared if exporter.dynamic]
    return {variant.name: variant for variant in variants}


Varied = TypeVar("Varied", Frontend, Target)


def by_toolchain(
    entries: Mapping[str, Varied], chosen: Mapping[str, Toolchain]
) -> dict[str, Varied]:
    """Return the entries of each toolchain by name: an entry as it is, where the toolchain does not change
    its environment, else one with a separate environment."""
    variants = [
        entry
        if (env := toolchain.of_env(entry.env)) == entry.env
        else dataclasses.replace(entry.with_axes(toolchain=toolchain.name), env=env)
        for entry in entries.values()
        for toolchain in chosen.values()
    ]
    return {variant.name: variant for variant in variants}


def programs(
    baselines: Iterable[Baseline], models: Iterable[Model], frontends: Mapping[str, Frontend]
) -> dict[str, Frontend]:
    """The frontends whose programs these baselines run for these models."""
    kinds = {model.source for model in models}
    named = dict.fromkeys(
        name for baseline in baselines for name in baseline.program if name in frontends
    )
    return {name: frontends[name] for name in named if kinds & {*frontends[name].sources}}


Timed = TypeVar("Timed", Target, Baseline)


def by_threads(entries: Mapping[str, Timed], numbers: Collection[int]) -> dict[str, Timed]:
    """Return the entries by name: those of a CPU once for each of these numbers of threads."""
    variants = [
        entry.with_axes(threads=number)
        for entry in entries.values()
        for number in (numbers if numbers and entry.on_cpu else (None,))
    ]
    return {variant.name: variant for variant in variants}


TUNED, AS_CONFIGURED = "tuned", "default"
TUNED_FRONTENDS = (TUNED, AS_CONFIGURED)
"""The frontends of rows of results/tuned.csv: the fastest candidate, and the fastest one that the
configuration has anyway. No frontend of a configuration has these names."""
DYNAMIC = "dynamic"
"""The key of an entry of `models`, and the argument of torch.compile."""


def variants_of_sizes(model: Model) -> Iterator[Model]:
    """Yield the variants of a model: one for each combination of the listed sizes of its options, none without such options."""
    if not model.dynamic:
        return
    for values in itertools.product(*(sizes.values for sizes in model.dynamic.values())):
        sizes = dict(zip(model.dynamic, values, strict=True))
        options = source_of(model.file).with_sizes(model.options, sizes)
        sized = model.with_axes(sizes="-".join(map(str, values)))
        yield dataclasses.replace(sized, options=options)


def size_problems(model: Model) -> Iterator[str]:
    """Yield error messages about the sizes of a model."""
    for option, sizes in model.dynamic.items():
        place = f"{model.where}.{DYNAMIC}.{option}"
        for value in sizes.values:
            if not sizes.allows(value):
                yield f"{place}.values: found {value}, expected {sizes}"
        default = source_of(model.file).sizes(model.options).get(option)
        if isinstance(default, int) and not sizes.allows(default):
            yield f"{model.where}.{option}: found {default}, expected {sizes}, as {place} says"
        if len(sizes.probes()) < 2:
            yield f"{place}: found {sizes}, expected two sizes or more; set the option itself to a single one"


def with_dynamic_baselines(
    entries: Mapping[str, Baseline], models: Iterable[Model], root: Path = plugins.ROOT
) -> dict[str, Baseline]:
    """Return the baselines, and those for all sizes where a model has them: of runtimes that take arguments of torch.compile, without
    own ones. `root`: the folder of scripts/."""
    with_dynamic = dict(entries)
    for baseline in entries.values() if _any_dynamic(models) else ():
        runtime = plugins.readable(plugins.runtime, baseline.runtime, root)
        if runtime and "compile" in runtime.takes and not baseline.compile:
            dynamic = dataclasses.replace(baseline, compile={DYNAMIC: True})
            dynamic = dynamic.with_axes(dynamic=True)
            with_dynamic[dynamic.name] = dynamic
    return with_dynamic


def is_for_sizes(entry: Frontend | Baseline, model: Model, test: str = "eval") -> bool:
    """Whether an entry is for a test of a model: one for all sizes is for forward passes of models that have them."""
    return not entry.axes.dynamic or (bool(model.dynamic) and test == "eval")


def _any_dynamic(models: Iterable[Model]) -> bool:
    return any(model.dynamic for model in models)
