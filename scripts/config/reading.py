"""Reads configuration files, in which a mistake is an error that names its line; and selections of names.

They are YAML 1.2 (https://yaml.org/spec/1.2.2, the core schema): `010` is 10, `1:30`, `yes` and `2024-01-01` are text. PyYAML reads
YAML 1.1, so its loader has other rules for scalars here. A key that occurs twice in a mapping is an error, because it
would replace the first one silently.
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
INT = "tag:yaml.org,2002:int"
MOST_NESTED = 100
MOST_VALUES = 1_000_000
"""Of a file, where an alias counts as the value that it refers to."""


class ConfigError(ValueError):
    """All errors of a configuration, one per line."""


class BoundedLoader(yaml.SafeLoader):
    """PyYAML's loader, which refuses what is nested so deeply that it would take long or exceed Python's stack."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        """Fetch a bracket. PyYAML takes minutes for many thousands of them."""
        if self.flow_level >= MOST_NESTED:
            raise yaml.scanner.ScannerError(None, None, f"found more than {MOST_NESTED} brackets inside each other", self.get_mark())  # fmt: skip
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; `index`: its key's node or its number in a list, None for the whole and for keys."""
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise yaml.composer.ComposerError(None, None, f"found values nested more than {MOST_NESTED} deep", self.peek_event().start_mark)  # fmt: skip
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value. Raises ConstructorError with its line if its text does not fit its type, as in `!!int a`."""
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise yaml.constructor.ConstructorError(None, None, f"found a value that does not fit its type: {error}", node.start_mark) from error  # fmt: skip


class Loader(BoundedLoader):
    """A loader of YAML 1.2, which collects the errors about keys that a mapping has twice, by line, and refuses aliases that
    contain themselves or expand to very much."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[tuple[int, str]] = []
        self._place: list[str] = []
        self._values: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, and count the values inside and their depth."""
        mark, is_alias = self.peek_event().start_mark, self.check_event(yaml.AliasEvent)
        self._place.append("" if index is None else f"{getattr(index, 'value', index)}.")
        node = super().compose_node(parent, index)
        self._place.pop()
        if id(node) in self._values:
            return node
        if is_alias:
            raise yaml.composer.ComposerError(None, None, "found an alias inside of what it stands for", mark)  # fmt: skip
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        counts, depths = zip((0, 0), *(self._values[id(part)] for part in inner), strict=True)
        self._values[id(node)] = count, depth = 1 + sum(counts), 1 + max(depths)
        if depth > MOST_NESTED or count > MOST_VALUES:
            raise yaml.composer.ComposerError(None, None, f"found {count:,} values, {depth} deep; expected at most {MOST_VALUES:,}, {MOST_NESTED} deep", mark)  # fmt: skip
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
                problem = (
                    f"line {line}: found the key {''.join(self._place)}{key.value} again, it is in line "
                    f"{before} already; expected each key once: merge the two, or remove one"
                )
                self.repeated.append((line, problem))
            first.setdefault((key.tag, key.value), line)
        return node

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """An integer: decimal, `0o17` or `0xff`."""
        text = self.construct_scalar(node)
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


Loader.yaml_implicit_resolvers = {}  # without those of YAML 1.1
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("merge", "<<", "<"),
):  # fmt: skip
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), list(_first))  # fmt: skip
Loader.add_constructor(INT, Loader.construct_integer)


def read(path: str | Path) -> dict[str, Any]:
    """The mapping that a YAML or JSON file holds; an empty file is an empty mapping.

    Raises ConfigError, with the file and the lines, if it cannot be read, is not YAML, or has a key
    twice in one mapping.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    content = parsed(data, path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: found a {type(content).__name__}, expected `key: value` lines")
    return content


def require_for_snakemake(path: str | Path) -> None:
    """Raise ConfigError, with the file and the lines, for a file that `read` refuses, or that Snakemake cannot read: it reads the
    files of --configfile first, as YAML 1.1, and ends with a traceback for a text that looks like a date and is none."""
    read(path)
    text = Path(path).read_text(encoding="utf-8")
    try:
        BoundedLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        problem = f"{_marked(error, path)}; Snakemake reads it as YAML 1.1: put the value in quotes"
        raise ConfigError(problem) from error


def parsed(data: bytes, name: str | Path) -> Any:
    """The value of a text of YAML or JSON. `name`: its file's, for errors. Raises ConfigError with the lines."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: found the byte 0x{data[error.start]:02x}, which is no UTF-8; save the file as UTF-8") from error  # fmt: skip
    try:
        return _load(text, name)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_marked(error, name)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}, line {line}: {error.reason}") from error


def scalar(text: str) -> Any:
    """The value of a plain scalar as a configuration file would read it: `"2"` is 2."""
    node = yaml.ScalarNode(Loader("").resolve(yaml.ScalarNode, text, (True, False)), text)
    try:
        return Loader("").construct_document(node)
    except yaml.YAMLError:
        return text


def _load(text: str, path: str | Path) -> Any:
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        if loader.repeated:
            raise ConfigError(
                "\n".join(f"{path}: {problem}" for _, problem in sorted(loader.repeated))
            )
        return None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()


def _marked(error: yaml.MarkedYAMLError, path: str | Path) -> str:
    """PyYAML's message with the file and the line to which it refers."""
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    message = "; ".join(part for part in (error.problem, error.context, error.note) if part)
    return f"{path}{where}: no YAML: {message}"


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
