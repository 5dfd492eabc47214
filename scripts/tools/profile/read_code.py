"""Write what a target's code of a program is: its host program, and of each dispatch the assembly as digests, its innermost loop on a CPU, and what the
compiler has chosen for it.

The program is compiled again, and the compiler writes the code of each dispatch as text. `vmfbench compare --why` compares what
two toolchains, sets of flags or commits make of a program, and `vmfbench why` shows it beside the time of a dispatch.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, requests
from scripts.core.requests import Folders
from scripts.frontends.lowering.locations import below
from scripts.iree import assembly
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import compile_program, printed
from scripts.tools.gpu_static import program

_CHOSEN = ("translation_info", "lowering_config")
_TILED = frozenset({"linalg.mmt4d", "linalg.batch_mmt4d", "linalg.pack", "linalg.unpack"})
_BUFFER = re.compile(r"(?:memref|tensor)<(?P<sizes>(?:\d+x)*)(?:bf|f|[su]?i|index)(?P<bits>\d*)")
_DEFINED = re.compile(
    r'^define .*?@"?(?P<name>[\w$.]+)"?\((?P<body>.*?)^}', re.MULTILINE | re.DOTALL
)
_MICROKERNEL = re.compile(r"@(iree_uk_\w+)")


def read_code(args: CompileRequest, folders: Folders) -> None:
    """Write the digests."""
    commands.report_working()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="code-") as folder:
        code, executables, vmfb = (Path(folder, name) for name in ("code", "configured", "m.vmfb"))
        compile_program(args.program, [*args.compiler_flags(), *dumps(code, executables)], vmfb)
        functions = described(code, executables)
        disassembly = printed("iree-dump-module", "--output=disassembly", str(vmfb))
        digests = {"host": assembly.host(vmfb, disassembly), "functions": functions}
        atomic.write_json(folders.results / "code.json", digests)


def dumps(code: Path, executables: Path) -> list[str]:
    """The flags with which the compiler writes the code of the dispatches, and the executables with what it has chosen for them, into folders."""
    return [
        f"--iree-hal-dump-executable-intermediates-to={code}",
        f"--iree-hal-dump-executable-binaries-to={code}",
        f"--iree-hal-dump-executable-configurations-to={executables}",
    ]


def described(code: Path, executables: Path) -> list[dict[str, Any]]:
    """The dispatches of the configured `executables` with their code. Exits if one of them has none."""
    by_name = _configured(executables)
    functions = assembly.functions(code, by_name.keys()) if code.is_dir() else []
    if missing := by_name.keys() - {function.name for function in functions}:
        exits.fail(
            f"iree-compile wrote no code of {len(missing)} dispatches, such as {min(missing)}"
        )
    called = _microkernels(code) if functions else {}
    return [
        asdict(each) | by_name[each.name] | {"microkernels": called.get(each.name, [])}
        for each in functions
    ]


def _configured(executables: Path) -> dict[str, dict[str, Any]]:
    """What the compiler has chosen for each dispatch, by its name. `tiling`: its pipeline, and the tile sizes of its operations, each once. `data_tiled`: whether its operands or results
    are packed in tiles. `flop`: its work; `bytes`: of its operands and results, each once; None if a size is not known before the call."""
    from iree.compiler import ir

    said = {}
    for path in sorted(executables.glob("*.mlir")):
        with ir.Context():
            module = ir.Module.parse(path.read_text(encoding="utf-8"))
            for function in below(module.operation):
                if function.name != "func.func":
                    continue
                operations = below(function)
                chosen = [str(op.attributes[name]) for op in (function, *operations) for name in _CHOSEN if name in op.attributes]  # fmt: skip
                work = program.work_of(function)
                said[ir.StringAttr(function.attributes["sym_name"]).value] = {
                    # Without the prefix of a dialect: <tile_sizes = [[8, 8]]>.
                    "tiling": [*dict.fromkeys(text.partition("<")[2].removesuffix(">") for text in chosen)],
                    "data_tiled": any(op.name in _TILED for op in operations),
                    "flop": work and work.product_flop + work.other_flop,
                    "bytes": _bytes(op.results[0].type for op in operations if op.name == "hal.interface.binding.subspan"),
                }  # fmt: skip
    return said


def _bytes(buffers: Iterable[Any]) -> int | None:
    """The bytes of buffers, by their types."""
    whole = 0
    for buffer in buffers:
        if not (match := _BUFFER.search(str(buffer))):
            return None
        values = math.prod(map(int, filter(None, match["sizes"].split("x"))))
        whole += values * max(8, int(match["bits"] or 64)) // 8
    return whole


def _microkernels(code: Path) -> dict[str, list[str]]:
    """The microkernels of IREE that each function calls, by the code before they are inlined."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(code.glob("*.codegen.ll")))
    bodies = {match["name"]: match["body"] for text in texts for match in _DEFINED.finditer(text)}
    return {name: [*dict.fromkeys(_MICROKERNEL.findall(body))] for name, body in bodies.items()}


if __name__ == "__main__":
    requests.run(CompileRequest, read_code)
