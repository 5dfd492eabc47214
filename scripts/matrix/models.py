"""The models of a configuration: files of models/, entries of their own, and suites, each in its variants."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.core import checkout, python_source
from scripts.core.dimensions import Sizes
from scripts.matrix import torchbench
from scripts.matrix.choices import DTYPES
from scripts.matrix.entries import DYNAMIC, Model, variants_of_sizes
from scripts.matrix.reading import ConfigError
from scripts.sources.registry import model_file, source_of, unknown
from scripts.sources.source import BRACES, has_braces
from scripts.torch_model.errors import ModelFileError
from scripts.torch_model.source import shipped

PIPELINE_KEYS = ("file", "tolerance", "torchbench", "default", DYNAMIC)
"""Keys of a model's entry that are not options of its functions."""
PHASES: tuple[str, ...] = python_source.literal(
    checkout.ROOT / "models/parts/causal_lm.py", "PHASES", ()
)
"""Of a language model, as the file declares them, which cannot be imported here: it imports torch."""
AXES = {"dtype": "", "batch_size": "b", "phase": ""}
"""Options that may be lists, and the prefix of their values in the names of variants."""


def listed(entries: Mapping[str, Mapping | None], root: Path) -> dict[str, Model]:
    """Every file of models/, then the entries that name another file."""
    files = shipped(root)
    models: dict[str, Model] = {}
    entries_of = [
        variant
        for name in [*files, *(n for n in entries if n not in files)]
        for variant in variants(name, dict(entries.get(name) or {}))
    ]
    for name, family, entry in entries_of:
        if name in models:
            raise ConfigError(f"models.{family}: its variant {name} is the name of another model")
        file = str(model_file(entry.get("file", f"models/{family}.py")))
        inside = (root / file).resolve().is_relative_to(root / "models")
        suite = "vmfbench" if inside else "user"
        models[name] = model_of(name, family, entry, file=file, suite=suite, known_as=family)
    return with_sizes(models)


def with_sizes(models: Mapping[str, Model]) -> dict[str, Model]:
    """The models, each followed by its variants of other sizes, if its entry is `dynamic`."""
    return {
        sized.name: sized
        for model in models.values()
        for sized in (model, *variants_of_sizes(model))
    }


def checked(model: Model, root: Path) -> Model:
    """The model with what its file says about it: its batch size where its entry sets none (its file's, or its suite's) and its dtype.

    Raises ModelFileError for options that its file does not take, BrokenModelFile where there is
    something wrong with the file.
    """
    # No link is followed: a name tells the source, and a folder of a hub's cache has links to files of other names.
    path = Path(os.path.abspath(root / model.file))
    if os.path.isfile(path) and (problem := unknown(path)):
        raise ModelFileError(problem)
    source, options = source_of(path), _with_paths(model.file, model.options, root)
    for place in (str(path), *(str(options[name]) for name in source.path_options if options.get(name))):  # fmt: skip
        if has_braces(place):
            raise ModelFileError(f"{place} {BRACES}")
    source.check(path, options)
    if model.dynamic:
        source.check_dynamic(path, options, model.dynamic)
    facts = source.facts(path, options)
    if model.dtype != facts.dtype:
        model = dataclasses.replace(model, options=model.options | {"dtype": facts.dtype})
    if "batch_size" in model.options:
        return model
    default = torchbench.batch_size(model, root) or facts.batch_size
    return dataclasses.replace(model, default_batch_size=default)


def with_variants(wanted: str, models: Mapping[str, Model]) -> str:
    """A selection of models in which the name of a family is replaced by its variants, and that of a model followed by its
    sizes."""
    parts = [part.strip() for part in wanted.split(",")]
    members = {
        part: [
            model.name
            for model in models.values()
            if part == str(model.axes.without("sizes"))
            or (part == model.family and part not in models)
        ]
        for part in parts
    }
    return ",".join(",".join(members[part]) or part for part in parts)


def with_absolute_paths(model: Model, root: Path) -> Model:
    """The model for a run in another folder than `root`, the folder of the Snakefile."""
    model = torchbench.absolute(model, root)
    options = _with_paths(model.file, model.options, root)
    return dataclasses.replace(model, file=str(root / model.file), options=options)


def _with_paths(file: str, options: dict[str, Any], root: Path) -> dict[str, Any]:
    """The options of a model, with the paths among them below `root` if they are relative."""

    def path(value: Any) -> Any:
        if isinstance(value, list):
            return [path(item) for item in value]
        return str(root / Path(str(value)).expanduser())

    names = [name for name in source_of(file).path_options if options.get(name)]
    return options | {name: path(options[name]) for name in names}


def model_of(
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
        options=_with_paths(file, options, Path()),
        tolerance=dict(entry.get("tolerance", {})),
        torchbench=entry.get("torchbench", known_as),
        family=family,
        source=source_of(file).kind,
        dynamic={
            option: Sizes.of_entry(sizes) for option, sizes in (entry.get(DYNAMIC) or {}).items()
        },
    )


def could_be_variant(name: str, declared: Iterable[Model]) -> bool:
    """Whether `name` is that of a variant that a declared model could have: `llama-decode` where this configuration sets
    another phase of `llama`. Only options that the configuration sets count."""
    known = {"dtype": DTYPES, "phase": PHASES}
    for model in declared:
        pattern = re.escape(model.family)
        for axis, prefix in AXES.items():
            if axis in model.options:
                allowed = map(re.escape, known[axis]) if axis in known else ("[0-9]+",)
                pattern += f"(?:-{prefix}(?:{'|'.join(allowed)}))?"
        if re.fullmatch(pattern, name):
            return True
    return False


def variants(name: str, entry: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """(name, family, entry) for each value of the axes that are lists: bert-bf16-b8."""
    axes = {axis: entry[axis] for axis in AXES if isinstance(entry.get(axis), list)}
    rows = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        suffix = "".join(f"-{AXES[axis]}{value}" for axis, value in chosen.items())
        rows.append((name + suffix, name, entry | chosen))
    return rows
