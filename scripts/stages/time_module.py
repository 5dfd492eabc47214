"""Load a module by the flags of iree-benchmark-module, and time its calls when the coordinator of its group asks."""

from __future__ import annotations

import sys

from scripts.iree.session import load_command
from scripts.measure.timing import worker


def main() -> None:
    worker.serve(worker.Program(load_command(sys.argv[1:])))


if __name__ == "__main__":
    main()
