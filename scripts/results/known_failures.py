"""Causes of failures that are known (workflow/known_failures.yaml), and the one that a failed row has."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import msgspec

from scripts.config import plugins, reading
from scripts.core import checkout
from scripts.frontends.lowering import stablehlo

KNOWN = checkout.ROOT / "workflow/known_failures.yaml"
WRONG, CRASHED, REFUSED = "wrong", "crashed", "refused"
CALLED = {WRONG: "known-miscompile", CRASHED: "known-crash", REFUSED: "known-refusal"}
"""What a row calls a known cause, by its status."""
_LOWERED = ("export", "compile", "verify")
"""Stages that may fail by one."""
_STATUS = {"crashed": CRASHED, "error": REFUSED, "unsupported": REFUSED}
"""How a row may have failed by a cause that is known, by its own status."""


class Failure(Protocol):
    """What is known of a failure: its status (WRONG, …), the program's operators and their dtypes, and what was said."""

    @property
    def status(self) -> str: ...
    @property
    def operators(self) -> Sequence[str]: ...
    @property
    def dtypes(self) -> Sequence[str]: ...
    @property
    def detail(self) -> str: ...


class KnownFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of KNOWN. It is the cause of a failure of this `status` if one of the program's operators matches one of the globs
    `operators` (`alone`: if all do), one of its dtypes is among `dtypes`, and the regular expression `message` is found in what was said;
    what is left out is not compared. `issue`: of the project that owns it. `avoided_by`: the rewrites without which programs have it."""

    name: str
    about: str
    status: str
    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    message: str = ""
    issue: str = ""
    avoided_by: tuple[str, ...] = ()
    alone: bool = False

    def is_cause(self, failure: Failure) -> bool:
        dtypes = set(failure.dtypes)
        fitting = [any(fnmatchcase(op, g) for g in self.operators) for op in failure.operators]
        return (
            self.status == failure.status
            and (not self.operators or any(fitting))
            and (not self.alone or all(fitting))
            and (not self.dtypes or bool(dtypes & set(self.dtypes)))
            and bool(re.search(self.message, failure.detail))
        )


@dataclass(frozen=True)
class _OfOperator:
    """A failure, as one operator of its program may have caused it."""

    status: str
    operators: Sequence[str]
    dtypes: Sequence[str]
    detail: str


def read_known(file: Path | None = None) -> list[KnownFailure]:
    """The known failures. Raises ValueError for an entry that is not one."""
    path = file or KNOWN
    try:
        return msgspec.convert(reading.read(path)["failures"], list[KnownFailure])
    except (msgspec.ValidationError, KeyError) as error:
        raise ValueError(f"{path}: {error}; expected `failures:`, a list of entries with name, about and status") from error  # fmt: skip


_shipped = functools.cache(read_known)


def name_cause(record: dict[str, Any], operators: Mapping[str, Sequence[str]]) -> None:
    """Add to the detail of a failed IREE row the cause that is known, such as `known-miscompile: nan-is-equal`.

    `operators`: those of its program, each with the dtypes that it takes. A cause that the program's lowering path avoids is not the row's.
    """
    ended = record["outcome"]
    if ended["status"] not in _STATUS or ended["stage"] not in _LOWERED:
        return
    status = WRONG if ended["reason"] == "wrong-result" else _STATUS[ended["status"]]
    avoided = _rewrites(record["experiment"])
    seen = [_OfOperator(status, [op], dtypes, ended["detail"]) for op, dtypes in operators.items()]
    for known in _shipped():
        failures = seen if known.operators else [_OfOperator(status, (), known.dtypes, ended["detail"])]  # fmt: skip
        if known.alone and len(operators) > 1:
            continue
        if not avoided & set(known.avoided_by) and any(map(known.is_cause, failures)):
            more = f" ({known.issue})" if known.issue else ""
            ended["detail"] += f"; {CALLED[status]}: {known.name}{more}"
            return


def _rewrites(experiment: Mapping[str, Any]) -> set[str]:
    """The rewrites that a row's lowering path needs, and applies."""
    options = experiment["exporter_options"]
    if options.get("rewrites", "none") == "none":
        return set()
    into = options.get("dialect", "stablehlo")
    declared = plugins.exporter(experiment["exporter"]).rewrites
    further = stablehlo.AVOIDING if into == "stablehlo" else ()
    return {name for name, dialects in declared.items() if into in dialects} | {*further}
