"""The start of a run: what it covers, what is said or refused before its first job, and which rows end it.

`--config stop_on=FAIL` ends a run with exit code 1 on rows with these statuses or codes.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import functools
import mmap
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.config import cell, expansion, plugins, reading, settings, stages
from scripts.config.cell import PINNED, Cell, EntryName
from scripts.config.entries import Baseline, Target
from scripts.config.expansion import flag_lists
from scripts.config.rows import Matrix
from scripts.config.stages import STATUS, VERIFICATION
from scripts.core import atomic, checkout, machine, process
from scripts.frontends.sources import registry
from scripts.iree import compile_cache, compile_options, tools
from scripts.iree.backends import BACKENDS, renamed
from scripts.measure.verify import verification
from scripts.run import environments, outputs
from scripts.run.plan import Plan, parse_retry
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

KNOWN = (
    *outcome.FAILED,
    outcome.UNAVAILABLE,
    outcome.SKIPPED,
    *(code for code in verification.CODES if code != verification.PASS),
)


class Gate:
    """The statuses and verification codes that end a run; none if `wanted` is None.

    `is_remedied`: whether a failed stage of a cell (its folder, the cell's name) may be made good by
    remedies; then their outcome decides. Raises ConfigError if `wanted` names an unknown status or
    code.
    """

    def __init__(
        self, wanted: str | None, is_remedied: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        chosen = reading.select("stop_on", KNOWN, wanted) if wanted else []
        self.wanted = frozenset(chosen)
        self._is_remedied = is_remedied
        self._before = outputs.versions()

    def param(self) -> str:
        """Return the param of the CSV's rule.

        Each run with a gate has a new value, so that the CSV is written and its rows are checked
        even if no other job has to run.
        """
        return str(time.time_ns()) if self.wanted else ""

    def finished(self, paths: Sequence[str]) -> str:
        """Return a message if the job that made these files ends the run, else ""."""
        status = next((Path(o) for o in paths if o.endswith(outcome.STATUS)), None)
        if status is None:
            return ""
        ended = outcome.read_or_damaged(status)
        repairing = stages.made_good_by(ended.stage)
        if repairing and ended.status == outcome.SKIPPED:  # nothing has made it good
            status = Path(repairing.path(ended.cell, STATUS))
            ended = outcome.read_or_damaged(status)
        elif self._is_remedied(ended.stage, ended.cell):
            return ""
        if ended.status == outcome.OK or ended.blocked_by:  # that stage was its row's first failure
            return ""
        met = self.wanted & {ended.status, _code(ended, status)}
        return f"{ended.stage} {ended.cell}: {', '.join(met)}: {ended.detail}" if met else ""

    def of_rows(self, rows: Iterable[Mapping[str, str]]) -> list[str]:
        """Return the names of the rows that end the run, each with its status or code."""
        ending_rows = []
        for row in rows:
            if met := self.wanted & {row["status"], row["verification_code"]}:
                name = row.get("model") or row["problem"]
                parts = (name, row["frontend"] or row["runtime"], row["target"])
                ending_rows.append(f"{'/'.join(filter(None, parts))}: {', '.join(met)}")
        return ending_rows

    def problem(self) -> str:
        """Return a message if the rows of a written CSV end the run, else ""."""
        tables = (outputs.CSV, *(files[0] for files in outputs.of_features()))
        for table in tables if self.wanted else ():
            if ending_rows := self.of_rows(outputs.written_rows(self._before, table) or ()):
                more = f", and {len(ending_rows) - 1} more" if len(ending_rows) > 1 else ""
                return (
                    f"stop_on={','.join(sorted(self.wanted))}: {ending_rows[0]}{more} (see {table})"
                )
        return ""


def _code(decisive: Outcome, status: Path) -> str:
    """Return the verification code of a row whose decisive stage was not ok."""
    measured = status.with_name(VERIFICATION)
    if measured.is_file() and measured.stat().st_size:
        return atomic.read_json(measured)["verification"]["code"]
    return outputs.code_of_unmeasured(decisive)


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
    matrix, notes = outputs.with_results(matrix)
    plan = Plan(matrix, retry=parse_retry(config.get("retry")), with_conda=with_conda)
    return Run(matrix, plan, Gate(config.get("stop_on"), plan.modules.may_make_good), notes)


def warnings(run: Run) -> Iterator[str]:
    """What is said at the start of a run."""
    for problem in run.plan.broken_models():
        yield f"{problem}: its rows will be errors of stage reference"
    for model in run.matrix.models.values():
        if model.family == registry.name_with_kind(model.file):
            other = registry.model_name(model.file)
            yield f"{model.file} is the model {model.name}, because {other} is another one"
    yield from run.notes
    for files in (outputs.FILES, *outputs.of_features()):
        for problem in filter(None, map(outputs.difference, files)):
            yield f"{problem}; it is made again with {files[0]}"


def absent_devices(matrix: Matrix) -> Iterator[str]:
    """What cannot run on this machine, because there is no sign of the device."""
    rows = [*matrix.rows()]
    names_of: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(row.target for row in rows if row.target):
        target = matrix.target_of(name)
        if signs := BACKENDS[target.backend].missing_signs(target.arch):
            names_of.setdefault(signs, []).append(name)
    for signs, names in names_of.items():
        count = sum(row.target in names for row in rows)
        yield f"No device on this machine for {', '.join(names)} (no {' or '.join(signs)}): {_rows(count)} compiled, and end as unavailable"
    absent = [baseline.name for baseline in matrix.baselines.values() if _is_absent(baseline)]
    if count := sum(row.baseline in absent for row in rows):
        yield f"No device on this machine for {', '.join(absent)}: {_rows(count)} unavailable"


def _is_absent(entry: Target | Baseline) -> bool:
    """Whether this machine has no sign of the device of a target or baseline."""
    if isinstance(entry, Target):
        return bool(BACKENDS[entry.backend].missing_signs(entry.arch))
    kinds = {backend.torch_device for backend in BACKENDS.values() if not backend.missing_signs()}
    return not entry.on_cpu and entry.device not in kinds


def idle_cells(matrix: Matrix) -> set[tuple[str, Cell]]:
    """The jobs, by rule and cell, that end at once: those of rows without a device on this machine, and of groups of such rows alone."""
    idle: set[tuple[str, Cell]] = set()
    groups: dict[Cell, bool] = {}
    for row in matrix.rows():
        entry = matrix.target_of(row.target) if row.target else matrix.baselines[row.baseline]
        group, is_absent = matrix.group(row), _is_absent(entry)
        groups[group] = groups.get(group, True) and is_absent
        if is_absent:
            idle.add((stages.STAGES["verify" if row.target else "baseline"].rule, row))
    return idle | {(stages.STAGES["time"].rule, group) for group, ends in groups.items() if ends}


def _rows(count: int) -> str:
    return "1 row is" if count == 1 else f"{count} rows are"


def problems(run: Run, may_submit: bool) -> list[str]:
    """What keeps a configuration from being run. `may_submit`: whether jobs may go to a cluster."""
    if not may_submit and (problem := _thread_problem(run.matrix)):
        return [problem]
    try:
        compile_cache.of_environment()
    except ValueError as error:
        return [str(error)]
    tuned = [target.name for target in run.matrix.targets.values() if target.tuned]
    if may_submit and tuned:  # a node would decide again, by its own CPU, which results are used
        return [
            f"targets.{tuned[0]}.tuned: auto is for runs on one machine; leave it out where jobs may go to a cluster"
        ]
    if unusable := [*environment_problems(run.matrix)]:
        return list(dict.fromkeys(unusable))
    if run.plan.with_conda:
        return []
    return flag_problems(run.matrix)


def _thread_problem(matrix: Matrix) -> str:
    """What is wrong with `measure.threads` on this machine; "" if nothing is. Nodes of a cluster may have more CPUs, and verify it.

    Between the cores and the CPUs (hyper-threads), the rows of IREE fail and baselines are measured.
    """
    most, cpus = cell.most_threads(matrix.measure), machine.usable_cpu_count()
    of_iree = any(target.on_cpu for target in matrix.targets.values())
    if most <= cpus or not (
        of_iree or any(baseline.on_cpu for baseline in matrix.baselines.values())
    ):
        return ""
    return (
        f"measure.threads: found {most}, but this process may use {cpus} CPUs; set {cpus} or less, or give the profile "
        "of a cluster (--profile) whose nodes have that many"
    )


FLAGS = "flags.json"
"""The file of an environment's stage with the flags of its iree-compile, and the file of that compiler."""
_FLAG = re.compile(r"^\s+(--?[A-Za-z][\w.-]*)", re.MULTILINE)
_INDUCTOR = "torch/_inductor/config.py"
_XLA_FLAG = re.compile(r"--(xla_[a-z0-9_]+)(=.*)?")
_XLA_LIBRARIES = {"jaxlib": "jaxlib/libjax_common.so", "torch-xla": "_XLAC*.so"}
"""By the distribution that has XLA, the file in its environment that has it."""


def environment_problems(matrix: Matrix) -> Iterator[str]:
    """Error messages about the entries of a matrix: the packages that they need, `compile.options` and `xla_flags`."""
    for name, frontend in matrix.all_frontends().items():
        packages = tuple(plugins.exporter(frontend.exporter).versions)
        yield from _package_problems(f"frontends.{_declared(name)}", frontend.env, packages)
    for name, baseline in matrix.all_baselines().items():
        where, packages = f"baselines.{_declared(name)}", tuple(plugins.runtime(baseline.runtime).versions)  # fmt: skip
        yield from _package_problems(where, baseline.env, packages)
        yield from _option_problems(where, baseline)
        yield from _xla_problems(where, baseline, packages)
    yield from _package_problems("reference", matrix.reference_env, ("torch",))


def _declared(name: str) -> str:
    """The name of the entry of the configuration from which one is."""
    return EntryName.read(name).entry


def _package_problems(where: str, env: str, needed: tuple[str, ...]) -> Iterator[str]:
    """An error message if an environment lacks a package that an entry needs."""
    packages = _locked(EntryName.read(env).entry)
    if not packages:  # the stage that makes the environment says what is wrong with its lock
        return
    if missing := [name for name in needed if environments.package_name(name) not in packages]:
        suitable = [
            path.stem
            for path in sorted((checkout.ROOT / environments.ENV_FOLDER).glob("*.yaml"))
            if {*map(environments.package_name, needed)} <= {*_locked(path.stem)}
        ]
        yield f"{where}.env: found {env!r}, which has no {', '.join(missing)}; expected {' or '.join(suitable)}"  # fmt: skip


@functools.cache
def _locked(env: str) -> frozenset[str]:
    """The packages of an environment's lock; none if it cannot be read."""
    try:
        return frozenset(environments.read_lock(environments.lock_file(environments.env_file(env))))
    except (OSError, environments.LockError):
        return frozenset()


def _option_problems(where: str, baseline: Baseline) -> Iterator[str]:
    """Error messages about `compile.options` that torch._inductor.config does not have."""
    file = _installed(baseline.env, _INDUCTOR)
    if not baseline.compile.get("options") or file is None:
        return
    known = inductor_options(file)
    for name in baseline.compile["options"]:
        if name.replace("-", "_") not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            yield f"{where}.compile.options.{name}: torch._inductor.config of the environment {baseline.env} has no such option{hint}"


def inductor_options(file: Path) -> list[str]:
    """The names of the options that torch's module of Inductor's configuration declares: variables, and those of classes with
    the names of the classes before them (`cpp.threads`)."""
    names: list[str] = []

    def collect(statements: list[ast.stmt], prefix: str) -> None:
        for node in statements:
            match node:
                case ast.ClassDef(name=name, body=body, bases=bases):
                    for base in bases:
                        above = f"{prefix}{ast.unparse(base)}."
                        inherited = [known.removeprefix(above) for known in names if known.startswith(above)]  # fmt: skip
                        names.extend(f"{prefix}{name}.{own}" for own in inherited)
                    collect(body, f"{prefix}{name}.")
                case ast.If(body=body, orelse=orelse):
                    collect([*body, *orelse], prefix)
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):  # fmt: skip
                    names.append(f"{prefix}{name}")

    collect(ast.parse(file.read_bytes()).body, "")
    return names


def _xla_problems(where: str, baseline: Baseline, packages: tuple[str, ...]) -> Iterator[str]:
    """Error messages about `xla_flags` of another form, or whose names are not in the library that has XLA."""
    words = [word for word in baseline.xla_flags.split() if word.startswith("-")]
    if baseline.xla_flags and not words:
        yield f"{where}.xla_flags: found {baseline.xla_flags!r}, expected flags such as --xla_gpu_autotune_level=0"  # fmt: skip
    of_xla = {environments.package_name(name) for name in packages} & _XLA_LIBRARIES.keys()
    library = next((file for name in of_xla if (file := _installed(baseline.env, _XLA_LIBRARIES[name]))), None)  # fmt: skip
    for word in words:
        match = _XLA_FLAG.fullmatch(word)
        if match is None:
            yield f"{where}.xla_flags: found {word!r}, expected flags of XLA, such as --xla_gpu_autotune_level=0"  # fmt: skip
        elif library and not _has(library, f"{match[1]}\0".encode()):
            yield f"{where}.xla_flags: {library.name} of the environment {baseline.env} does not know --{match[1]}"


def _installed(env: str, pattern: str) -> Path | None:
    """A file of a package in an environment that is made; None without it."""
    folders = Path(environments.prefix(env)).glob("lib/python3*/site-packages")
    return next((file for folder in folders for file in folder.glob(pattern)), None)


def _has(file: Path, text: bytes) -> bool:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0


def flag_problems(matrix: Matrix) -> list[str]:
    """An error message for each flag of a target that iree-compile of its toolchain does not know, or that names a tuning spec
    that does not exist."""
    targets = list(matrix.targets.values())
    lines: dict[str, None] = {}
    for key, flags in (listed for target in targets for listed in flag_lists(target)):
        if (path := compile_options.named_spec(flags)) and not os.path.isfile(path):
            lines[f"{key}: the tuning spec {path} does not exist"] = None
    for env in dict.fromkeys(target.env for target in targets):
        if compiler := tools.compiler_of(Path(environments.prefix(env))):
            known, release = _flags(env, compiler)
            for target in targets:
                if target.env == env and known:
                    lines |= dict.fromkeys(_unknown(target, known, release))
    return list(lines)


def _unknown(target: Target, known: Sequence[str], release: str) -> Iterator[str]:
    for key, flags in flag_lists(target):
        for flag in renamed(flags, release):
            name = flag.partition("=")[0]
            if name not in known and name.replace("--", "-", 1) not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                yield f"{key}: iree-compile {release} does not know {name}{hint}"


def _flags(env: str, compiler: Path) -> tuple[list[str], str]:
    """The flags of a compiler and its release; no flags if it cannot be run. They are kept on disk for as
    long as the compiler is the same file."""
    kept = Path(stages.STAGES["env"].path(env, FLAGS))
    stat = compiler.stat()
    identity = [str(compiler.resolve()), stat.st_size, stat.st_mtime_ns]
    with contextlib.suppress(OSError, ValueError):
        before = atomic.read_json(kept)
        if before.get("of") == identity:
            return before["flags"], before["release"]
    release = tools.release(compiler)
    done = process.captured([compiler, "--help-hidden"])
    if done.returncode != 0:
        return [], release
    flags = sorted({*_FLAG.findall(done.stdout)})
    # A plan makes no folder, and one may be read-only: the next run calls the compiler again.
    with contextlib.suppress(OSError):
        if kept.parent.is_dir():
            atomic.write_json(kept, {"of": identity, "release": release, "flags": flags})
    return flags, release
