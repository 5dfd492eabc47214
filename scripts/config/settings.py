"""Reads the configuration, files and command line, and checks it.

All errors that can be found without running a stage are reported here, before any work starts.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from scripts.config import models, plugins, reading
from scripts.config.cell import EntryName
from scripts.config.reading import ConfigError
from scripts.config.sections import SELECTABLE, check
from scripts.frontends.sources import registry
from scripts.frontends.torch_model.source import shipped as shipped_models

TEXTS = ("suites", "filter", "exclude", "batch", "retry")
"""Other keys whose value on the command line is text. An empty text counts as not given."""
NAMED = ("file", "stop_on")
"""Keys whose value on the command line is text, of which an empty one is an error."""
WITH_OPTIONS = ("models", "suites", "frontends", "baselines")
"""Keys whose entries have options of which only models, exporters or runtimes know the types."""
ENTRIES = ("models", "frontends", "targets", "baselines")
"""Keys whose entries a later file may leave out of runs that do not select them by name."""
PATHS = (
    *(("models", "*", name) for source in registry.SOURCES for name in source.path_options),
    ("models", "*", "file"),
    ("toolchains", "*", "iree"),
    ("toolchains", "*", "torch-mlir"),
    ("toolchains", "*", "find_links"),
    ("toolchains", "*", "packages", "*"),
    ("operators", "dataset"),
    ("operators", "mapping"),
    ("operators", "traces"),
    ("torchbench", "file"),
    ("torchbench", "path"),
)
"""The keys of values, or of lists of values, that may be paths."""
QUICK_MEASURE = {"budget_s": 5, "generations": 6}
"""Values of `measure:` that `quick=true` sets, unless the command line sets them."""
QUICK_BACKEND = "llvm-cpu"
QUICK_RUNTIME = {"runtime": "eager", "device": "cpu"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Asked(Protocol):
    """The part of the command line about the configuration: Snakemake's ConfigSettings."""

    config: Mapping[str, Any] | None
    configfiles: Sequence[Path]
    replace_workflow_config: bool


def read(line: Asked, own: str | Path, typed_in: Path | None = None) -> tuple[dict, dict[str, str]]:
    """Return the configuration of a run; see `load`.

    `own`: the workflow's file, next to the Snakefile. The files of `--configfile` are merged over
    it, or replace it (`--replace-workflow-config`).
    """
    further = list(line.configfiles or ())
    replaced = line.replace_workflow_config and (further or line.config)
    if replaced or (further and not Path(own).exists()):
        return load(line.config or {}, further, Path(own).parent, typed_in)
    return load(line.config or {}, [own, *further], Path(own).parent, typed_in)


def to_json(line: Asked, typed_in: str | Path) -> dict[str, Any]:
    """The part of a command line about the configuration as plain values, with paths relative to the working folder."""
    return {
        "config": dict(line.config or {}),
        "files": [os.path.relpath(file) for file in line.configfiles or ()],
        "replace": bool(line.replace_workflow_config),
        "folder": os.path.relpath(typed_in),
    }


def load(
    config: Mapping[str, Any],
    files: Iterable[str | Path],
    root: Path = Path(),
    typed_in: Path | None = None,
) -> tuple[dict, dict[str, str]]:
    """Return the declared configuration, and the selections of the command line.

    `config`: the values of `--config`, as Snakemake parses them. Each of the `files` is merged over
    the files before it (merge), and `config` over all. In `config`, `models=resnet,bert` is
    not a mapping but selects models that the files declare, `suites=timm/resnet*,hf/t5` adds to
    their suites, and `file=mine.py` adds a model and selects it (`_with_files`). `root`: the folder of the
    Snakefile. `typed_in`: the folder in which the command was typed, if it is another. Raises
    ConfigError with all problems found.
    """
    shipped = shipped_models(root)
    declared: dict[str, Any] = {}
    for file in files:
        merge(declared, located(reading.read(file), Path(file).parent, root), shipped)
    values = dict(config)
    if empty := [key for key, value in values.items() if value is None and key not in TEXTS]:
        raise ConfigError("\n".join(map(_empty, empty)))
    for key in (*SELECTABLE, *TEXTS, *NAMED):  # Snakemake reads `models=18` as a number
        if isinstance(values.get(key), bool | int | float):
            values[key] = str(values[key])
    selections = {key: values.pop(key) for key in SELECTABLE if isinstance(values.get(key), str)}
    further = values.pop("suites") if isinstance(values.get("suites"), str) else ""
    values = {
        key: _nested(
            value,
            reading.scalar
            if key in WITH_OPTIONS
            else lambda text: None if text == "null" else text,
        )
        for key, value in values.items()
    }
    values = located(values, typed_in or root, root)
    if reading.scalar(str(values.get("quick", declared.get("quick")))) is True:
        merge(declared, {"measure": QUICK_MEASURE})
    merge(declared, values, shipped)
    declared = {
        key: {} if value is None else value
        for key, value in declared.items()
        if value is not None or key not in (*TEXTS, "tests")
    }
    if named := [name for part in further.split(",") if (name := part.strip())]:
        declared["suites"] = [*(declared.get("suites") or []), *named]
    declared = check(declared)
    if paths := declared.get("file"):
        names = _add_files(declared, paths, root, typed_in or root)
        selections["models"] = _with_files(selections.get("models", ""), names, declared["models"])
    if declared.get("quick"):
        selections = _quick_selections(declared, root) | selections
    return declared, selections


def _nested(value: Any, read: Callable[[str], Any], inside: bool = False) -> Any:
    """A value of `--config` with the texts in its mappings and lists read; Snakemake leaves these as they are typed."""
    match value:
        case dict():
            return {key: _nested(inner, read, True) for key, inner in value.items()}
        case list():
            return [_nested(item, read, True) for item in value]
    return read(value) if inside and isinstance(value, str) else value


def _empty(key: str) -> str:
    """What is wrong with `--config <key>=`."""
    if key in SELECTABLE:
        return f"{key}: found nothing after `{key}=`; name some, or leave `{key}=` out for all"
    return f"{key}: found nothing after `{key}=`; give its value, or leave `{key}=` out"


def merge(into: dict[str, Any], new: Mapping[str, Any], shipped: Iterable[str] = ()) -> None:
    """Merge the configuration `new` into `into`: mappings are merged, other values are replaced.

    If an entry of ENTRIES is null, it is left out: it gets `default: false`. Its key may be a glob,
    which leaves out all matching entries of `into` that `new` does not set. In `expect`, null
    removes a pattern. In `train`, another optimizer leaves out the arguments of the one before, but for the
    learning rate. `shipped`: names of models that have a file and need no entry. Raises
    ConfigError if a null matches no entry.
    """
    expanded = dict(new)
    for kind in ENTRIES:
        if isinstance(new.get(kind), Mapping):
            entries = [*(into.get(kind) or ()), *(shipped if kind == "models" else ())]
            expanded[kind] = _with_defaults(kind, new[kind], entries)
    if isinstance(expect := new.get("expect"), Mapping):
        expanded["expect"] = {p: wanted for p, wanted in expect.items() if wanted is not None}
        if isinstance(before := into.get("expect"), dict):
            into["expect"] = {p: w for p, w in before.items() if expect.get(p, w) is not None}
    names = {_name(config.get("train")) for config in (into, new)} - {None}
    if len(names) == 2:
        into["train"] = {key: value for key, value in into["train"].items() if key == "lr"}
    _merge(into, expanded)


def _name(train: Any) -> Any:
    """The name of the optimizer of an entry `train`; None if it has none, or one that the check refuses."""
    name = train.get("name") if isinstance(train, Mapping) else None
    return name if isinstance(name, str) else None


def _with_defaults(kind: str, entries: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Replace null by `default: false`, under each of the `known` names that its key matches."""
    names = list(dict.fromkeys(map(str, names)))
    set_here = {name: entry for name, entry in entries.items() if entry is not None}
    left_out: dict[str, Any] = {}
    for pattern in (str(name) for name, entry in entries.items() if entry is None):
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise ConfigError(
                f"{kind}.{pattern}: found null, which leaves out what an earlier file has; there are: "
                f"{', '.join(sorted(names)) or 'none'}"
            )
        left_out |= {name: {"default": False} for name in matching}
    return left_out | set_here


def _merge(into: dict, new: Mapping[str, Any]) -> None:
    """Merge as Snakemake does: mappings are merged key by key, other values are replaced."""
    for key, value in new.items():
        if isinstance(value, Mapping):
            # Use a new mapping, because a YAML alias is one object at several keys.
            inside = into[key] if isinstance(into.get(key), dict) else {}
            into[key] = inside
            _merge(inside, value)
        else:
            into[key] = value


def located(content: Mapping[str, Any], folder: Path, root: Path) -> dict[str, Any]:
    """Return a configuration whose paths are valid from the folder `root` of the Snakefile.

    `folder` contains the configuration file. A relative path is relative to `folder` if that file
    exists, else to `root`.
    """

    def absolute(value: Any, place: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: absolute(inner, (*place, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [absolute(item, place) for item in value]
        is_path = isinstance(value, str) and any(
            len(path) == len(place) and all(a in ("*", b) for a, b in zip(path, place, strict=True))
            for path in PATHS
        )
        return str(folder / value) if is_path and os.path.exists(folder / value) else value

    if folder.resolve() == root.resolve():
        return dict(content)
    return absolute(content, ())


def _add_files(declared: dict[str, Any], paths: str, root: Path, typed_in: Path) -> list[str]:
    """Declare a model for each file of a comma-separated list of paths and globs, and return the names of the models.

    A model has the name of its file; where another model of the configuration has that name, the kind of file is added to it
    (`resnet-onnx`). A relative path is relative to `typed_in`; `root` is the folder of the Snakefile. If the file is a
    model already, its options are kept. Raises ConfigError with all files that are missing, whose names are not valid,
    or of which two would have one name.
    """
    entries = declared["models"] = dict(declared.get("models") or {})
    file_of = _files_of_models(entries, root)
    names: dict[str, Path] = {}
    problems: list[str] = []
    matches: list[tuple[str, str]] = []
    for path in filter(None, (part.strip() for part in paths.split(","))):
        if glob.has_magic(path) and not os.path.exists(typed_in / path):
            matching = sorted(glob.glob(str(typed_in / Path(path).expanduser()), recursive=True))
            if not matching:
                problems.append(f"file={path}: matches no file")
        else:
            matching = [path]
        matches += [(path, match) for match in matching]
    for path, match in matches:
        file_path = Path(os.path.abspath(typed_in / Path(match).expanduser()))
        file, name = registry.model_file(file_path), registry.model_name(file_path)
        if not _same(file_of.get(name, file), file):
            name = registry.name_with_kind(file_path)
        if problem := _problem(file, name, names.get(name) or file_of.get(name, file)):
            problems.append(f"file={path}: {problem}")
        names[name] = file
        if name not in shipped_models(root):
            entries[name] = dict(entries.get(name) or {}) | {"file": str(file)}
    if problems:
        raise ConfigError("\n".join(problems))
    return [*names]


def _with_files(wanted: str, names: Sequence[str], entries: Mapping[str, Any]) -> str:
    """The selection `wanted` of models, "" for none: with the models of all given files, unless it names one of them."""
    patterns = [EntryName.read(part.strip()).entry for part in wanted.split(",")]
    variants = [v for name in names for v, *_ in models.variants(name, entries.get(name) or {})]
    if any(fnmatchcase(name, pattern) for name in (*names, *variants) for pattern in patterns):
        return wanted
    return ",".join(filter(None, (*names, wanted)))


def _files_of_models(entries: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """The files of all models of a configuration, also of variants, by name, without entries that only have options."""
    shipped = shipped_models(root)
    files: dict[str, Path] = {}
    for name in dict.fromkeys((*shipped, *entries)):
        entry = dict(entries.get(name) or {})
        if file := entry.get("file", shipped.get(name)):
            model_file = registry.model_file(root / Path(file).expanduser())
            files |= {variant: model_file for variant, *_ in models.variants(name, entry)} | {
                name: model_file
            }
    return files


def _same(file: Path, other: Path) -> bool:
    return file == other or (
        os.path.exists(file) and os.path.exists(other) and file.samefile(other)
    )


def _problem(file: Path, name: str, other: Path) -> str:
    """Return why a file cannot be the model `name`, whose present file is `other`; "" if it can."""
    if not os.path.isfile(file):
        return f"no file {file}; expected {registry.expected()}"
    if problem := registry.unknown(file):
        return problem
    if not _NAME.fullmatch(name):
        return (
            f"the model would be named {name!r}; expected letters, digits, '.', '_' and '-': rename "
            f"the file, or name its model: {_named('mine', file)}"
        )
    if not _same(other, file):
        return (
            f"{name} is the model of {other}, and its results would be replaced; rename the file, or "
            f"name its model: {_named(f'my-{name}', file)}"
        )
    return ""


def _named(name: str, file: Path) -> str:
    """Return the options that measure a file alone under another name."""
    return f"--config models='{{{name}: {{file: {file}}}}}' filter='^{name}$'"


def _quick_selections(declared: Mapping[str, Any], root: Path) -> dict[str, str]:
    """Return the selections of a quick run, as comma-separated lists, and leave out baselines of `declared`, in place.

    What stays are the CPU targets, the first lowering path of each kind of models, PyTorch's eager mode, and the baselines that are for some kinds of
    models by default. `declared`: a checked configuration. Raises ConfigError if there is no such target.
    """
    targets = _by_default(declared["targets"], {"backend": QUICK_BACKEND})
    if not targets:
        raise ConfigError(
            f"quick: found no target of backend {QUICK_BACKEND} that is in runs by default; name the "
            "targets: targets=…"
        )
    eager = _by_default(declared["baselines"], QUICK_RUNTIME)
    for name, entry in declared["baselines"].items() if eager else ():
        if name not in eager and not isinstance(entry.get("default"), list):
            entry["default"] = False
    paths = _first_of_each_kind(declared["frontends"], root)
    return {"targets": ",".join(targets)} | ({"frontends": ",".join(paths)} if paths else {})


def _first_of_each_kind(entries: Mapping[str, Mapping], root: Path) -> list[str]:
    """Return the names of the first lowering path by default for each kind of models (frontends/sources/source.py)."""
    first: dict[str, str] = {}
    for name in _by_default(entries, {}):
        exporter = plugins.readable(plugins.exporter, entries[name]["exporter"], root)
        for kind in exporter.sources if exporter else ():
            first.setdefault(kind, name)
    return list(dict.fromkeys(first.values()))


def _by_default(entries: Mapping[str, Mapping], wanted: Mapping[str, str]) -> list[str]:
    """Return the names of the entries that are in runs by default and have these values."""
    return [
        name
        for name, entry in entries.items()
        if entry.get("default", True) and wanted.items() <= entry.items()
    ]
