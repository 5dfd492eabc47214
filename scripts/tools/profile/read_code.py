"""Write what a target's code of a program is: its host program, and of each dispatch the assembly as digests, its innermost loop on a CPU, and what the
compiler has chosen for it.

The program is compiled again, and the compiler writes the code of each dispatch as text. `vmfbench compare --why` compares what
two toolchains, sets of flags or commits make of a program, and `vmfbench why` shows it beside the time of a dispatch.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, process, requests
from scripts.core.requests import Folders
from scripts.iree import assembly
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import printed, tool
from scripts.tools.profile import configured


@dataclass(frozen=True, kw_only=True)
class CodeRequest(CompileRequest):
    """A program for a target."""


def read_code(args: CodeRequest, folders: Folders) -> None:
    """Write the digests."""
    commands.report_working()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="code-") as folder:
        code, executables, vmfb = (Path(folder, name) for name in ("code", "configured", "m.vmfb"))
        process.require_tool(
            [
                *(tool("iree-compile"), *args.compiler_flags(), *dumps(code, executables)),
                *(str(args.program), "-o", str(vmfb)),
            ]
        )
        functions = described(code, executables)
        atomic.write_json(
            folders.results / "code.json",
            {
                "host": assembly.host(
                    vmfb, printed("iree-dump-module", "--output=disassembly", str(vmfb))
                ),
                "functions": functions,
            },
        )


def dumps(code: Path, executables: Path) -> list[str]:
    """The flags with which the compiler writes the code of the dispatches, and the executables with what it has chosen for them, into folders."""
    return [
        f"--iree-hal-dump-executable-intermediates-to={code}",
        f"--iree-hal-dump-executable-binaries-to={code}",
        f"--iree-hal-dump-executable-configurations-to={executables}",
    ]


def described(code: Path, executables: Path) -> list[dict[str, Any]]:
    """The dispatches of the configured `executables` with their code. Exits if one of them has none."""
    by_name = {each.name: each for each in configured.dispatches(executables)}
    functions = assembly.functions(code, by_name.keys()) if code.is_dir() else []
    if missing := by_name.keys() - {function.name for function in functions}:
        exits.fail(
            f"iree-compile wrote no code of {len(missing)} dispatches, such as {min(missing)}"
        )
    called = configured.microkernels(code) if functions else {}
    return [
        asdict(each) | asdict(by_name[each.name]) | {"microkernels": called.get(each.name, [])}
        for each in functions
    ]


if __name__ == "__main__":
    requests.run(CodeRequest, read_code)
