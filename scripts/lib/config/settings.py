"""The configuration: what the files declare, what the command line selects, checked whole.

Everything that can be wrong is found and said here, before any work starts.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from scripts.lib.config import schemas

SELECTABLE = ("models", "frontends", "targets", "baselines", "tests")
"""What a comma list on the command line narrows."""


class ConfigError(ValueError):
    """Everything that is wrong with a configuration, a line each."""


def load(config: Mapping[str, Any], files: Iterable[str | Path]) -> tuple[dict, dict[str, str]]:
    """The declared configuration, and the selections that took its place.

    `config` is Snakemake's: the `files` merged, then `--config` on top. There
    `models=resnet,bert` replaces the mapping of that name by a string; the mapping is read
    from the files again. `suites=timm/resnet*,hf/t5` adds to what the files declare. Raises
    ConfigError with every problem found.
    """
    declared = dict(config)
    selections = {key: declared[key] for key in SELECTABLE if isinstance(declared.get(key), str)}
    further = declared.get("suites")
    further = further if isinstance(further, str) else None
    if selections or further or any(declared.get(key) is None for key in SELECTABLE):
        original: dict = {}
        for file in files:
            _merge(original, yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {})
        for key in SELECTABLE:
            if key in selections or declared.get(key) is None:
                declared[key] = original.get(key)
        if further:
            named = filter(None, (part.strip() for part in further.split(",")))
            declared["suites"] = [*(original.get("suites") or []), *named]
    declared = {
        key: {} if value is None else value
        for key, value in declared.items()
        if value is not None or key not in ("suites", "tests", "filter", "exclude")
    }
    for key in ("filter", "exclude"):
        # Snakemake reads `filter=18` as a number.
        if isinstance(declared.get(key), int | float):
            declared[key] = str(declared[key])
    check(declared)
    return declared, selections


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigError naming, for each problem, the key, what was found and what is allowed."""
    validator = jsonschema.Draft202012Validator(schemas.read("config"))
    problems = sorted(validator.iter_errors(config), key=lambda e: [str(p) for p in e.path])
    if problems:
        # A mapping that lacks several keys is reported once for each: say it once.
        raise ConfigError("\n".join(dict.fromkeys(_say(problem) for problem in problems)))


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

    Searched for, not matched whole, and whatever the case: as `--filter` and `--exclude` of
    PyTorch's benchmark runners. Raises ConfigError for a wrong expression or where none is left.
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
    """`unknown model 'resnt'; did you mean 'resnet'?`, or what there is."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"


def _merge(into: dict, new: Mapping[str, Any]) -> None:
    """Merge as Snakemake does: mappings key by key, anything else replaced."""
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _say(problem: jsonschema.ValidationError) -> str:
    where = ".".join(str(part) for part in problem.absolute_path)
    # YAML has values that JSON lacks: dates, keys like `on` (true).
    found = json.dumps(problem.instance, default=str)
    found = found if len(found) <= 80 else found[:77] + "..."
    wanted: Any = problem.validator_value  # what the schema has under that keyword
    match problem.validator:
        case "additionalProperties" if isinstance(problem.instance, dict):
            return _unknown_keys(where, problem.instance, problem.schema)
        case "required" if isinstance(problem.instance, dict):
            missing = [key for key in wanted if key not in problem.instance]
            return f"{where or 'config'}: missing {', '.join(missing)}"
        case "enum":
            names = [str(value) for value in wanted]
            near = difflib.get_close_matches(str(problem.instance), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            allowed = f"one of {', '.join(names)}{hint}"
        case "type":
            allowed = (
                " or ".join(wanted) if isinstance(wanted, list) else f"a value of type {wanted}"
            )
        case "oneOf":
            allowed = " or ".join(_alternative(option) for option in wanted)
        case "pattern":
            allowed = f"text that matches {wanted}"
        case _:
            return f"{where or 'config'}: found {found}: {problem.message}"
    return f"{where or 'config'}: found {found}, allowed is {allowed}"


def _unknown_keys(where: str, instance: Mapping[str, Any], schema: object) -> str:
    known = list(schema.get("properties", {})) if isinstance(schema, Mapping) else []
    return "\n".join(
        f"{_join(where, key)}: {unknown('key', key, known)}"
        + (f" (allowed: {', '.join(known)})" if known else "")
        for key in instance
        if key not in known
    )


def _alternative(option: Mapping[str, Any]) -> str:
    if "$ref" in option:
        return f"a {option['$ref'].rsplit('/', 1)[-1]}"
    if "items" in option:
        return f"a list of {_alternative(option['items']).removeprefix('a ')}"
    return f"a mapping with {', '.join(option.get('properties', {}))}"


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else str(key)
