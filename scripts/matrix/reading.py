"""Reads configuration files, in which a mistake is an error that names its line; and selections of names.

This is PyYAML's safe loader with two differences: a key that occurs twice in a mapping is an error (it
would replace the first one silently), and `1e-2` is a number, as in YAML 1.2 (in YAML 1.1 it is text,
because it has no decimal point).
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

MERGE = "tag:yaml.org,2002:merge"
FLOAT = "tag:yaml.org,2002:float"


class ConfigError(ValueError):
    """All errors of a configuration, one per line."""


class Loader(yaml.SafeLoader):
    """PyYAML's loader, which also reads the floats of YAML 1.2 (https://yaml.org/spec/1.2.2, 10.3.2) and collects the
    errors about keys that a mapping has twice, by line."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[tuple[int, str]] = []
        self._place: list[str] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; `index`: its key's node or its number in a list, None for the whole and for keys."""
        self._place.append("" if index is None else f"{getattr(index, 'value', index)}.")
        node = super().compose_node(parent, index)
        self._place.pop()
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping, and look for keys that it has twice."""
        node = super().compose_mapping_node(anchor)
        first: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            # `<<` merges a mapping; only scalars are keys of a configuration.
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            line = key.start_mark.line + 1
            if before := first.get((key.tag, key.value)):
                said = (
                    f"line {line}: found the key {''.join(self._place)}{key.value} again, it is in line "
                    f"{before} already; expected each key once: merge the two, or remove one"
                )
                self.repeated.append((line, said))
            first.setdefault((key.tag, key.value), line)
        return node


# After those of PyYAML, which read integers first.
Loader.add_implicit_resolver(
    FLOAT,
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)


def read(path: str | Path) -> dict[str, Any]:
    """The mapping that a YAML or JSON file holds; an empty file is an empty mapping.

    Raises ConfigError, with the file and the lines, if it cannot be read, is not YAML, or has a key
    twice in one mapping.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = _load(text, path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_marked(error, path)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}, line {line}: {error.reason}") from error
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: {error}") from error  # a date such as 2024-13-01
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: found a {type(content).__name__}, expected `key: value` lines")
    return content


def scalar(text: str) -> Any:
    """The value of a plain scalar as a configuration file would read it: `"2"` is 2."""
    node = yaml.ScalarNode(Loader("").resolve(yaml.ScalarNode, text, (True, False)), text)
    try:
        return Loader("").construct_document(node)
    except (yaml.YAMLError, ValueError):
        return text


def _load(text: str, path: str | Path) -> Any:
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        if loader.repeated:
            raise ConfigError("\n".join(f"{path}: {said}" for _, said in sorted(loader.repeated)))
        return None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()


def _marked(error: yaml.MarkedYAMLError, path: str | Path) -> str:
    """PyYAML's message with the file and the line to which it refers."""
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    said = "; ".join(part for part in (error.problem, error.context, error.note) if part)
    return f"{path}{where}: no YAML: {said}"


def not_among(where: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield an error message for each of the names that is not among the known ones. `where`: the key."""
    known = list(known)
    for name in names:
        if name not in known:
            yield f"{where}: found {name!r}, allowed is one of {', '.join(known)}"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """`unknown model 'resnt'; did you mean 'resnet'?`, or a list of the known names."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"


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
