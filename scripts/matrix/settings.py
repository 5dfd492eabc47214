"""Reads the configuration, files and command line, and checks it.

All errors that can be found without running a stage are reported here, before any work starts.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from scripts.matrix import one_line, overlay, reading
from scripts.matrix.reading import ConfigError
from scripts.torch_model import source

SELECTABLE = ("models", "frontends", "targets", "baselines", "tests", "kernels", "toolchains")
"""Keys that a comma-separated list on the command line selects from."""
TEXTS = ("suites", "filter", "exclude", "retry")
"""Other keys whose value on the command line is text. An empty text counts as not given."""
NAMED = ("file", "stop_on")
"""The same, but an empty text is an error."""
WITH_OPTIONS = ("models", "suites", "frontends", "baselines")
"""Keys whose entries have options of which only models, exporters or runtimes know the types."""


class Asked(Protocol):
    """The part of the command line about the configuration: Snakemake's ConfigSettings."""

    config: Mapping[str, Any] | None
    configfiles: Sequence[Path]
    replace_workflow_config: bool


def read(
    asked: Asked, own: str | Path, typed_in: Path | None = None
) -> tuple[dict, dict[str, str]]:
    """Return the configuration of a run; see `load`.

    `own`: the workflow's file, next to the Snakefile. The files of `--configfile` are merged over
    it, or replace it (`--replace-workflow-config`).
    """
    further = list(asked.configfiles or ())
    replaced = asked.replace_workflow_config and (further or asked.config)
    if replaced or (further and not Path(own).exists()):
        return load(asked.config or {}, further, Path(own).parent, typed_in)
    return load(asked.config or {}, [own, *further], Path(own).parent, typed_in)


def load(
    config: Mapping[str, Any],
    files: Iterable[str | Path],
    root: Path = Path(),
    typed_in: Path | None = None,
) -> tuple[dict, dict[str, str]]:
    """Return the declared configuration, and the selections of the command line.

    `config`: the values of `--config`, as Snakemake parses them. Each of the `files` is merged over
    the files before it (overlay.merge), and `config` over all. In `config`, `models=resnet,bert` is
    not a mapping but selects models that the files declare, `suites=timm/resnet*,hf/t5` adds to
    their suites, and `file=mine.py` adds a model and selects it. `root`: the folder of the
    Snakefile. `typed_in`: the folder in which the command was typed, if it is another. Raises
    ConfigError with all problems found.
    """
    shipped = source.shipped(root)
    declared: dict[str, Any] = {}
    for file in files:
        overlay.merge(
            declared, overlay.located(reading.read(file), Path(file).parent, root), shipped
        )
    asked = dict(config)
    if empty := [key for key, value in asked.items() if value is None and key not in TEXTS]:
        raise ConfigError("\n".join(map(_empty, empty)))
    for key in (*SELECTABLE, *TEXTS, *NAMED):  # Snakemake reads `models=18` as a number
        if isinstance(asked.get(key), bool | int | float):
            asked[key] = str(asked[key])
    selections = {key: asked.pop(key) for key in SELECTABLE if isinstance(asked.get(key), str)}
    further = asked.pop("suites") if isinstance(asked.get("suites"), str) else ""
    asked = {
        key: _nested(value, reading.scalar if key in WITH_OPTIONS else _null)
        for key, value in asked.items()
    }
    asked = overlay.located(asked, typed_in or root, root)
    if asked.get("quick", declared.get("quick")) is True:
        overlay.merge(declared, {"measure": one_line.QUICK_MEASURE})
    overlay.merge(declared, asked, shipped)
    declared = {
        key: {} if value is None else value
        for key, value in declared.items()
        if value is not None or key not in (*TEXTS, "tests")
    }
    if named := [name for part in further.split(",") if (name := part.strip())]:
        declared["suites"] = [*(declared.get("suites") or []), *named]
    declared = check(declared)
    if paths := declared.get("file"):
        alone = one_line.add_files(declared, paths, root, typed_in or root)
        selections.setdefault("models", ",".join(alone))
    if declared.get("quick"):
        selections = one_line.quick_selections(declared) | selections
    return declared, selections


def check(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with texts of the command line as numbers and booleans where these are wanted.

    Raises ConfigError naming, for each problem, the key, what was found and what is allowed.
    """
    # Here, because the aggregation under --sdm conda has no pydantic.
    from scripts.matrix import sections

    return sections.check(config)


def _nested(value: Any, read: Callable[[str], Any], inside: bool = False) -> Any:
    """A value of `--config` with the texts in its mappings and lists read; Snakemake leaves these as they are typed."""
    match value:
        case dict():
            return {key: _nested(inner, read, True) for key, inner in value.items()}
        case list():
            return [_nested(item, read, True) for item in value]
    return read(value) if inside and isinstance(value, str) else value


def _null(text: str) -> str | None:
    return None if text == "null" else text


def _empty(key: str) -> str:
    """What is wrong with `--config <key>=`."""
    if key in SELECTABLE:
        return f"{key}: found nothing after `{key}=`; name some, or leave `{key}=` out for all"
    return f"{key}: found nothing after `{key}=`; give its value, or leave `{key}=` out"


def select(kind: str, known: Sequence[str], wanted: str | None) -> list[str]:
    """The names that a comma list of names and globs selects, in the order declared.

    `wanted` None selects all. Raises ConfigError for a name or glob that matches nothing,
    and for a selection of nothing.
    """
    if wanted is None:
        return list(known)
    chosen: set[str] = set()
    for pattern in filter(None, (part.strip() for part in wanted.split(","))):
        matched = fnmatch.filter(known, pattern)
        if not matched:
            raise ConfigError(unknown(kind, pattern, known))
        chosen.update(matched)
    if not chosen:
        raise ConfigError(f"no {kind} selected by {wanted!r}; leave the key out to select all")
    return [name for name in known if name in chosen]


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


def _regex(pattern: str) -> re.Pattern:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"filter/exclude: {pattern!r} is no regular expression: {error}"
        ) from error


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """`unknown model 'resnt'; did you mean 'resnet'?`, or a list of the known names."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"
