"""`vmfbench why CELL --dispatch NAME`: what the compiler has chosen for a dispatch, its inner loop, its IR after each pass, and what differs from the same dispatch
of another cell."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from scripts.config.cell import Cell, Kind
from scripts.core import atomic
from scripts.iree.compile_options import CompileRequest
from scripts.results.page_sections import Section
from scripts.results.wording import milliseconds
from scripts.run.recorded import NoCase, recorded
from scripts.tools.profile.account import Account, Dispatched, some
from scripts.tools.profile.profile_files import NoProfile, Profiles, code_cell, why_none
from scripts.tools.profile.read_dispatch import ASSEMBLY, FILE, PASSES, SOURCE

SHOWN = 30
"""Lines of a difference that are printed."""
NOTABLE = 0.05
"""From this share of the instructions of a loop on, those on the stack, of one value, and the shuffles are named."""
_PIPELINE = re.compile(r"pipeline = (?:#\w+\.\w+<)?(?P<name>\w+)")
_SIZES = re.compile(r"(?P<name>\w+) = (?P<sizes>\[[\d, \[\]]*\])")
_NUMBER = re.compile(r"(dispatch|encoding)_\d+")


def find(name: str, names: Collection[str]) -> str:
    """The dispatch of this name, or the only one whose name begins with it, as `main_dispatch_8` does. Raises ValueError with near names."""
    begun = [each for each in names if each.startswith(f"{name}_")]
    if name in names or len(begun) == 1:
        return name if name in names else begun[0]
    near = begun or [each for each in names if name in each] or difflib.get_close_matches(name, names, 5, 0.4)  # fmt: skip
    raise ValueError(f"there is no dispatch {name!r}; {'near' if near else 'there'} are: {', '.join(near[:5] or sorted(names)[:5])}")  # fmt: skip


def sections(results: Path, profiles: Profiles, account: Account, name: str) -> list[Section]:
    """What is known of a dispatch of a cell from the files of a run. Raises ValueError, and NoProfile if there is no code of the cell."""
    known = {each.function: each for each in account.dispatches}
    dispatch = known[find(name, known)]
    cell, threads = profiles.cell, profiles.iree["threads"]
    if not (code := dispatch.code):
        raise NoProfile(why_none(results.parent, cell, code_cell(cell), "read_code", "profile", "code"))  # fmt: skip
    loop = code["loop"]
    at = f"{counted(loop['depth'], 'loop')} deep" if loop["depth"] else "no loop"
    counts = [f"{count} × {bits} bits" for bits, count in loop["arithmetic"].items()]
    lines = [
        f"{cell}: {dispatch.function}: {milliseconds(dispatch.ms)} ms in {counted(dispatch.calls, 'call')}, {dispatch.share:.0%} of a call; {counted(dispatch.tiles, 'workgroup')}"
        + ("" if dispatch.busy is None else f", {dispatch.busy:.1f} of {threads} threads busy"),
        f"computes {some(dispatch.operators)} of {some(dispatch.modules)}",
        *_rates(dispatch),
        f"chosen: {chosen(code)}",
        *(f"  {text}" for text in code["tiling"]),
        f"inner loop: {inner_loop(code)}",
        f"  {loop['instructions']} instructions, {at}; arithmetic: {', '.join(counts) or 'none'}, {loop['fused']} of them FMA; "
        f"{loop['stack']} on the stack, {loop['single']} of one value, {loop['gathers']} gathers, {loop['shuffles']} shuffles",
    ]  # fmt: skip
    return [Section("", lines=lines), Section("", text="\n".join(loop["text"]))]


def _rates(dispatch: Dispatched) -> Iterator[str]:
    """What it works on, and how fast, beside the limit of the machine."""
    flop, moved, calls = dispatch.code["flop"], dispatch.code["bytes"], dispatch.calls
    if flop is None or moved is None or not dispatch.ms:
        return
    limit = "not measured" if dispatch.limit_ms is None else f"{milliseconds(dispatch.limit_ms)} ms"
    rates = f"{flop * calls / dispatch.ms / 1e6:,.1f} GFLOP/s, {moved * calls / dispatch.ms / 1e6:,.1f} GB/s"
    yield f"{flop / 1e6:,.3g} MFLOP and {moved / 1e6:,.3g} MB in a call: {rates}; limit {limit}"


@dataclass(frozen=True)
class Compiled:
    """A dispatch that was compiled by itself. `passes`: what read_dispatch says of each."""

    cell: str
    folder: Path
    code: dict[str, Any]
    passes: list[dict[str, Any]]

    def ir(self, place: int) -> str:
        """The IR after a pass, without the numbers of dispatches."""
        path = self.folder / PASSES / self.passes[place]["file"]
        text = path.read_text(encoding="utf-8").partition("\n")[2]
        return _NUMBER.sub(r"\1", text)


def compiled(results: Path, cell: str, function: str) -> Compiled:
    """Compile a dispatch of a cell by itself, with its files in a folder below bundles/. Raises NoCase, and ValueError if it is no cell."""
    module = Cell.parse(cell, Kind.IREE).to(Kind.MODULE)
    compilation = recorded(results.parent.absolute(), "compile", str(module))
    known = compilation.request.only(*(field.name for field in fields(CompileRequest)))
    folder = results.absolute() / "bundles" / function / cell.replace("/", "__")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if compilation.run("scripts.tools.profile.read_dispatch", {**known, "function": function}, folder):  # fmt: skip
        raise NoCase(f"{cell}: {function} was not compiled by itself; the messages above say why")
    said = atomic.read_json(folder / FILE)
    return Compiled(cell, folder, said["code"], said["passes"])


def passes(one: Compiled) -> Section:
    """The files with the IR before all passes, after each one that has changed it, and with the assembly."""
    files = [f"{PASSES}/{each['file']}" for each in one.passes if each["changed"]]
    return Section(f"IR after each pass that changed it, in {one.folder}", text="\n".join([SOURCE, *files, ASSEMBLY]))  # fmt: skip


def difference(one: Compiled, other: Compiled) -> list[Section]:
    """How a dispatch differs from that of another cell. The whole differences are files in the folder of the first one."""
    both = (one, other)
    lines = [f"{side.cell}: {chosen(side.code)}; inner loop: {inner_loop(side.code) or 'not of a CPU'}" for side in both]  # fmt: skip
    sections = [Section(f"{one.code['name']} and {other.code['name']}", lines=lines)]
    own, theirs = ([each["name"] for each in side.passes] for side in both)
    blocks = difflib.SequenceMatcher(None, own, theirs, autojunk=False).get_matching_blocks()
    places = ((a + step, b + step) for a, b, size in blocks for step in range(size))
    first = next(((a, b) for a, b in places if one.ir(a) != other.ir(b)), None)
    if first is None:
        sections.append(Section("", lines=["The IR after each pass is the same."]))
    else:
        title = f"First pass after which the IR differs: {own[first[0]]}"
        texts = [side.ir(at).splitlines() for side, at in zip(both, first, strict=True)]
        sections.append(_shown(title, one.folder / "ir.diff", both, *texts))
    texts = [(side.folder / ASSEMBLY).read_text(encoding="utf-8").splitlines() for side in both]
    return [*sections, _shown("Assembly", one.folder / "assembly.diff", both, *texts)]


def _shown(
    title: str, file: Path, of: Sequence[Compiled], before: Sequence[str], after: Sequence[str]
) -> Section:
    """The first lines of a difference, all of which is written to a file."""
    own, other = (side.cell for side in of)
    lines = [*difflib.unified_diff(before, after, own, other, lineterm="", n=2)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    more = [f"… {len(lines) - SHOWN} more lines: {file}"] if len(lines) > SHOWN else []
    return Section(title, text="\n".join([*lines[:SHOWN], *more]) or "the same")


def chosen(code: Mapping[str, Any]) -> str:
    """What the compiler has chosen for a dispatch, by what read_code says of it: `DoubleTilingExpert, tiles 8×32×0, vectors 8×16×16, data-tiled, iree_uk_mmt4d`."""
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
    """The mix of instructions of the inner loop: `512-bit, 100% FMA`, `one value at a time, 50% FMA, 12% on the stack`; "" if there is none."""
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
