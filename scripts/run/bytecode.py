"""Compiles what the stages import of an environment to bytecode, and copies what other environments have of the same files.

Python compiles a module when it imports it. Stages import a third of the code of torch and what belongs to it, and
compiling takes 0.2 s of CPU time per MB. What else a run imports, Python compiles then. uv links equal files of environments from its
cache, and copying their bytecode takes some seconds. Run with the Python of the environment: `bytecode.py <other environment>…`.
"""

from __future__ import annotations

import gc
import importlib.util
import marshal
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

HEADER_BYTES = 16
"""Bytes of a compiled file before its code (PEP 552)."""


def main() -> None:
    sys.path.insert(0, os.fspath(Path(__file__).parents[2]))  # this file is run by its path
    from scripts.supervise import fork_server

    packages = Path(sysconfig.get_path("purelib"))
    place = packages.relative_to(sys.prefix)
    gc.disable()  # it would look at all code objects again and again
    copied = sum(copy(packages, Path(other) / place) for other in sys.argv[1:])
    problems = fork_server.preload((*fork_server.PACKAGES, *fork_server.ON_DEMAND))
    for problem in problems:
        print(f"note: {problem}")
    print(
        f"bytecode: {copied} files are those of other environments; what stages import is compiled"
    )
    fork_server.leave(0)


def copy(packages: Path, others: Path) -> int:
    """Copy the bytecode of files that are the same file in both folders of packages; return how many.

    Damaged bytecode is left out. Bytecode that is out of date is compiled again by `main`.
    """
    copied = 0
    for file in sources(packages, others):
        compiled = Path(importlib.util.cache_from_source(os.fspath(packages / file)))
        theirs = Path(importlib.util.cache_from_source(os.fspath(others / file)))
        try:
            if compiled.exists() or not (packages / file).samefile(others / file):
                continue
            code = theirs.read_bytes()
            marshal.loads(code[HEADER_BYTES:])
        except (OSError, EOFError, ValueError, TypeError):
            continue
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_bytes(code)
        copied += 1
    return copied


def sources(packages: Path, others: Path) -> Iterator[Path]:
    """The Python files of a folder of packages, relative to it, whose folder is in `others` too."""
    for folder, below, files in os.walk(packages):
        here = Path(folder).relative_to(packages)
        if not (others / here / "__pycache__").is_dir():
            below[:] = [name for name in below if (others / here / name).is_dir()]
            continue
        yield from (here / name for name in files if name.endswith(".py"))


def command(prefix: Path, others: Sequence[Path]) -> list[str]:
    """The command that compiles the packages of an environment."""
    python = prefix / "bin" / "python"
    return [str(python), "-I", __file__, *map(str, others)]


if __name__ == "__main__":
    main()
