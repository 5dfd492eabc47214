"""The nn.Modules that the time of a dispatch or kernel belongs to, and which modules are shown as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

Node = Sequence
"""A node of the captured graph in a profile: [name, operator, module or None]."""

PRODUCTS = frozenset(
    {
        *("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "einsum"),
        *("convolution", "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_weight_int4pack_mm"),
    }
)
"""Operators of ATen that are products. What is fused with one takes little of the time."""

UNKNOWN = None


def base_name(operator: str) -> str:
    """`mm` of `aten.mm.default`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


def shares(nodes: Iterable[Node]) -> dict[str | None, float]:
    """The share of a dispatch's time that each module gets.

    If the dispatch computes products, their modules have equal shares. Otherwise it belongs to the module of its root, which is
    the first node.
    """
    nodes = list(nodes)
    products = [node for node in nodes if base_name(node[1]) in PRODUCTS]
    found = dict.fromkeys(node[2] for node in products or nodes[:1]) or {UNKNOWN: None}
    return dict.fromkeys(found, 1 / len(found))


_NUMBER = re.compile(r"\d+")


def patterns(paths: Iterable[str], kinds: Mapping[str, str]) -> dict[str, str]:
    """Names under which paths are shown: repeated layers have one, such as `encoder.layers.*.mlp`.

    Two modules are layers of the same kind if they have modules inside them, their names differ only in a number, and they
    and all modules below them have the same classes. `kinds`: the class of each module by path.
    """
    known = sorted({*kinds, *paths})
    inside = {
        path: tuple(
            (other.removeprefix(path), kinds.get(other))
            for other in known
            if other.startswith(f"{path}.")
        )
        for path in known
        if path
    }
    alike: dict[tuple, list[str]] = {}
    for path, below in inside.items():
        above, _, name = path.rpartition(".")
        if below and _NUMBER.search(name):
            key = (above, _NUMBER.sub("*", name), kinds.get(path), below)
            alike.setdefault(key, []).append(path)
    repeated = {path: key[1] for key, group in alike.items() if len(group) > 1 for path in group}
    return {path: _shown(path, repeated) for path in paths}


def _shown(path: str, repeated: Mapping[str, str]) -> str:
    parts, names = path.split("."), []
    for end in range(1, len(parts) + 1):
        names.append(repeated.get(".".join(parts[:end]), parts[end - 1]))
    return ".".join(names)
