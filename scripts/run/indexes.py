"""The package indexes of uv. uv does not read pip's settings, so where it has no index of its own, it gets pip's."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_OF_UV = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_NO_INDEX")
_IN_UV_TOML = frozenset({"index", "index-url", "extra-index-url", "no-index"})
_OF_PIP = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
"""Setting of pip -> variable of uv."""
_SECTIONS = ("global", "install", ":env:")
"""Those of pip's settings that count for `pip install`; a later one replaces an earlier one."""
_SETTING = re.compile(rf"({'|'.join(_SECTIONS)})\.({'|'.join(_OF_PIP)})=(.+)")


@functools.cache
def take_over() -> None:
    """Set uv's variables in this process to pip's indexes, once, unless uv has an index of its own.

    Prints a line that says so. It has only the hosts, because the rest of an address may be secret.
    """
    if any(os.environ.get(name) for name in _OF_UV) or any(map(_has_index, _uv_files())):
        return
    found = {_OF_PIP[key]: value for key, value in _pips().items()}
    if not found:
        return
    if "UV_INDEX" in found and not os.environ.get("UV_INDEX_STRATEGY"):
        # Like pip: the best version of all indexes. uv takes those of the first one that has the package.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    os.environ.update(found)
    places = [_place(url) for name in _OF_PIP.values() for url in found.get(name, "").split()]
    print(
        f"uv has no package index of its own, and takes pip's: {', '.join(places)} "
        "(UV_DEFAULT_INDEX sets another one)",
        flush=True,
    )


def _pips() -> dict[str, str]:
    """pip's indexes by setting, as pip reads them. Without pip, those of the variables."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = [match.groups() for match in map(_SETTING.fullmatch, listed.splitlines()) if match]
    lines.sort(key=lambda line: _SECTIONS.index(line[0]))
    found = {key: ast.literal_eval(value) for _, key, value in lines}
    for key in _OF_PIP:
        if of_variable := os.environ.get(f"PIP_{key.upper().replace('-', '_')}"):
            found[key] = of_variable
    return {key: " ".join(value.split()) for key, value in found.items() if value.strip()}


def _uv_files() -> Iterator[Path]:
    """The files where uv looks for settings, whether or not they exist."""
    if os.environ.get("UV_CONFIG_FILE"):
        yield Path(os.environ["UV_CONFIG_FILE"])
    elif not os.environ.get("UV_NO_CONFIG"):
        here = Path.cwd()
        yield from (folder / "uv.toml" for folder in (here, *here.parents))
        yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "uv/uv.toml"
        for folder in (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
            yield Path(folder) / "uv/uv.toml"
        yield Path("/etc/uv/uv.toml")


def _has_index(file: Path) -> bool:
    """Whether a file of uv's settings names an index. A file that cannot be read is left to uv to report."""
    try:
        settings: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return not _IN_UV_TOML.isdisjoint({*settings, *settings.get("pip", {})})


def _place(url: str) -> str:
    """The host of an index, or the folder of a local one."""
    parts = urlsplit(url)
    return parts.hostname or parts.path.rpartition("@")[2]
