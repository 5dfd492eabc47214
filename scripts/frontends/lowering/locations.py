"""Where each operation of a program comes from: the node of the captured graph, and its nn.Module.

A program is printed without locations, so that it stays small and readable. IREE gives every operation
that it parses the file and line of its text (`program.mlir:12:10`), and keeps that up to the dispatches.
So one file beside the program, locations.json, which says which node and module each line is of, is
enough to find the modules of a dispatch.

An exporter names the MLIR location of an operation after its node (`loc("addmm_3")`). Linking keeps these
locations, and `of_lines` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1
"""Version of locations.json; another one is not read."""


@dataclass(frozen=True)
class Origin:
    """A node of the captured graph. `operator`: `aten.addmm.default`. `module`: the path of its innermost
    module below the model (`encoder.layers.0`), "" for the model itself; None if it is not known."""

    node: str
    operator: str
    module: str | None


@dataclass(frozen=True)
class Origins:
    """The nodes of a captured graph by name, and the class of each module by its path."""

    nodes: Mapping[str, Origin]
    modules: Mapping[str, str]


UNKNOWN = Origins({}, {})


# A module that is called twice has a second entry `encoder.layers.0@1`.
_CALL = re.compile(r"@\d+$")
# A name in the text of a location: `"addmm_3"`. `"models/vit.py":12:0` is a file.
_NAME = re.compile(r'"(?P<name>(?:[^"\\]|\\.)*)"(?!:\d)')
_LINE = re.compile(r'":(?P<line>\d+):\d+')


def of_nodes(nodes: Iterable[Any], prefix: str) -> Origins:
    """The origins of the nodes of an FX graph that has the metadata of torch.export.

    `prefix`: what the paths of all modules begin with; it is left out, and so are modules outside it.
    """
    origins: dict[str, Origin] = {}
    classes: dict[str, str] = {}
    for node in nodes:
        if node.op != "call_function":
            continue
        innermost = None
        for path, kind in module_stack(node.meta.get("nn_module_stack")):
            if path != prefix.removesuffix(".") and not path.startswith(prefix):
                continue
            innermost = path.removeprefix(prefix.removesuffix(".")).removeprefix(".")
            classes[innermost] = kind
        origins[node.name] = Origin(node.name, str(node.target), innermost)
    return Origins(origins, classes)


def module_stack(stack: Mapping[str, tuple[str, Any]] | None) -> list[tuple[str, str]]:
    """(path, class name) of each module of an FX node's `nn_module_stack`, the outermost first."""
    modules = []
    for path, kind in (stack or {}).values():
        name = kind if isinstance(kind, str) else kind.__qualname__
        modules.append((_CALL.sub("", path), name.rsplit(".", 1)[-1]))
    return modules


def of_lines(linked: Any, parsed: Any) -> dict[int, str]:
    """The name of the node that each line of a program is of.

    `linked`: the program as an operation whose locations have the names of nodes. `parsed`: the same
    program as parsed from its text, which gives the lines. Raises ValueError if they are not the same.
    """
    names: dict[int, str] = {}
    for ours, theirs in zip(below(linked), below(parsed), strict=True):
        if ours.name != theirs.name:
            raise ValueError(f"the printed program has {theirs.name} in the place of {ours.name}")
        name = name_of(ours)
        line = _LINE.search(str(theirs.location))
        if name is not None and line:
            names.setdefault(int(line["line"]), name)
    return names


def name_of(operation: Any) -> str | None:
    """The name of the node of the captured graph in an operation's location; None if there is none."""
    name = _NAME.search(str(operation.location))
    return name["name"] if name else None


def below(operation: Any, inner_first: bool = False) -> list[Any]:
    """Every operation below one of MLIR's, in the order of the text, or each after those inside it."""
    operations = []
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                inside = below(op.operation, inner_first)
                operations += [*inside, op.operation] if inner_first else [op.operation, *inside]
    return operations


# Where an inlined function was called from.
_CALLER = re.compile(r' at "(?:[^"\\]|\\.)*":\d+:\d+')
_FILE_LINE = re.compile(r'"(?P<file>(?:[^"\\]|\\.)*)":(?P<line>\d+):\d+')


def lines_of(operations: Iterable[Any], files: Collection[str]) -> tuple[int, ...]:
    """The lines of the program that operations are of, each once, in order of their numbers."""
    numbers = {
        int(match["line"])
        for op in operations
        for match in _FILE_LINE.finditer(_CALLER.sub("", str(op.location)))
        if match["file"] in files
    }
    return tuple(sorted(numbers))


def to_json(lines: Mapping[int, str], origins: Origins) -> dict[str, Any]:
    """The contents of locations.json. Names without an origin are left out."""
    known = {line: name for line, name in lines.items() if name in origins.nodes}
    used = dict.fromkeys(known[line] for line in sorted(known))
    number = {name: place for place, name in enumerate(used)}
    nodes = [origins.nodes[name] for name in used]
    return {
        "format": FORMAT,
        "modules": dict(sorted(origins.modules.items())),
        "nodes": [[origin.node, origin.operator, origin.module] for origin in nodes],
        "lines": {str(line): number[known[line]] for line in sorted(known)},
    }


@dataclass(frozen=True)
class Locations:
    """locations.json, as read. `lines`: the node of each line of the program that has one."""

    lines: Mapping[int, Origin]
    modules: Mapping[str, str]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Locations:
        """Raises ValueError for another version of the format, KeyError or TypeError for other JSON."""
        if value["format"] != FORMAT:
            raise ValueError(f"locations of format {value['format']!r}, expected {FORMAT}")
        nodes = [Origin(*fields) for fields in value["nodes"]]
        lines = {int(line): nodes[place] for line, place in value["lines"].items()}
        return cls(lines, value["modules"])
