"""What makes two failures the same: reason, and the message without numbers and names.

A part of a program has other shapes and names than the whole one, so these do not count. The words of the
message do: a reduction must not drift to another failure.
"""

from __future__ import annotations

import re

from scripts.supervise.diagnose import Diagnosis

_NOISE = (
    (re.compile(r"\s*\[(?:program|case|reduced)\.mlir:.*$", re.DOTALL), ""),  # the quoted operation
    (re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`"), "'…'"),
    (re.compile(r"[%@#!][\w$.]+"), "…"),
    (re.compile(r"<[^<>]*>"), "<…>"),
    (re.compile(r"\b\d[\w.]*"), "N"),
    (re.compile(r"\s+"), " "),
)
_LOCATED = re.compile(r"\.mlir:(\d+):\d+: ")


def of(found: Diagnosis) -> tuple[str, str, str]:
    """The signature of a failure: status, reason, and its message without what may differ."""
    return found.status, found.reason, normalised(found.detail)


def normalised(message: str) -> str:
    """A message without numbers, names, types and quoted operations."""
    for pattern, instead in _NOISE:
        message = pattern.sub(instead, message)
    return message.strip()


def lines(log: str) -> set[int]:
    """The lines of the program that the diagnostics of a compiler name."""
    return {int(found[1]) for found in _LOCATED.finditer(log)}
