"""Write what iree-compile does with a program: the IR after each phase and the dispatch graph.

The files are 0/phases/*.mlir and 0/dispatch-graph.dot (Graphviz). The
compiler gets the flags of the target. The module that it makes is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.config.choices import IREE_DUMPS
from scripts.core import atomic, commands, requests
from scripts.core.requests import Folders
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import compile_program
from scripts.tools.profile import dumping


@dataclass(frozen=True, kw_only=True)
class ModuleDumpRequest(CompileRequest):
    """`kinds`: of dumps, such as `iree_phases`."""

    kinds: Sequence[str] = IREE_DUMPS


def dump_iree(args: ModuleDumpRequest, folders: Folders) -> None:
    """Write the dumps, and the list of them."""
    commands.report_working()
    dumping.clear(folders.own)
    folder = folders.own / "0"
    folder.mkdir(parents=True)
    graph = "--iree-flow-dump-dispatch-graph"
    flags = {
        "iree_phases": [f"--dump-compilation-phases-to={folder / 'phases'}"],
        "iree_graph": [graph, f"{graph}-output-file={folder / 'dispatch-graph.dot'}"],
    }
    wanted = [flag for kind in args.kinds for flag in flags.get(kind, ())]
    compile_program(args.program, [*args.compiler_flags(), *wanted])
    atomic.write_json(folders.results / dumping.LISTING, dumping.listing(folders.own))


if __name__ == "__main__":
    requests.run(ModuleDumpRequest, dump_iree)
