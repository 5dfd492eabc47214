"""Decides cells that two runs have left: times their programs in turns, compiles them again, or puts dispatches of one build into the
recorded run of the other.

Compilations are repeated before and after in turns, to compare the CPU time of iree-compile. A replay says how much of a change of
the latency each dispatch makes alone: iree-run-module records all that a call asks of the device (`--device_replay_output`), with
the executables. iree-benchmark-replay repeats it, with other executables in the place of some (`--replay_executable_substitution`).
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.stages import REPORT
from scripts.core import atomic, checkout, process, temporary
from scripts.iree import session
from scripts.iree.backends import runs_on_cpu
from scripts.iree.tools import program
from scripts.measure.timing import ratios
from scripts.measure.timing.group_timing import GroupTiming
from scripts.measure.timing.turns import Rule
from scripts.results import latency_section
from scripts.results.results_file import cell_of
from scripts.run.recorded import recorded
from scripts.supervise.members import (
    VERIFICATION,
    Member,
    failed_member,
    time_in_turns,
    unfit_control,
)
from scripts.tools.compare import pairs
from scripts.tools.compare.code_changes import CHANGED, REARRANGED, CodeChange, Replay
from scripts.tools.compare.pairs import Estimate, Pair, Record
from scripts.tools.reproduce import case as cases

BEFORE, AFTER = "before", "after"
Side = tuple[str, Record, Path]
"""BEFORE or AFTER, the row, and the folder in which its run was started."""


class NotMeasured(Exception):
    """A program that cannot be timed, or was not. Says why."""


def _sides(pair: Pair, folders: tuple[Path, Path]) -> list[Side]:
    """Both sides of a pair. Raises NotMeasured if they must not be compared."""
    assert pair.both is not None
    if why := pairs.difference(*pair.both, but=pairs.OF_MODEL):
        raise NotMeasured(why)
    return [*zip((BEFORE, AFTER), pair.both, folders, strict=True)]


# Latencies.


def time_again(pair: Pair, folders: tuple[Path, Path], rule: Rule) -> Estimate:
    """Return the change of the latency of a cell, measured now. Raises NotMeasured.

    `folders`: those in which the runs before and after were started.
    """
    if pair.measured is None:
        raise NotMeasured("it has no latency on both sides")
    with temporary.folder("compare") as logs:
        members = [_member(*side, logs) for side in _sides(pair, folders)]
        return estimate_of_timing(pair, time_in_turns(members, rule))


def check_timing(timing: GroupTiming) -> None:
    """Raise NotMeasured if a member has ended otherwise than it should."""
    if why := failed_member(timing):
        raise NotMeasured(why)


def estimate_of_timing(pair: Pair, timing: GroupTiming) -> Estimate:
    """Return the change between the members BEFORE and AFTER. Raises NotMeasured."""
    check_timing(timing)
    before, after = (timing.members[name] for name in (BEFORE, AFTER))
    is_short = len(before.values_ms) < ratios.LEAST
    if why := latency_section.doubt(timing, before, None) if is_short else unfit_control(timing):
        raise NotMeasured(why)
    name = f"{pair.cell} again"
    return pairs.in_turns(pair, name, before.values_ms, after.values_ms, timing.noise(0))


def _verification(row: Record, folder: Path) -> Path:
    cell = cell_of(row)
    return folder / stages.STAGES[stages.LAST[cell.kind]].path(cell)


def _flags(name: str, row: Record, folder: Path) -> list[str]:
    """The flags of iree-benchmark-module with which a row was verified; none of a baseline. Raises NotMeasured."""
    path = _verification(row, folder) / VERIFICATION
    try:
        measured = atomic.read_json(path)
        if measured["command"] != (row["run"].get("command") or ""):
            raise NotMeasured(f"{name}: {path} was made again since its row was written")
        return list(measured["flags"])
    except (OSError, LookupError, ValueError) as error:
        raise NotMeasured(f"{name}: {path} cannot be read ({error})") from error


def _member(name: str, row: Record, folder: Path, logs: Path) -> Member:
    """What is timed for a row: it has the code of this checkout, and all else of its run. Raises NotMeasured."""
    verification = _verification(row, folder)
    flags = _flags(name, row, folder)
    try:
        member = Member.verified(name, verification.absolute(), logs / f"{name}.txt", forked=False)
    except (OSError, LookupError, ValueError) as error:
        raise NotMeasured(f"{name}: {verification} cannot be read ({error})") from error
    module = next((flag for flag in flags if flag.startswith("--module=")), "")
    if module:
        path = folder / module.removeprefix("--module=")
        if not path.is_file():
            raise NotMeasured(f"{name}: there is no {path}")
        _check_size(name, row, path.stat().st_size, f"{path} has")
    return replace(member, folder=folder, env=checkout.variables())


def _check_size(name: str, row: Record, size: int, what: str) -> None:
    """Raise NotMeasured if a module is not the row's. `what`: has these bytes."""
    expected = (row["compile"] or {}).get("vmfb_bytes")
    if expected not in (None, size):
        raise NotMeasured(
            f"{name}: {what} {size} bytes, and its row says {expected}: something was made again since"
        )


# Compile times.

COMPILE_ROUNDS = (5, 96)
"""The fewest and the most compilations of each program. An interval needs ratios.LEAST."""


def compile_rounds(pair: Pair, budget_s: float) -> int:
    """How often both programs are compiled: as often as the seconds of both rows fit into the budget, within COMPILE_ROUNDS. It
    is known before the first compilation, so that what is measured does not decide when to stop."""
    seconds = sum(row["compile"].get("compile_s", 0.0) for row in pair.both or ())
    return max(COMPILE_ROUNDS[0], min(COMPILE_ROUNDS[1], int(budget_s / max(seconds, 0.1))))


def is_compiled(pair: Pair) -> bool:
    """Whether both sides have a program that iree-compile has compiled."""
    return bool(pair.both) and all(row["compile"] for row in pair.both or ())


def compile_again(pair: Pair, folders: tuple[Path, Path], count: int) -> Estimate:
    """Return the change of the CPU time of iree-compile over `count` rounds, each of both programs in random order. Raises
    NotMeasured and NoCase.

    CPU time changes less with other work on the machine than seconds do, and turns take most of that away.
    `folders`: those in which the runs before and after were started.
    """
    sides = _sides(pair, folders)
    milliseconds: dict[str, list[float]] = {BEFORE: [], AFTER: []}
    # Only the order is random.
    order = random.Random(pair.cell)
    with temporary.folder("recompile") as scratch:
        for _ in range(count):
            order.shuffle(sides)
            for name, row, folder in sides:
                compiled = _compiled_again(name, row, folder, scratch / name)
                _check_size(name, row, compiled["vmfb_bytes"], "it compiles to")
                milliseconds[name].append(1000 * compiled["cpu_s"])
    name = f"{pair.cell} compiled again"
    return pairs.in_turns(pair, name, milliseconds[BEFORE], milliseconds[AFTER])


def _compiled_again(
    name: str, row: Record, folder: Path, out: Path, flags: Sequence[str] = ()
) -> dict[str, Any]:
    """Compile the program of a row as its run did, with further flags, into the folder `out`. Return the report of the
    compilation. Raises NotMeasured and NoCase."""
    if row.get("remedy"):
        raise NotMeasured(f"{name}: compiled by the remedy {row['remedy']['name']}")
    stage = recorded(folder, cases.COMPILE, str(cell_of(row)))
    fields = {**stage.request.fields, "flags": [*stage.request.fields["flags"], *flags]}
    log = out / "log.txt"
    out.mkdir(exist_ok=True)
    if stage.run(stage.request.module, fields, out, log):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        why = (lines or ["no message"])[-1]
        raise NotMeasured(
            f"{name}: it does not compile any more ({' '.join(flags) or 'same flags'}): {why}"
        )
    compiled: dict[str, Any] = atomic.read_json(out / REPORT)
    return compiled


# Dispatches of one build in the recorded run of the other.

ROUNDS, MOST = 6, 3
"""How often each variant is replayed, in random order, and how many dispatches are put in alone."""
REPLAY_S, CALLS = 1.0, (5, 200)
"""Seconds of a replay, and its fewest and most calls."""
REPLAY_LIMIT_S = 120
ALL, CONTROL = "all of them", "none (control)"
APART = ("--iree-hal-link-executables=false", "--iree-llvmcpu-debug-symbols=false")
"""One executable per dispatch, so that one can be replaced."""


@dataclass(frozen=True)
class Executable:
    """An executable of a recorded run. `calls`: what is asked of it: ordinal and workgroups of each dispatch, in order."""

    number: int
    code: bytes
    calls: tuple[tuple[int, tuple[int, ...]], ...]


def replay_executables(
    code: CodeChange, pair: Pair, folders: tuple[Path, Path]
) -> tuple[Replay, ...]:
    """How much each of the changed dispatches that matter most, and all of them, change the latency of the build before. Raises
    NotMeasured and NoCase. `folders`: those in which the runs before and after were started."""
    assert pair.both is not None
    device = pair.both[0]["experiment"]["device_uri"]
    if not runs_on_cpu(device):
        raise NotMeasured(f"dispatches are replayed on CPUs alone, not on {device}")
    with temporary.folder("replay") as scratch:
        sides = zip((BEFORE, AFTER), pair.both, folders, strict=True)
        tools = recorded(folders[0], cases.COMPILE, str(cell_of(pair.both[0])))
        environment = (folders[0] / tools.request.python).parent.parent
        files = [_record(*side, environment, scratch) for side in sides]
        before, after = (_executables(file, environment) for file in files)
        variants: dict[str, dict[int, Path]] = {"": {}, CONTROL: {}}
        why: dict[str, str] = {}
        for name in (each.name for each in code.changed if each.kind in (CHANGED, REARRANGED)):
            if not (name in before and name in after):
                why[name] = "it is no executable of both recorded runs"
            elif before[name].calls != after[name].calls:
                why[name] = "it is called with other workgroups"
            else:
                path = scratch / f"{before[name].number}.so"
                path.write_bytes(after[name].code)
                variants[name] = {before[name].number: path}
        every = {n: path for parts in variants.values() for n, path in parts.items()}
        shown = list(variants)[: 2 + MOST]
        chosen = {name: variants[name] for name in shown} | ({ALL: every} if len(every) > 1 else {})
        flags = _flags(BEFORE, pair.both[0], folders[0])
        milliseconds = _replayed(files[0], environment, flags, chosen)
    unchanged = milliseconds.pop("")
    replays = []
    for name, values in milliseconds.items():
        difference = ratios.paired(values, unchanged)
        assert difference is not None  # ROUNDS are enough
        at = difference.interval()
        replays.append(Replay(name, at.ratio - 1, at.low - 1, at.high - 1))
    return (*replays, *(Replay(name, why=text) for name, text in list(why.items())[:MOST]))


def _run(command: Sequence[str], folder: Path) -> str:
    """The output of a tool. Raises NotMeasured with the end of what it says."""
    try:
        done = process.captured(command, folder, REPLAY_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotMeasured(f"{Path(command[0]).name}: {(said or [str(done.returncode)])[-1]}")
    return done.stdout


def _tool(name: str, environment: Path) -> str:
    path = program(name, environment)
    if path is None:
        raise NotMeasured(f"IREE of {environment} has no {name}; releases from 3.12 on have it")
    return str(path.absolute())


def _record(name: str, row: Record, folder: Path, environment: Path, scratch: Path) -> Path:
    """Compile the program of a row with one executable per dispatch, and record a call of it. Raises NotMeasured and NoCase."""
    vmfb, recorded = scratch / name / "module.vmfb", scratch / f"{name}.ireereplay"
    _compiled_again(name, row, folder, vmfb.parent, APART)
    call = [flag for flag in _flags(name, row, folder) if "--module=" not in flag]
    runner = [_tool("iree-run-module", environment), f"--module={vmfb}", *call]
    _run([*runner, f"--device_replay_output={recorded}"], folder)
    return recorded


def _executables(recorded: Path, environment: Path) -> dict[str, Executable]:
    """The executables of a recorded run by the name of their function. Raises NotMeasured."""
    content = recorded.read_bytes()
    codes: dict[str, tuple[int, bytes]] = {}
    calls: dict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    dumper = [_tool("iree-dump-replay", environment), "--format=jsonl", str(recorded)]
    for line in _run(dumper, recorded.parent).splitlines():
        said = json.loads(line)
        payload = said.get("payload") or {}
        if said.get("payload_type") == "executable_prepare":
            code, about = (
                content[part["offset"] : part["offset"] + part["length"]]
                for part in (payload["data_range"], payload["metadata_range"])
            )
            length = payload["metadata_function_name_storage_length"]
            name = about[len(about) - length :].decode(errors="replace")
            codes[name] = said["related_object_id"], code
        elif said.get("payload_type") == "dispatch":
            workgroups = tuple(payload["workgroup_count"])
            calls[payload["executable_id"]].append((payload["function_ordinal"], workgroups))
    return {name: Executable(n, code, tuple(calls[n])) for name, (n, code) in codes.items()}


def _replayed(
    recorded: Path,
    environment: Path,
    flags: Sequence[str],
    variants: Mapping[str, Mapping[int, Path]],
) -> dict[str, list[float]]:
    """The milliseconds of a call in each round, by variant: `variants` has the executables that are put in, by number."""
    report = recorded.with_suffix(".json")
    command = [
        _tool("iree-benchmark-replay", environment),
        *(flag for flag in flags if flag.startswith(("--device", "--task_"))),
        *("--replay_scope=execute", "--benchmark_min_time=1x", str(recorded)),
        *("--benchmark_report_aggregates_only=false", f"--benchmark_out={report}"),
        "--benchmark_out_format=json",
    ]

    def replay(put_in: Mapping[int, Path], calls: int) -> float:
        instead = [f"--replay_executable_substitution={n}={path}" for n, path in put_in.items()]
        _run([*command, *instead, f"--benchmark_repetitions={calls}"], recorded.parent)
        return ratios.undisturbed(session.read_ms(report))

    begun = time.monotonic()
    replay({}, CALLS[0])
    # Each call is preceded by all that the recorded run did before it.
    call_s = (time.monotonic() - begun) / CALLS[0]
    calls = max(CALLS[0], min(CALLS[1], int(REPLAY_S / call_s)))
    order = random.Random(recorded.name)
    milliseconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name in order.sample(list(variants), len(variants)):
            milliseconds[name].append(replay(variants[name], calls))
    return milliseconds
