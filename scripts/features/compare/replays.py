"""Puts dispatches of one build into the recorded run of the other: how much of a change of the latency each makes alone.

iree-run-module records all that a call asks of the device (`--device_replay_output`), with the executables. iree-benchmark-replay repeats
it, with other executables in the place of some (`--replay_executable_substitution`).
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.features.compare.code_changes import CHANGED, REARRANGED, CodeChange, Replay
from scripts.features.compare.pairs import Pair, Record
from scripts.features.compare.remeasuring import AFTER, BEFORE, NotMeasured
from scripts.features.reproduce import case as cases
from scripts.iree import benchmark
from scripts.iree.backends import runs_on_cpu
from scripts.iree.tools import program
from scripts.records.results_file import cell_of
from scripts.timing import ratios

ROUNDS, MOST = 6, 3
"""How often each variant is replayed, in random order, and how many dispatches are put in alone."""
REPLAY_S, CALLS = 1.0, (5, 200)
"""Seconds of a replay, and its fewest and most calls."""
LIMIT_S = 120
ALL, CONTROL = "all of them", "none (control)"
APART = ("--iree-hal-link-executables=false", "--iree-llvmcpu-debug-symbols=false")
"""One executable per dispatch, so that one can be replaced."""


@dataclass(frozen=True)
class Executable:
    """An executable of a recorded run. `calls`: what is asked of it: ordinal and workgroups of each dispatch, in order."""

    number: int
    code: bytes
    calls: tuple[tuple[int, tuple[int, ...]], ...]


def measure(code: CodeChange, pair: Pair, folders: tuple[Path, Path]) -> tuple[Replay, ...]:
    """How much each of the changed dispatches that matter most, and all of them, change the latency of the build before. Raises
    NotMeasured and NoCase. `folders`: those in which the runs before and after were started."""
    assert pair.both is not None
    device = pair.both[0]["experiment"]["device_uri"]
    if not runs_on_cpu(device):
        raise NotMeasured(f"dispatches are replayed on CPUs alone, not on {device}")
    with tempfile.TemporaryDirectory(prefix="replay-") as scratch:
        sides = zip((BEFORE, AFTER), pair.both, folders, strict=True)
        tools = cases.recorded(folders[0], cases.COMPILE, str(cell_of(pair.both[0])))
        environment = (folders[0] / tools.python).parent.parent
        files = [_record(*side, environment, Path(scratch)) for side in sides]
        before, after = (_executables(file, environment) for file in files)
        variants: dict[str, dict[int, Path]] = {"": {}, CONTROL: {}}
        why: dict[str, str] = {}
        for name in (each.name for each in code.changed if each.kind in (CHANGED, REARRANGED)):
            if not (name in before and name in after):
                why[name] = "it is no executable of both recorded runs"
            elif before[name].calls != after[name].calls:
                why[name] = "it is called with other workgroups"
            else:
                path = Path(scratch, f"{before[name].number}.so")
                path.write_bytes(after[name].code)
                variants[name] = {before[name].number: path}
        every = {n: path for parts in variants.values() for n, path in parts.items()}
        shown = list(variants)[: 2 + MOST]
        chosen = {name: variants[name] for name in shown} | ({ALL: every} if len(every) > 1 else {})
        milliseconds = _replayed(files[0], environment, pair.both[0], chosen)
    own = milliseconds.pop("")
    left = [Replay(name, why=said) for name, said in list(why.items())[:MOST]]
    return (*(_compared(name, values, own) for name, values in milliseconds.items()), *left)


def _compared(name: str, values: Sequence[float], own: Sequence[float]) -> Replay:
    known = ratios.paired(values, own)
    if known is None:
        return Replay(name, why=f"{len(values)} replays; an interval needs {ratios.LEAST}")
    at = known.interval()
    return Replay(name, at.ratio - 1, at.low - 1, at.high - 1)


def _run(command: Sequence[str], folder: Path) -> str:
    """The output of a tool. Raises NotMeasured with the end of what it says."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)  # fmt: skip
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
    if row.get("remedy"):
        raise NotMeasured(f"{name}: compiled by the remedy {row['remedy']['name']}")
    stage = cases.recorded(folder, cases.COMPILE, str(cell_of(row)))
    vmfb, recorded = scratch / f"{name}.vmfb", scratch / f"{name}.ireereplay"
    flags = json.loads(stage.options.get("--flags", ["[]"])[0])
    options = {
        **stage.options,
        "--flags": [json.dumps([*flags, *APART])],
        "--out-vmfb": [str(vmfb)],
        "--out-report": [str(vmfb.with_suffix(".json"))],
    }
    words = [word for key, values in options.items() for word in (key, *values)]
    if stage.run("scripts.stages.compile_iree", words, scratch / "log.txt"):
        raise NotMeasured(f"{name}: it does not compile with {' '.join(APART)}")
    call = [word for word in shlex.split(row["run"]["command"])[1:] if "--module=" not in word]
    runner = [_tool("iree-run-module", environment), f"--module={vmfb}", *call]
    _run([*runner, "--output=", f"--device_replay_output={recorded}"], folder)
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
    recorded: Path, environment: Path, row: Record, variants: Mapping[str, Mapping[int, Path]]
) -> dict[str, list[float]]:
    """The milliseconds of a call in each round, by variant: `variants` has the executables that are put in, by number."""
    words = shlex.split(row["run"]["command"])
    report = recorded.with_suffix(".json")
    command = [
        _tool("iree-benchmark-replay", environment),
        *(word for word in words if word.startswith(("--device", "--task_"))),
        *("--replay_scope=execute", "--benchmark_min_time=1x", str(recorded)),
        *("--benchmark_report_aggregates_only=false", f"--benchmark_out={report}"),
        "--benchmark_out_format=json",
    ]

    def replay(put_in: Mapping[int, Path], calls: int) -> float:
        instead = [f"--replay_executable_substitution={n}={path}" for n, path in put_in.items()]
        _run([*command, *instead, f"--benchmark_repetitions={calls}"], recorded.parent)
        return ratios.undisturbed(benchmark.read_ms(report))

    begun = time.monotonic()
    replay({}, CALLS[0])
    # Each call is preceded by all that the recorded run did before it.
    call_s = (time.monotonic() - begun) / CALLS[0]
    calls = max(CALLS[0], min(CALLS[1], int(REPLAY_S / call_s)))
    order = random.Random(str(cell_of(row)))
    milliseconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name in order.sample(list(variants), len(variants)):
            milliseconds[name].append(replay(variants[name], calls))
    return milliseconds
