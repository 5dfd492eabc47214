"""The stages of dumps and profiles."""

from __future__ import annotations

import dataclasses
import functools

from scripts.config.cell import Kind
from scripts.config.stages import IREE_ENV, Need, Stage

_stage = functools.partial(
    Stage, limits="baseline", skipped="cell", need=Need(4000, 300, 60, "runtime"), wants_device=True
)


def _of_iree(name: str, recorded_as: str, after: str) -> Stage:
    modules = (f"scripts.tools.profile.{name}",)
    return _stage(name, Kind.IREE_DUMP, modules, env=IREE_ENV, after=after, recorded_as=recorded_as)


def _of_baseline(name: str, recorded_as: str) -> Stage:
    modules = (f"scripts.tools.profile.{name}", "scripts.baselines.{runtime}")
    return _stage(
        name, Kind.BASELINE, modules, entry="baseline", after="reference", recorded_as=recorded_as
    )


STAGES = (
    _of_iree("dump_iree", "dumps", after="export"),
    _of_baseline("dump_baseline", "dumps"),
    Stage(
        "profile",
        Kind.GROUP,
        tuple(f"scripts.tools.profile.profile_{name}" for name in ("group", "iree", "baseline")),
        limits="time",
        need=Need(3000, 600, 300, "group"),
        wants_device=True,
    ),
    dataclasses.replace(_of_iree("read_code", "code", after="export"), version=2),
    dataclasses.replace(
        _of_iree("profile_compile", "compile_time", after="export"),
        limits="compile",
        need=Need(4000, 600, 60, "weights"),
        wants_device=False,
    ),
)
