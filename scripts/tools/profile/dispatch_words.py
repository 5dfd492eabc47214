"""What `vmfbench why` says of the code of a dispatch: what the compiler has chosen, and the mix of instructions of its inner loop. `code`: what
scripts.tools.profile.read_code writes of it, {} if it is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NOTABLE = 0.05
"""From this share of the instructions of a loop on, those on the stack, of one value, and the shuffles are named."""
_PIPELINE = re.compile(r"pipeline = (?:#\w+\.\w+<)?(?P<name>\w+)")
_SIZES = re.compile(r"(?P<name>\w+) = (?P<sizes>\[[\d, \[\]]*\])")


def chosen(code: Mapping[str, Any]) -> str:
    """`DoubleTilingExpert, tiles 8×32×0, vectors 8×16×16, data-tiled, iree_uk_mmt4d`."""
    pipelines = (match["name"] for text in code["tiling"] if (match := _PIPELINE.search(text)))
    configs = [dict(_SIZES.findall(text)) for text in code["tiling"]]
    root = next((each for each in configs if "distribution" in each or "tile_sizes" in each), {})
    words = [next(pipelines, "no pipeline")]
    if tiles := root.get("distribution") or root.get("tile_sizes"):
        levels = (re.findall(r"\d+", level) for level in tiles.split("], ["))
        words.append(f"tiles {' / '.join(map('×'.join, levels))}")
    vectors = [
        re.findall(r"\d+", sizes) for name, sizes in root.items() if name.startswith("vector_")
    ]
    if vectors:
        words.append(
            f"vectors {'×'.join(max(each, key=int) for each in zip(*vectors, strict=False))}"
        )
    return ", ".join([*words, *["data-tiled"] * code["data_tiled"], *code["microkernels"]])


def inner_loop(code: Mapping[str, Any]) -> str:
    """`512-bit, 100% FMA`, `one value at a time, 50% FMA, 12% on the stack`; "" if there is none."""
    loop = code.get("loop")
    if not loop:
        return ""
    bits, computing = loop["bits"], sum(loop["arithmetic"].values())
    words = [f"{bits}-bit" if bits > 64 else "one value at a time" if bits else "no vectors"]
    words.append(f"{loop['fused'] / computing:.0%} FMA" if computing else "no arithmetic")
    for name, said in (("stack", "on the stack"), ("single", "loads of one value"), ("shuffles", "shuffles")):  # fmt: skip
        if (share := loop[name] / max(1, loop["instructions"])) >= NOTABLE:
            words.append(f"{share:.0%} {said}")
    words += [counted(loop["gathers"], "gather")] * bool(loop["gathers"])
    words += [f"calls {', '.join(loop['calls'])}"] * bool(loop["calls"])
    return ", ".join(words)


def counted(number: int, name: str, plural: str = "s") -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {name}{plural * (number != 1)}"
