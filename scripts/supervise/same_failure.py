"""Which failures are the same: those whose details differ only in numbers, names, types and places.

Pages group failures by this, a bisection asks whether two releases fail in the same way, and a reduction keeps what fails in
the same way as the whole program.
"""

from __future__ import annotations

import re

# Two folders or more: a single one, such as "/usr", is the same on every machine.
_ABSOLUTE = re.compile(r"(?<![\w./:>-])/(?:[^\s/'\"`:;,()\[\]<>|]+/){2,}")
_SOURCE_LINE = re.compile(r" \[\S+:\d+: .*$")  # diagnose.py quotes it
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PARAMETERS = re.compile(r"<(?:[^<>]|<>)*>")  # the innermost ones; `<>` is what is left of them
_PARTICULARS = (
    (re.compile(r"[\w$]*dispatch_\d\w*"), "dispatch"),
    (re.compile(r"(?<![A-Za-z_])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:x\d+)*"), "N"),  # not f32, conv2d
    (re.compile(r"([%@#])[\w$.#-]+"), r"\1"),  # an SSA value, a symbol, an attribute's alias
    (re.compile(r"function '\w+'"), "function"),
    (re.compile(r"[\w./-]+\.(?:mlir|py|so|irpa|npz)\b(?::N)*"), "file"),
)


def readable(detail: str) -> str:
    """A detail on one line, without absolute folders, which differ between machines."""
    return _ABSOLUTE.sub("…/", " ".join(detail.split()))


def signature(detail: str) -> str:
    """A detail without numbers, parameters of types, files, symbols and SSA values, and without the source line: equal for
    failures of one cause.

    Names of operations stay, because they are what failed.
    """
    kind = _SOURCE_LINE.sub("", readable(_ADDRESS.sub("N", detail)))
    while (flatter := _PARAMETERS.sub("<>", kind)) != kind:
        kind = flatter
    for pattern, instead in _PARTICULARS:
        kind = pattern.sub(instead, kind)
    return kind
