"""Write what iree-compile does with a program: the IR after each phase and the dispatch graph.

The files are <out-folder>/0/phases/*.mlir and <out-folder>/0/dispatch-graph.dot (Graphviz). The
compiler gets the flags of the target. The module that it makes is discarded.
"""

from __future__ import annotations

import argparse

from scripts.core import atomic, channel, process
from scripts.features.profile import dumping
from scripts.iree import added_flags
from scripts.iree.backends import add_arguments, flags_of
from scripts.iree.tools import tool
from scripts.matrix.choices import IREE_DUMPS


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(prog="python -m scripts.stages.dump_iree", description=__doc__)
    add_arguments(parser)
    dumping.add_arguments(parser, IREE_DUMPS)
    args = parser.parse_args()
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
    flags = [*flags_of(args), *added_flags.of(args.program, args.flags)]
    run = process.run_tool(
        [tool("iree-compile"), *flags, *wanted, str(args.program), "-o", "/dev/null"]
    )
    if run.returncode != 0:
        process.exit_like(run.returncode)
    atomic.write_json(args.out_listing, dumping.listing(args.out_folder))


if __name__ == "__main__":
    main()
