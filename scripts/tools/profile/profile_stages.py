"""The stages of dumps and profiles."""

from __future__ import annotations

import functools
from typing import Any

from scripts.config.cell import Kind
from scripts.config.stages import IREE_ENV, Need, Stage

_stage = functools.partial(
    Stage, limits="baseline", skipped="cell", need=Need(4000, 300, 60, "runtime"), wants_device=True
)


def _of_iree(name: str, recorded_as: str, **others: Any) -> Stage:
    modules = (f"scripts.tools.profile.{name}",)
    own = {"env": IREE_ENV, "after": "export", "recorded_as": recorded_as}
    return _stage(name, Kind.IREE_DUMP, modules, **own | others)


STAGES = (
    _of_iree("dump_iree", "dumps"),
    _stage(
        "dump_baseline",
        Kind.BASELINE,
        ("scripts.tools.profile.dump_baseline", "scripts.baselines.{runtime}"),
        entry="baseline",
        after="reference",
        recorded_as="dumps",
    ),
    Stage(
        "profile",
        Kind.GROUP,
        tuple(f"scripts.tools.profile.profile_{name}" for name in ("group", "iree", "baseline")),
        limits="time",
        need=Need(3000, 600, 300, "group"),
        wants_device=True,
    ),
    _of_iree("read_code", "code", version=2),
    _of_iree(
        "profile_compile",
        "compile_time",
        limits="compile",
        need=Need(4000, 600, 60, "weights"),
        wants_device=False,
    ),
)
