"""The models of a configuration: files of models/, entries of their own, and suites, each in its variants.

A suite is a model file of models/suites/ with an option `name`; its models are named `<suite>/<name>`. Its names are in a data
file, because the driver, which expands globs, does not have its packages. Named lists of models are data files too.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import fnmatch
import functools
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scripts.config import reading
from scripts.config.choices import DTYPES, RENAMED, SUITE_NAMES
from scripts.config.entries import DYNAMIC, Model, variants_of_sizes
from scripts.config.reading import ConfigError
from scripts.core import checkout, python_source
from scripts.core.dimensions import Sizes
from scripts.frontends.sources.registry import model_file, source_of, unknown
from scripts.frontends.sources.source import BRACES, has_braces
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError
from scripts.frontends.torch_model.source import shipped

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
    default = _torchbench_batch_size(model, root) or facts.batch_size
    return dataclasses.replace(model, default_batch_size=default)


def _torchbench_batch_size(model: Model, root: Path) -> int | None:
    """The batch size of a model of TorchBench for evaluation on a CPU, read without importing the model: that
    of its metadata for the device `cpu`, else DEFAULT_EVAL_BSIZE of its class; None if neither is a
    plain number, and for other models. Raises BrokenModelFile if one of its files cannot be read."""
    if model.suite != TORCHBENCH:
        return None
    options = model.options
    folder = root / Path(options["path"]).expanduser() / MODELS / options["name"]
    metadata = folder / "metadata.yaml"
    try:
        text = metadata.read_text(encoding="utf-8") if metadata.is_file() else ""
        told = yaml.load(text, Loader=reading.BoundedLoader)
        cpu = ((told or {}).get("devices") or {}).get("cpu") or {}
        if isinstance(size := cpu.get("eval_batch_size"), int):
            return size
        code = ast.parse((folder / "__init__.py").read_bytes())
    except (OSError, SyntaxError, ValueError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise BrokenModelFile(f"{folder}: its batch size cannot be read ({text})") from error
    for node in ast.walk(code):
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=int(size))):
                if any(isinstance(t, ast.Name) and t.id == "DEFAULT_EVAL_BSIZE" for t in targets):
                    return size
    return None


def with_torchbench_options(model: Model, **options: Any) -> Model:
    """A model of TorchBench with these options too; another model as it is."""
    if model.suite != TORCHBENCH:
        return model
    return dataclasses.replace(model, options=model.options | options)


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
    path = str(root / Path(model.options.get("path", "")).expanduser())
    model = with_torchbench_options(model, path=path)
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
    choices = {"dtype": DTYPES, "phase": PHASES}
    for model in declared:
        pattern = re.escape(model.family)
        for axis, prefix in AXES.items():
            if axis in model.options:
                allowed = map(re.escape, choices[axis]) if axis in choices else ("[0-9]+",)
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


FOLDER = Path("models/suites")
TORCHBENCH = "torchbench"
"""The suite whose models are in a checkout."""
KERNELS = "kernels"
"""The suite whose entries the feature of this name reads."""
SUITES = ("timm", "hf", "torchvision", TORCHBENCH)
MODELS = "torchbenchmark/models"
"""The folder of a torchbenchmark checkout with one folder per model."""


class SuiteError(ValueError):
    """Errors in the entries of `suites:`, one line each."""


def is_kernel(entry: str | Mapping[str, Any]) -> bool:
    """Whether an entry of `suites:` is of a kernel: `kernels/<name>`."""
    name = entry if isinstance(entry, str) else next(iter(entry))
    return str(name).partition("/")[0] == KERNELS


@dataclass(frozen=True)
class Names:
    """The names of a suite: those that globs can match (`globbed`), and those that match only in full
    (`exact`)."""

    source: str
    globbed: tuple[str, ...]
    exact: frozenset[str]


@dataclass
class Entry:
    """A model of a suite and its options."""

    suite: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The entry as written in the configuration."""
        return f"{self.suite}/{self.name}"

    @property
    def cell(self) -> str:
        """The name in files and rows: `timm-resnet18`; a hub id has no owner there."""
        plain = re.sub(r"^[A-Za-z0-9_-]+:(?=.*/)", "", self.name)  # hf-hub:owner/name
        if "/" in plain:
            plain = plain[plain.index("/") + 1 :]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.suite}-{plain}").rstrip("-")

    @property
    def file(self) -> str:
        return f"{FOLDER}/{self.suite}.py"


def suite_entries(
    declared: Iterable[str | Mapping[str, Any]], root: Path, checkout: str | None = None
) -> list[Entry]:
    """The models that `suites:` of a configuration names, in order, each once.

    A later mention adds its options to those of an earlier one: a glob, then its exceptions.
    `checkout`: the path of the torchbench suite's code. Raises SuiteError with every problem.
    """
    problems: list[str] = []
    entries: dict[str, Entry] = {}
    for item in declared:
        for pattern, options in ({item: None} if isinstance(item, str) else item).items():
            try:
                for entry in _expanded(str(pattern), options or {}, root, checkout):
                    first = entries.setdefault(entry.where, entry)
                    first.options |= entry.options
            except SuiteError as error:
                problems.append(f"suites.{pattern}: {error}")
    cells: dict[str, str] = {}
    for entry in entries.values():
        other = cells.setdefault(entry.cell, entry.where)
        if other != entry.where:
            problems.append(
                f"suites.{entry.where}: its rows would be named {entry.cell}, as those of {other}; "
                "leave one of them out"
            )
    if problems:
        raise SuiteError("\n".join(problems))
    return list(entries.values())


def _expanded(
    pattern: str, options: dict[str, Any], root: Path, checkout: str | None
) -> Iterator[Entry]:
    """The models of one pattern: those of a list, those of a glob, or the one with that name."""
    if "file" in options:
        raise SuiteError("a model of a suite has no file of its own; that is an entry of models")
    if "default" in options:
        raise SuiteError("a model of a suite has no `default`; leave its name out of `suites`")
    suite, slash, name = pattern.partition("/")
    if not slash:
        chosen = [
            (model, line_options | options) for model, line_options in read_list(pattern, root)
        ]
    elif suite not in SUITES:
        raise SuiteError(_unknown("suite", suite, SUITES, "config.yaml takes"))
    else:
        names = suite_names(suite, root, checkout)
        chosen = [(f"{suite}/{match}", options) for match in _matches(suite, name, names, root)]
    for model, model_options in chosen:
        suite, _, name = model.partition("/")
        path = {"path": checkout} if suite == TORCHBENCH else {}
        yield Entry(suite, name, path | model_options)


def _matches(suite: str, name: str, names: Names, root: Path) -> list[str]:
    """The names that a pattern matches. An exact name that no list can contain is returned unchanged."""
    if any(c in name for c in "*?["):
        matches = [n for n in names.globbed if fnmatch.fnmatchcase(n, name)]
        if not matches:
            raise SuiteError(f"matches none of the {len(names.globbed)} names in {names.source}")
        # Tasks have to be named: `hf/bert*` matches only types.
        return matches if ":" in name else [n for n in matches if ":" not in n]
    if name in names.globbed or name in names.exact or _is_elsewhere(suite, name, names):
        return [name]
    # A model of a list was in the package at some time.
    lists = (path.stem for path in (root / FOLDER).glob("*.txt"))
    if any(model == f"{suite}/{name}" for listed in lists for model, _ in read_list(listed, root)):
        return [name]
    raise SuiteError(_unknown("model", name, {*names.globbed, *names.exact}, names.source))


def _is_elsewhere(suite: str, name: str, names: Names) -> bool:
    """Whether only the package or a hub can know a name."""
    if suite == "timm":
        base = name.partition(".")[0]
        return ":" in name or ("." in name and (base in names.globbed or base in names.exact))
    return suite == "hf" and "/" in name


def suite_names(suite: str, root: Path, checkout: str | None = None) -> Names:
    """The names of a suite. Raises SuiteError if they cannot be read."""
    if suite == TORCHBENCH:
        return _folders(root, checkout)
    return _names(suite, root / SUITE_NAMES / f"{suite}.txt")


@functools.cache
def _names(suite: str, path: Path) -> Names:
    globbed, exact = [], set()
    for line in _lines(path):
        if suite == "hf":
            name, *tasks = line.split()
            pairs = [task.partition("=") for task in tasks]
            globbed += [name, *(f"{name}:{task}" for task, _, _ in pairs)]
            exact |= {cls for _, _, cls in pairs}
        elif RENAMED in line:
            exact.add(line.partition(RENAMED)[0])
        else:
            globbed.append(line)
    return Names(f"{SUITE_NAMES / path.name}", tuple(globbed), frozenset(exact))


def _folders(root: Path, checkout: str | None) -> Names:
    if not checkout:
        raise SuiteError("needs the checkout that the models are in; set torchbench.path")
    folder = (root / Path(checkout).expanduser()) / MODELS
    if not os.path.isdir(folder):
        raise SuiteError(
            f"torchbench.path: {checkout} has no folder {MODELS}; expected a checkout of torchbenchmark"
        )
    models = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    return Names(f"{checkout}/{MODELS}", tuple(models), frozenset())


def read_list(name: str, root: Path) -> list[tuple[str, dict[str, Any]]]:
    """(`<suite>/<name>`, options) of a list, models/suites/<name>.txt: one model per line, with its
    options after it as YAML (`hf/mamba {seq_len: 16}`).

    Raises SuiteError if there is no such list, or if a line is not valid.
    """
    path = root / FOLDER / f"{name}.txt"
    if not os.path.isfile(path):
        lists = sorted(p.stem for p in (root / FOLDER).glob("*.txt"))
        raise SuiteError(_unknown("list", name, lists, f"{FOLDER} (a model is <suite>/<name>)"))
    listed = []
    for line in _lines(path):
        model, _, text = line.partition(" ")
        options = yaml.safe_load(text) if text.strip() else {}
        if model.partition("/")[0] not in SUITES or not isinstance(options, dict):
            raise SuiteError(
                f"{path.name}: found {line!r}; expected <suite>/<name>, options after it as a mapping"
            )
        listed.append((model, options))
    return listed


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _unknown(kind: str, name: str, names: Iterable[str], source: str) -> str:
    """Like reading.unknown, for sets of names that are too large to print."""
    names = sorted(names)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"unknown {kind} {name!r}; did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(names) if len(names) <= 10 else f"{len(names)} names"
    return f"unknown {kind} {name!r}; there are: {shown or 'none'} ({source})"
