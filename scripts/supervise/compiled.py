"""This project's own modules, compiled once in the fork server and executed again in each fork.

Compiling some forty modules takes a third of a second if no bytecode may be written. A module whose
file has changed is compiled again; its source is compared, not its modification time.
"""

from __future__ import annotations

import sys
from importlib.abc import PathEntryFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType

_code: dict[str, tuple[bytes, CodeType]] = {}


class _Loader(SourceFileLoader):
    # typeshed has the static method of InspectLoader here, not the method of SourceLoader.
    def source_to_code(self, data, path, *, _optimize=-1):  # type: ignore[override]
        source, code = _code.get(str(path), (None, None))
        return code if source == data else super().source_to_code(data, path)


def compile_all(folders: list[Path]) -> None:
    """Compile every module below some folders. Invalid Python is ignored here and fails at its import."""
    for path in (found for folder in folders for found in sorted(folder.rglob("*.py"))):
        source = path.read_bytes()
        try:
            _code[str(path)] = source, compile(source, str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue


def use(folders: list[Path]) -> None:
    """Import packages below some folders from their compiled code."""
    standard = FileFinder.path_hook((_Loader, SOURCE_SUFFIXES))

    def finder(path: str) -> PathEntryFinder:
        if not any(Path(path).is_relative_to(folder) for folder in folders):
            raise ImportError(f"{path} is none of this project's folders")
        return standard(path)

    sys.path_hooks.insert(0, finder)
    for path in list(sys.path_importer_cache):
        if any(Path(path).is_relative_to(folder) for folder in folders):
            del sys.path_importer_cache[path]
