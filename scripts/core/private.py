"""Takes out of what others may see what tells of this user and machine, or opens a door: the home folder, the names of the user and
the host, passwords in addresses, and the values of environment variables that are secrets by their names."""

from __future__ import annotations

import functools
import getpass
import hashlib
import json
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_SECRET = re.compile(
    r"TOKEN|SECRET|PASS(?:W|PHRASE|CODE)|CREDENTIAL|(?:API|ACCESS|PRIVATE)_?KEY|CONN(?:ECTION)?_?STR"
    r"|(?:KEYS?|AUTH|DSN)[0-9]*(?:$|_)|(?:^|_)(?:PAT|COOKIE|CREDS?|PASS)(?:$|_)|(?<!^)(?<!^OLD)PWD(?:$|_)",
    re.IGNORECASE,
)
"""In names of environment variables whose values are secrets. PWD and OLDPWD are folders."""
_PART = re.compile(
    r"://[^/\s:@]*:(?P<password>[^/\s]+)@|(?:password|passwd|pwd|secret|token|key)=(?P<value>[^;&\s]+)",
    re.IGNORECASE,
)
"""A secret in the value of any environment variable: the password of an address, and one of the pairs of a connection string."""
_LEAST_CHARS = 6
"""Of a secret: shorter values occur by chance."""
_COMMON = {"localhost", "root", "user", "host"}
"""Names that tell nothing, and that are words of messages."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s'\"?#]+@")


def text(value: str, prose: bool = True) -> str:
    """Return text with `~` for the home folder, and `<user>`, `<host>` and `***` for the rest. Names are replaced in paths and, if it
    is prose, in sentences: a single word may be a model that is called alike."""
    for needle, replace in _replacing():
        if needle in value:
            value = replace(value)
    for name, instead in _names() if prose and re.search(r"\s", value) else ():
        if name in value:
            value = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", instead, value)
    return value


def cleaned(value: Any) -> Any:
    """Return a JSON value with `text` of each of its texts, keys too."""
    whole = json.dumps(value, ensure_ascii=False)
    needles = [needle for needle, _ in (*_replacing(), *_names())]
    # Most records have nothing to replace, which is seen sooner in the whole.
    if any(json.dumps(needle, ensure_ascii=False)[1:-1] in whole for needle in needles):
        return _cleaned(value)
    return value


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return text(value)
        case dict():
            return {_cleaned(key): _cleaned(inner) for key, inner in value.items()}
        case list() | tuple():
            return [*map(_cleaned, value)]
    return value


def clean(folder: Path) -> None:
    """Replace the text files of a folder by their `text`, but for this project's code."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.is_relative_to(folder / "scripts"):
            continue
        try:
            before = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # weights, inputs
            continue
        # A program or a script may have a function of that name.
        if (after := text(before, prose=path.suffix in (".txt", ".md"))) != before:
            path.write_text(after, encoding="utf-8")


def machine_id() -> str:
    """Eight hexadecimal digits for this machine, the same as long as its host name is."""
    return hashlib.sha256(f"vmfbench {platform.node()}".encode()).hexdigest()[:8]


@functools.cache
def _replacing() -> list[tuple[str, Callable[[str], str]]]:
    """What is looked for, and the function that replaces it, in order."""

    def by(pattern: str, instead: str) -> Callable[[str], str]:
        return functools.partial(re.compile(pattern).sub, instead)

    # The longest first: one may be a part of another.
    replacing = [(v, by(re.escape(v), "***")) for v in sorted(_secrets(), key=len, reverse=True)]
    replacing.append(("://", functools.partial(_ADDRESS.sub, r"\1***@")))
    home = str(Path.home())
    if len(home) > 1:
        replacing.append((home, by(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])", "~")))
    for name, instead in _names():
        # A part of an absolute path, such as /tmp/torchinductor_<user>.
        in_path = (
            rf"(?<![\w.~/])(/(?:[^\s/'\":]+/)*(?:[^\s/'\":]*_)?){re.escape(name)}(?=[/\s'\":]|$)"
        )
        replacing.append((name, by(in_path, rf"\1{instead}")))
    return replacing


def _secrets() -> set[str]:
    """The values of environment variables that are secrets, each of their lines, and the secrets in other values."""
    secrets: set[str] = set()
    for name, value in os.environ.items():
        whole = [value] if _SECRET.search(name) else []
        parts = [next(filter(None, part.groups())) for part in _PART.finditer(value)]
        for secret in (*whole, *parts, *map(unquote, parts)):
            secrets |= {secret, *(line.strip() for line in secret.splitlines())}
    return {secret for secret in secrets if len(secret) >= _LEAST_CHARS}


@functools.cache
def _names() -> list[tuple[str, str]]:
    """The names of the user and the host, each with what stands in its place."""
    named = ((_user(), "<user>"), (platform.node(), "<host>"))
    return [(name, instead) for name, instead in named if len(name) > 2 and name not in _COMMON]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""
