"""The start of a run: what it covers, and what is said or refused before its first job."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from scripts.core import checkout, machine
from scripts.matrix import expansion, feature, settings, threads
from scripts.matrix.matrix import Matrix
from scripts.matrix.toolchains import PINNED
from scripts.run import outputs
from scripts.run.gate import Gate
from scripts.run.plan import Plan, parse_retry
from scripts.sources import registry


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run covers. `notes`: of features, about what they have read from disk."""

    matrix: Matrix
    plan: Plan
    gate: Gate
    notes: list[str]


def of_configuration(
    config: Mapping[str, Any], selections: Mapping[str, str], with_conda: bool
) -> Run:
    """The run of a checked configuration and of the selections of its command line. Raises ConfigError."""
    matrix = expansion.expand(config, selections, checkout.ROOT)
    if not checkout.is_here():
        matrix = expansion.with_absolute_paths(matrix, checkout.ROOT)
    if with_conda and (further := [name for name in matrix.toolchains if name != PINNED]):
        raise settings.ConfigError(
            f"toolchains: {further[0]} needs an environment that uv makes; leave --sdm conda out"
        )
    notes: list[str] = []
    for adjust in feature.hooks("adjust"):
        matrix, further = adjust(matrix)
        notes += further
    plan = Plan(matrix, retry=parse_retry(config.get("retry")), with_conda=with_conda)
    return Run(matrix, plan, Gate(config.get("stop_on"), plan.maker.may_make_good), notes)


def warnings(run: Run) -> Iterator[str]:
    """What is said at the start of a run."""
    for problem in run.plan.broken_models():
        yield f"{problem}: its rows will be errors of stage reference"
    for model in run.matrix.models.values():
        if model.family == registry.name_with_kind(model.file):
            other = registry.model_name(model.file)
            yield f"{model.file} is the model {model.name}, because {other} is another one"
    yield from run.notes
    yield from run.plan.environments.notes()
    for files in (outputs.FILES, *outputs.of_features()):
        for problem in filter(None, map(outputs.difference, files)):
            yield f"{problem}; it is made again with {files[0]}"


def problems(run: Run, may_submit: bool) -> list[str]:
    """What keeps a configuration from being run. `may_submit`: whether jobs may go to a cluster."""
    if not may_submit and (problem := _thread_problem(run.matrix)):
        return [problem]
    tuned = [target.name for target in run.matrix.targets.values() if target.tuned]
    if may_submit and tuned:  # a node would decide again, by its own CPU, which results are used
        return [
            f"targets.{tuned[0]}.tuned: auto is for runs on one machine; leave it out where jobs may go to a cluster"
        ]
    if run.plan.with_conda:
        return []
    return [problem for check in feature.hooks("problems") for problem in check(run.matrix)]


def _thread_problem(matrix: Matrix) -> str:
    """What is wrong with `measure.threads` on this machine; "" if nothing is. Nodes of a cluster may have more CPUs, and verify it.

    Between the cores and the CPUs (hyper-threads), the rows of IREE fail and baselines are measured.
    """
    most, cpus = threads.most(matrix.measure, otherwise=1), machine.usable_cpu_count()
    of_iree = any(target.on_cpu for target in matrix.targets.values())
    if most <= cpus or not (of_iree or any(one.on_cpu for one in matrix.baselines.values())):
        return ""
    return (
        f"measure.threads: found {most}, but this process may use {cpus} CPUs; set {cpus} or less, or give the profile "
        "of a cluster (--profile) whose nodes have that many"
    )
