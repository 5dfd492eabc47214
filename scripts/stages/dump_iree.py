"""Write what iree-compile does with a program: the IR after each phase and the dispatch graph.

The files are <out-folder>/0/phases/*.mlir and <out-folder>/0/dispatch-graph.dot (Graphviz). The
compiler gets the flags of the target. The module that it makes is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.core import atomic, commands, process
from scripts.core.commands import option
from scripts.features.profile import dumping
from scripts.iree.compile_options import CompileOptions
from scripts.iree.tools import tool
from scripts.matrix.choices import IREE_DUMPS


@dataclass(frozen=True, kw_only=True)
class Options(CompileOptions, dumping.Out):
    kinds: Sequence[str] = option(IREE_DUMPS, help='JSON list, such as ["iree_phases"]')


def main() -> None:
    commands.report_working()
    args = commands.parse_options(Options)
    dumping.clear(args.out_folder)
    folder = args.out_folder / "0"
    folder.mkdir(parents=True)
    wanted = []
    if "iree_phases" in args.kinds:
        wanted.append(f"--dump-compilation-phases-to={folder / 'phases'}")
    if "iree_graph" in args.kinds:
        wanted += [
            "--iree-flow-dump-dispatch-graph",
            f"--iree-flow-dump-dispatch-graph-output-file={folder / 'dispatch-graph.dot'}",
        ]
    process.require_tool(
        [
            tool("iree-compile"),
            *args.compiler_flags(),
            *wanted,
            str(args.program),
            "-o",
            "/dev/null",
        ]
    )
    atomic.write_json(args.out_listing, dumping.listing(args.out_folder))


if __name__ == "__main__":
    main()
