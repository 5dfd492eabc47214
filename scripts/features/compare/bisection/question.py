"""What a bisection asks of each release: is it like the good end, or like the bad one?"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from scripts.features.compare.bisection import slower
from scripts.features.compare.bisection.search import Side
from scripts.features.compare.bisection.trial import Trial
from scripts.features.reproduce.case import WRONG_RESULT
from scripts.records.clusters import signature
from scripts.supervise import outcome

LEAST_GROWTH = 1.01
"""The least ratio of the sizes of two modules that counts as larger."""


@dataclass(frozen=True)
class Question:
    """`runs`: modules are verified, and not only compiled. `timed`: they are also timed in turns. `unlike`: why two trials are not a good and a bad end; "" if they are.
    `side`: what a trial is, given the trials of both ends."""

    runs: bool
    unlike: Callable[[Trial, Trial], str]
    side: Callable[[Trial, Trial, Trial], Side]
    timed: bool = False


def _failure(of: Trial) -> Hashable:
    """What failures must have in common to be the same: status, stage, reason, and the message without names and numbers."""
    ended = of.outcome
    return ended.status, ended.stage, ended.reason, signature(ended.detail)


def _is_ok(of: Trial) -> bool:
    return of.outcome.status == outcome.OK


_NOT_JUDGED = ("installer", "bad-flag", "unknown-target", "program-version")


def _says_nothing(of: Trial) -> bool:
    """Whether a failure says nothing about the program: no environment, a flag or target that the release does not know,
    a program that it cannot parse, or a kill from outside."""
    return of.outcome.reason in _NOT_JUDGED or of.outcome.is_passing


def _not_broken(good: Trial, bad: Trial) -> str:
    if not _is_ok(good):
        return f"{good.candidate.version}, the good end, fails: {good.words}: {good.outcome.detail}"
    if _is_ok(bad):
        return f"{bad.candidate.version}, the bad end, does not fail"
    if _says_nothing(bad):
        return f"{bad.candidate.version}, the bad end, says nothing about the program: {bad.outcome.detail}"
    return ""


def _broken(good: Trial, bad: Trial, of: Trial) -> Side:
    if _is_ok(of):
        return Side.GOOD
    return Side.NEITHER if _says_nothing(of) else Side.BAD


def _is_wrong(of: Trial) -> bool:
    return of.outcome.reason == WRONG_RESULT


def _not_wrong(good: Trial, bad: Trial) -> str:
    if not _is_ok(good):
        return f"{good.candidate.version}, the good end, is not right: {good.words}: {good.outcome.detail}"
    return (
        "" if _is_wrong(bad) else f"{bad.candidate.version}, the bad end, is not wrong: {bad.words}"
    )


def _wrong(good: Trial, bad: Trial, of: Trial) -> Side:
    if _is_ok(of):
        return Side.GOOD
    return Side.BAD if _is_wrong(of) else Side.NEITHER


def _not_another_reason(good: Trial, bad: Trial) -> str:
    for name, end in (("good", good), ("bad", bad)):
        if _is_ok(end):
            return f"{end.candidate.version}, the {name} end, does not fail; ask with --if broken"
    same = _failure(good) == _failure(bad)
    return f"both ends fail in the same way: {good.words}: {good.outcome.detail}" if same else ""


def _another_reason(good: Trial, bad: Trial, of: Trial) -> Side:
    known = {_failure(good): Side.GOOD, _failure(bad): Side.BAD}
    return known.get(_failure(of), Side.NEITHER)


def _not_larger(good: Trial, bad: Trial) -> str:
    if not good.bytes or not bad.bytes:
        return f"no module at one end: {good.words}; {bad.words}"
    if bad.bytes / good.bytes >= LEAST_GROWTH:
        return ""
    return f"{bad.bytes:,} bytes are not at least {LEAST_GROWTH:g} times {good.bytes:,} bytes"


def _larger(good: Trial, bad: Trial, of: Trial) -> Side:
    if not (of.bytes and good.bytes and bad.bytes):
        return Side.NEITHER
    # A size between those of the ends belongs to the end whose ratio to it is smaller.
    return Side.BAD if of.bytes > math.sqrt(good.bytes * bad.bytes) else Side.GOOD


QUESTIONS: dict[str, Question] = {
    "broken": Question(False, _not_broken, _broken),
    "wrong": Question(True, _not_wrong, _wrong),
    "other-reason": Question(False, _not_another_reason, _another_reason),
    "larger": Question(False, _not_larger, _larger),
    "slower": Question(True, slower.not_slower, slower.side, timed=True),
}
"""By the value of --if."""
