"""Write what a target's code of a program is: its host program, and the assembly and tiling of each dispatch, as digests.

The program is compiled again, and the compiler writes the code of each dispatch as text. `vmfbench compare --why` compares what
two toolchains, sets of flags or commits make of a program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, process, requests
from scripts.core.requests import Folders
from scripts.iree import assembly
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import printed, tool
from scripts.tools.profile.sites import inside


@dataclass(frozen=True, kw_only=True)
class CodeRequest(CompileRequest):
    """A program for a target."""


def read_code(args: CodeRequest, folders: Folders) -> None:
    """Write the digests."""
    commands.report_working()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="code-") as folder:
        code, configured, vmfb = (Path(folder, name) for name in ("code", "configured", "m.vmfb"))
        process.require_tool(
            [
                *(tool("iree-compile"), *args.compiler_flags()),
                f"--iree-hal-dump-executable-intermediates-to={code}",
                f"--iree-hal-dump-executable-binaries-to={code}",
                f"--iree-hal-dump-executable-configurations-to={configured}",
                *(str(args.program), "-o", str(vmfb)),
            ]
        )
        by_function = dict(tilings(configured))
        functions = assembly.functions(code, by_function.keys()) if code.is_dir() else []
        if missing := by_function.keys() - {function.name for function in functions}:
            exits.fail(
                f"iree-compile wrote no code of {len(missing)} dispatches, such as {min(missing)}"
            )
        atomic.write_json(
            folders.results / "code.json",
            {
                "host": assembly.host(
                    vmfb, printed("iree-dump-module", "--output=disassembly", str(vmfb))
                ),
                "functions": [
                    asdict(function) | {"tiling": by_function[function.name]}
                    for function in functions
                ],
            },
        )


def tilings(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """How each function is compiled: its pipeline, and the tile sizes of its operations, each once."""
    from iree.compiler import ir

    for path in sorted(folder.glob("*.mlir")):
        with ir.Context():
            module = ir.Module.parse(path.read_text(encoding="utf-8"))
            functions = (op for op in inside(module.operation) if op.name == "func.func")
            for function in functions:
                said = [_attribute(function, "translation_info")]
                said += [_attribute(op, "lowering_config") for op in inside(function)]
                name = ir.StringAttr(function.attributes["sym_name"]).value
                yield name, [text for text in dict.fromkeys(said) if text]


def _attribute(operation: Any, name: str) -> str:
    """An attribute without its dialect's prefix: `<tile_sizes = [[8, 8]]>`; "" if the operation does not have it."""
    return str(operation.attributes[name]).partition("<")[2].removesuffix(">") if name in operation.attributes else ""  # fmt: skip


if __name__ == "__main__":
    requests.run(CodeRequest, read_code)
