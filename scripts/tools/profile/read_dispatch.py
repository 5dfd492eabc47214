"""Compile one dispatch of a program by itself, and write its code, and its IR after each pass of the compiler.

`vmfbench why --dispatch NAME --passes` and `--against CELL` run it with the request by which the cell was compiled.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, exits, requests
from scripts.core.requests import Folders
from scripts.iree import assembly
from scripts.iree.compile_options import SERIAL, CompileRequest
from scripts.iree.tools import compile_program
from scripts.tools.profile.profile_compile import EXPORT, LAST_BEFORE_CODE, RUN_OTHERS
from scripts.tools.profile.read_code import described, dumps

FILE, PASSES, ASSEMBLY, SOURCE = "dispatch.json", "passes", "assembly.txt", "executable.mlir"
_PLACE = re.compile(r"^.*?(?:dispatch|encoding)_(?P<number>\d+)_?(?P<computes>.+)$")
_INSIDE = "*/*/*/*/**/*.mlir"
"""In the folders of the module, its executable, the variant for a target, and the module in that."""
_PRINTED = re.compile(r"(?P<order>\d+(?:_\d+)*)_(?P<name>.+)\.mlir")


@dataclass(frozen=True, kw_only=True)
class DispatchRequest(CompileRequest):
    """`function`: a dispatch of this program, or of the same one for another target or by another compiler."""

    function: str


def read_dispatch(args: DispatchRequest, folders: Folders) -> None:
    """Write FILE, ASSEMBLY, a file for each pass in PASSES, and SOURCE, of which `iree-compile --compile-mode=hal-executable` makes the code. Exits if the program has no such dispatch."""
    flags = args.compiler_flags()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="dispatch-") as folder:
        sources, code, executables, tree = (Path(folder, name) for name in ("sources", "code", "configured", "tree"))  # fmt: skip
        upto = f"--compile-to={LAST_BEFORE_CODE}"
        dumped = f"--iree-hal-dump-executable-sources-to={sources}"
        compile_program(args.program, [*flags, upto, dumped])
        paths = {name: path for path in sources.glob("*.mlir") for name in EXPORT.findall(path.read_text(encoding="utf-8"))}  # fmt: skip
        function = counterpart(args.function, paths)
        if not function:
            exits.fail(f"{args.program} has no dispatch like {args.function}; it has: {', '.join(sorted(paths))}")  # fmt: skip
        passes = (SERIAL, "--mlir-print-ir-after-all", f"--mlir-print-ir-tree-dir={tree}")
        alone = ("--compile-mode=hal-executable", *dumps(code, executables), *passes)
        compile_program(paths[function], [*(flag for flag in flags if flag != SERIAL), *alone])
        shutil.copyfile(paths[function], folders.results / SOURCE)
        [about] = (known for known in described(code, executables) if known["name"] == function)
        text = "".join(f"{line}\n" for line in assembly.text_of(code, function))
        (folders.results / ASSEMBLY).write_text(text, encoding="utf-8")
        changes = [*_passes(tree, folders.results / PASSES)]
        atomic.write_json(folders.results / FILE, {"code": about, "passes": changes})


def counterpart(function: str, names: Mapping[str, Any]) -> str:
    """The function of this name, else the one that computes the same by its name and has the nearest number; "" if there is none."""
    if function in names or not (own := _PLACE.match(function)):
        return function if function in names else ""
    places = ((match, name) for name in names if (match := _PLACE.match(name)) and match["computes"] == own["computes"])  # fmt: skip
    return min(places, key=lambda each: abs(int(each[0]["number"]) - int(own["number"])), default=(None, ""))[1]  # fmt: skip


def _passes(tree: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Move the IR that --mlir-print-ir-tree-dir has written of what is inside an executable to files with the number and the name of the pass; yield each: `file`, `name` and
    whether it has `changed` what it ran on. The numbers before a pass are those of the last passes that ran on what contains its operation."""
    folder.mkdir(exist_ok=True)
    printed = ((match, path) for path in tree.glob(_INSIDE) if (match := _PRINTED.match(path.name)))
    before: dict[Path, str] = {}
    ordered = sorted(printed, key=lambda each: [*map(int, each[0]["order"].split("_"))])
    for number, (match, path) in enumerate(ordered, start=1):
        text = path.read_text(encoding="utf-8")
        file = folder / f"{number:03}-{match['name']}.mlir"
        file.write_text(text, encoding="utf-8")
        head, _, ir = text.partition("\n")
        runs_others = any(f"{name}:" in head for name in RUN_OTHERS)
        changed = before.get(path.parent) != ir and not runs_others
        before[path.parent] = ir
        yield {"file": file.name, "name": match["name"], "changed": changed}


if __name__ == "__main__":
    requests.run(DispatchRequest, read_dispatch)
