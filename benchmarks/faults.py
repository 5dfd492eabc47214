"""Make faults on purpose while the workflow runs, and compare what it ends with, with an undisturbed run.

    python -m benchmarks.faults kills --number 100 --seed 1
    python -m benchmarks.faults disk clock --number 20

Each prints the rows of a table. Runs take place in a temporary folder, with the environments of this checkout, which `environment` damages and
deletes. FAULTS at the end lists all of them with what is promised; docs/reliability.md has what came out.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import fcntl
import functools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import yaml

from scripts.core.checkout import ROOT
from scripts.results.columns import COLUMNS
from scripts.supervise import outcome

MARK = "VMFBENCH_FAULTS"  # the environment variable by which the processes of a run are found
SELECTED = "models=conv,small frontends=torchmlir-stablehlo targets=llvm-cpu baselines=eager"
SETTINGS = {"measure": {"budget_s": 0.2, "generations": 1}, "expect": {}}
SMALL = """import torch
def get_model():
    return torch.nn.Linear(600, 600)
def get_dummy_input():
    return torch.randn(2, 600)
"""
BUILT = ("reference", "export", "compile", "verify", "baseline")
STAGES_OF = {  # kinds of processes to kill, and the stages during which
    "Snakemake": (*BUILT, "machine_limits", "time", "aggregate"),
    "supervisor": (*BUILT, "machine_limits"),
    "stage": (*BUILT, "machine_limits"),
    "fork server": ("reference", "export", "baseline", "time"),
    "coordinator of timing": ("time",),
    "member that is timed": ("time",),
    "aggregation": ("aggregate",),
}
MODULES = {
    "scripts.stages.supervise": "supervisor",
    "scripts.stages.time_group": "coordinator of timing",
    "scripts.stages.aggregate_results": "aggregation",
}
# Of a table: the fault, what became of that run, and of the next one.
Row = tuple[str, str, str]
HOUR_S = 3600
CLOCK = """import time
now, now_ns = time.time, time.time_ns
def offset():
    with open({!r}) as file:
        return int(file.read() or 0)
time.time = lambda: now() + offset()
time.time_ns = lambda: now_ns() + 10**9 * offset()
"""
GONE_S = 20.0  # in which all processes of a run have to end after it
VARYING = {one.column for one in COLUMNS if one.varies}


@dataclass
class Place:
    """A folder in which the workflow runs. `starts`: how many runs were started. `expected`: the rows of an undisturbed run."""

    folder: Path

    def __post_init__(self) -> None:
        self.results, self.said = self.folder / "results", self.folder.with_suffix(".txt")
        self.mark, self.starts, self._others = uuid.uuid4().hex, 0, set[int]()
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        (self.folder / "small.py").write_text(SMALL, encoding="utf-8")
        settings = SETTINGS | {"models": {"small": {"file": str(self.folder / "small.py")}}}
        (self.folder / "faults.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        if self.run() or not (expected := self.rows()):
            raise SystemExit(f"error: the undisturbed run failed; {self.said} says why")
        self.expected = expected

    def start(
        self, *more: str, by: Sequence[str] = (), env: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen:
        """Start a run. `more`, `by`: words at the end and before its command."""
        self.starts += 1
        command = [*by, sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
        command += ["--directory", str(self.folder), "--cores", "2", "results/latency.csv", *more]
        command += ["--configfile", str(self.folder / "faults.yaml"), "--config", *SELECTED.split()]
        variables = os.environ | {MARK: self.mark, "TMPDIR": str(self.folder / "tmp")} | (env or {})
        popen |= {"env": variables, "start_new_session": True, "cwd": ROOT}
        popen |= {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with self.said.open("ab") as out:
            return subprocess.Popen(command, stdout=out, **popen)

    def run(self, *more: str, **options: Any) -> int:
        """Run to the end, and return the exit code."""
        return self.start(*more, **options).wait(timeout=900)

    def wipe(self, limits: bool = False) -> None:
        """Delete rows and the files of stages, so that a run makes them again; `limits`: also the machine's limits."""
        for path in self.results.iterdir():
            if path.is_file():
                path.unlink()
            elif path.name not in ("env", "logs", "history", *["machine_limits"] * (not limits)):
                shutil.rmtree(path)

    def rows(self) -> list[dict[str, str]]:
        """The rows without what is measured anew in each run; none if there is no table."""
        with contextlib.suppress(OSError), (self.results / "latency.csv").open(newline="") as file:
            return [{k: v for k, v in r.items() if k not in VARYING} for r in csv.DictReader(file)]
        return []

    def statuses(self) -> str:
        """How many rows have which status."""
        counted = Counter(f"{row['status']} {row['reason']}".strip() for row in self.rows())
        return ", ".join(f"{count} {what}" for what, count in sorted(counted.items())) or "no rows"

    def processes(self) -> list[psutil.Process]:
        """The processes of its runs that have not ended."""
        ours = []
        for pid in set(psutil.pids()) - self._others:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.environ().get(MARK) != self.mark:
                    self._others.add(pid)
                elif process.status() != psutil.STATUS_ZOMBIE:
                    ours.append(process)
        return ours

    def roles(self, snakemake: int) -> Iterator[tuple[str, str, int]]:
        """The kind, stage and id of each process that may be killed."""
        lines, parents, stages = dict[int, list[str]](), dict[int, int](), dict[int, str]()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                lines[process.pid], parents[process.pid] = process.cmdline(), process.ppid()
        servers = {pid for pid, words in lines.items() if "scripts.stages.fork_server" in words}
        # A forked stage has the command line of its server.
        forked = {pid for pid in servers if parents[pid] in servers}
        for pid, words in lines.items():
            module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
            if (
                module == "scripts.stages.supervise"
                and (run := words[words.index("--run") + 1]) in MODULES
            ):
                module = run  # the supervisor is this stage itself
            if kind := MODULES.get(module):
                stages[pid] = words[words.index("--stage") + 1] if "--stage" in words else "aggregate"  # fmt: skip
                yield kind, stages[pid], pid
        for pid in lines.keys() - stages.keys() - (servers - forked):
            if "time" in stages.values() and (pid in forked or stages.get(parents[pid]) == "time"):
                yield "member that is timed", "time", pid
            for owner, stage in stages.items():
                if stage not in ("time", "aggregate") and pipes(pid, "1") & pipes(owner):
                    yield "stage", stage, pid
        for stage in set(stages.values()):
            yield "Snakemake", stage, snakemake
            yield from (("fork server", stage, pid) for pid in servers - forked)

    def left(self) -> list[str]:
        """What is left of runs that have ended: processes, locks that are held, and files half made."""
        deadline = time.monotonic() + GONE_S
        while (alive := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = [f"process {process.pid}" for process in alive]
        for lock in (self.results / "logs/run.lock", *(ROOT / ".venvs").glob(".*.lock")):
            with lock.open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    left.append(f"lock {lock}")
        for pattern in ("results/**/.*.partial", "results/**/.scratch", "results/**/begun.txt"):
            left += map(str, self.folder.glob(pattern))
        # torch keeps a cache there, and Snakemake an empty folder.
        left += [str(path) for path in self.folder.glob("tmp/*") if not path.name.startswith(("torchinductor", "snakemake"))]  # fmt: skip
        return left + [str(path) for path in self.folder.glob(".snakemake/locks/*")]

    def finish(self, at_most: int = 2) -> str:
        """Give the command again, at most so many times, until the rows are those of the undisturbed run; return what is wrong
        after that, or "no difference"."""
        for _ in range(at_most):
            code = self.run()
            if self.rows() == self.expected and not code:
                break
        rows, said = self.rows(), dict[tuple[str, str], str]()
        wrong = [f"exit code {code}"] * bool(code)
        wrong += [f"row {at} differs" for at, row in enumerate(self.expected) if row not in rows]
        wrong += [f"{len(rows)} rows"] * (len(rows) != len(self.expected))
        for line in (self.results / "logs/journal.jsonl").read_text("utf-8").splitlines():
            if "run" not in (entry := json.loads(line)):
                said[entry["stage"], entry["cell"]] = entry["status"]
        for path in self.results.glob("*/**/status.json"):
            ended = outcome.read(path)
            # A remedy that has nothing to do starts no process.
            if said.get((ended.stage, ended.cell), "") != ended.status and ended.stage != "remedy":
                wrong.append(f"{ended.stage} {ended.cell} has no line in the journal")
        return "; ".join([*wrong, *self.left()]) or "no difference"


@functools.cache
def shared(folder: Path) -> Place:
    """The place of the faults that leave nothing behind, which is made once: a first run measures the limits of the machine."""
    return Place(folder / "shared")


def pipes(pid: int, numbers: str = "*") -> set[str]:
    """The pipes that a process has open; `numbers`: a glob of file descriptors."""
    links = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").glob(numbers):
            with contextlib.suppress(OSError):
                links.add(os.readlink(link))
    return {link for link in links if link.startswith("pipe:")}


class Kill(NamedTuple):
    """A process to kill: its kind, the stage during which, and seconds after that stage was seen."""

    number: int
    kind: str
    stage: str
    delay: float


def plan(number: int, seed: int) -> list[Kill]:
    """Kills of all kinds in turn, of all their stages in turn, at drawn moments."""
    draw, kinds = random.Random(seed), list(STAGES_OF.items())
    kills = []
    for at in range(number):
        kind, stages = kinds[at % len(kinds)]
        delay = draw.choice((0.0, draw.uniform(0, 0.5), draw.uniform(0.5, 3)))
        kills.append(Kill(at, kind, stages[(at // len(kinds)) % len(stages)], delay))
    return kills


def kills(folder: Path, number: int, seed: int) -> Iterator[Row]:
    """Kill processes, a few per cycle of all stages, and finish the run after each cycle."""
    place, waiting, done = Place(folder), plan(number, seed), list[Kill]()
    came: dict[str, Counter[str]] = defaultdict(Counter)
    slowest, cycles = 0.0, 0
    while waiting:
        now, waiting, cycles = waiting[:10], waiting[10:], cycles + 1
        place.wipe(limits=any(kill.stage == "machine_limits" for kill in now))
        killed, seconds = cycle(place, now)
        slowest, bad = max(slowest, seconds), place.finish()
        done += killed
        for kill in killed:
            came[kill.kind][bad] += 1
        # One whose process was not there at its moment is tried again, earlier.
        waiting += [kill._replace(delay=kill.delay // 0.1 / 20) for kill in now if kill not in killed]  # fmt: skip
        print(f"# {len(done)} of {number} kills, {cycles} cycles: {bad}", flush=True)
    print(f"# {cycles} cycles of {len(place.expected)} rows, {place.starts} starts of Snakemake; the last process ended within {slowest:.1f} s of a kill of Snakemake")  # fmt: skip
    for kind, ends in came.items():
        stages = Counter(kill.stage for kill in done if kill.kind == kind)
        where = ", ".join(f"{stage} {count}" for stage, count in sorted(stages.items()))
        yield f"{kind}: {ends.total()} kills", where, "; ".join(ends)


def cycle(place: Place, wanted: Sequence[Kill]) -> tuple[list[Kill], float]:
    """Run the workflow and kill what is wanted when its stage is there. Return what was killed, and the seconds until the last
    process had ended after a kill of Snakemake."""
    run, disturbed, slowest = place.start(), False, 0.0
    pending, killed, moments = list(wanted), list[Kill](), dict[Kill, float]()
    while pending:
        if run.poll() is not None:
            if not disturbed:  # it has ended by itself
                break
            run, disturbed = place.start(), False
        seen, now = list(place.roles(run.pid)), time.monotonic()
        for kill in list(pending):
            there = [pid for kind, stage, pid in seen if (kind, stage) == (kill.kind, kill.stage)]
            if not any(stage == kill.stage for _, stage, _ in seen):
                moments.pop(kill, None)
            elif now >= moments.setdefault(kill, now + kill.delay) and there:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(there[kill.number % len(there)], signal.SIGKILL)
                    pending.remove(kill)
                    killed.append(kill)
                    disturbed = True
                if kill.kind == "Snakemake":
                    run.wait()
                    while place.processes() and time.monotonic() < now + GONE_S:
                        time.sleep(0.05)
                    slowest = max(slowest, time.monotonic() - now)
                break
        time.sleep(0.03)
    run.wait()
    return killed, slowest


@contextlib.contextmanager
def tmpfs(folder: Path) -> Iterator[None]:
    """A file system of 300 MiB at a folder. Raises CalledProcessError if none may be mounted here."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def disk(folder: Path, number: int, _: int) -> Iterator[Row]:
    """Fill the file system of the whole folder at points of a run, until that run has ended."""
    with tmpfs(folder):
        place = Place(folder)
        length = seconds_of(place)
        for point in range(number):
            place.wipe()
            run = place.start()
            time.sleep(length * (point + 0.5) / number)
            fill = folder / "fill.bin"
            with fill.open("wb") as file, contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free - point % 3 * 8192)  # fmt: skip
            code = run.wait(timeout=900)
            rows = place.statuses()
            fill.unlink()
            yield f"disk full after {(point + 0.5) / number:.0%} of a run", f"exit code {code}, {rows}", place.finish()  # fmt: skip


def seconds_of(place: Place) -> float:
    """The length of an undisturbed run, s."""
    place.wipe()
    begun, _ = time.monotonic(), place.run()
    return time.monotonic() - begun


def elsewhere(folder: Path, *_: int) -> Iterator[Row]:
    """results/ on another file system."""
    place = Place(folder)
    place.results.rename(folder / "aside")
    with tmpfs(place.results):
        yield "`results/` on another file system", "", place.finish(1)


def read_only(folder: Path, *_: int) -> Iterator[Row]:
    """results/ that cannot be written."""
    place = shared(folder.parent)
    for wipe in (place.wipe, lambda: None):
        wipe()
        subprocess.run(["mount", "-o", "bind,ro", place.results, place.results], check=True)
        place.said.write_text("")
        code = place.run("--forcerun", "aggregate_results")
        subprocess.run(["umount", "--lazy", place.results], check=True)
        said = re.findall(r".*(?:ead-only f|rite-p).*", place.said.read_text())
        yield "`results/` read-only", f"exit code {code}: {said[:1]}", place.finish(1)


def handles(folder: Path, *_: int) -> Iterator[Row]:
    """Runs whose processes may have few files open."""
    place = shared(folder.parent)
    for most in (16, 24, 48):
        place.wipe()
        code = place.run(preexec_fn=lambda n=most: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))  # fmt: skip
        yield f"{most} file handles", f"exit code {code}, {place.statuses()}", place.finish()


def processes(folder: Path, *_: int) -> Iterator[Row]:
    """Runs of a user who may have few processes and threads. It has the rights of this one on files."""
    place = shared(folder.parent)
    rights = "--reuid=nobody --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override"
    for most in (4, 12, 24):
        place.wipe()
        code = place.run(by=f"prlimit --nproc={most} setpriv {rights}".split())
        yield f"{most} processes and threads", f"exit code {code}, {place.statuses()}", place.finish()  # fmt: skip


def clock(folder: Path, number: int, _: int) -> Iterator[Row]:
    """Set the wall clock forward and back by hours at points of a run.

    Until then, Python tells the processes of the run another time than this one. Then it tells this one, and the files get the times that
    they would have.
    """
    place = shared(folder.parent)
    length, offset = seconds_of(place), place.folder / "offset.txt"
    (place.folder / "clock").mkdir()
    (place.folder / "clock/sitecustomize.py").write_text(CLOCK.format(str(offset)))
    env = {"PYTHONPATH": str(place.folder / "clock")}
    for point in range(number):
        hours = (5, -5)[point % 2]
        place.wipe()
        place.said.write_text("")
        offset.write_text(f"{-hours * HOUR_S:+}")
        run = place.start(env=env)
        time.sleep(length * (point + 0.5) / number)
        offset.write_text("+0")
        for path in (*place.results.rglob("*"), *place.folder.glob(".snakemake/**/*")):
            with contextlib.suppress(FileNotFoundError):
                at = path.stat().st_mtime - hours * HOUR_S
                os.utime(path, (at, at))
        came = f"exit code {run.wait(timeout=900)}, {place.statuses()}"
        below_zero = [*negative(place)]
        yield f"clock set by {hours:+} h after {(point + 0.5) / number:.0%}", came, "; ".join([*below_zero, place.finish(1), *still_due(place)])  # fmt: skip


def still_due(place: Place) -> Iterator[str]:
    place.said.write_text("")
    place.run("-n")
    if "Nothing to be done" not in place.said.read_text():
        yield "jobs are due"


def negative(place: Place) -> Iterator[str]:
    """The times that are negative, of rows and stages, and a time of the whole run that cannot be."""
    with contextlib.suppress(OSError), (place.results / "latency.csv").open(newline="") as file:
        for at, row in enumerate(csv.DictReader(file)):
            times = [key for key in row if key.endswith(("_ms", "_s", "seconds"))]
            yield from (f"row {at}: {key} {row[key]}" for key in times if row[key].startswith("-"))
    for path in place.results.rglob("usage.json"):
        if (usage := outcome.read_usage(path)) and usage.seconds < 0:
            yield f"{path}: {usage.seconds} s"
    for line, seconds in re.findall(r"((-?\d+) s in all.*)", place.said.read_text()):
        if not 0 < int(seconds) < HOUR_S or " -" in line:
            yield line


SITE = "lib/python*/site-packages"
DAMAGES = (  # the environment, the file, whether it is deleted (or cut), and the stage during which ("": before a run)
    ("iree", "bin/python", True, ""),
    ("iree", f"{SITE}/iree/compiler/_mlir_libs/libIREECompiler.so", True, ""),
    ("iree", f"{SITE}/iree/compiler/_mlir_libs/libIREECompiler.so", False, "export"),
    ("iree", f"{SITE}/numpy/__init__.py", False, ""),
    ("iree", f"{SITE}/numpy/__pycache__/version.*.pyc", False, ""),
    ("torch-mlir", f"{SITE}/torch/nn/functional.py", True, ""),
)


def environment(folder: Path, *_: int) -> Iterator[Row]:
    """Damage a file of an environment between two runs, and while a run goes; then delete the environment, as the rows say."""
    place = shared(folder.parent)
    for env, pattern, is_deleted, stage in DAMAGES:
        place.wipe()
        run = place.start() if stage else None
        while run and run.poll() is None and stage not in {seen for _, seen, _ in place.roles(run.pid)}:  # fmt: skip
            time.sleep(0.1)
        [path] = (ROOT / ".venvs" / env).glob(pattern)
        kept = b"" if is_deleted else path.read_bytes()
        path.unlink()  # it may be linked with the cache of uv
        if not is_deleted:
            path.write_bytes(kept[: len(kept) // 2])
        code = (run or place.start()).wait(timeout=900)
        named = [row for row in place.rows() if f"delete {ROOT / '.venvs' / env}," in row["detail"]]
        came = f"exit code {code}, {place.statuses()}, {len(named)} rows say what to do"
        shutil.rmtree(ROOT / ".venvs" / env)
        what = f"{env}: {path.name} {'deleted' if is_deleted else 'cut'} {f'during {stage}' if stage else 'before a run'}"  # fmt: skip
        yield what, came, place.finish(1)


def two(folder: Path, *_: int) -> Iterator[Row]:
    """Two runs in one folder that start at the same time."""
    place = shared(folder.parent)
    for _ in range(2):
        place.wipe()
        place.said.write_text("")
        runs = [place.start(), place.start()]
        said = f"exit codes {sorted(run.wait(timeout=900) for run in runs)}"
        refused = place.said.read_text().count("another run (process")
        yield "two runs at once", f"{said}, {refused} refused", place.finish(1)


class Fault(NamedTuple):
    """What is done wrong on purpose, and what is promised of it. `inject` takes a folder, a number of kills or points, and a seed."""

    promise: str
    inject: Callable[[Path, int, int], Iterator[Row]]


REPAIRED = "the next run ends with the rows of an undisturbed one"
FAULTS = {
    "kills": Fault(f"{REPAIRED}; no process, lock or half-written file is left", kills),
    "disk": Fault(f"rows say `disk-full`, or the run stops; {REPAIRED}", disk),
    "handles": Fault(f"rows say `exhausted`, or the run stops; {REPAIRED}", handles),
    "processes": Fault(f"rows say `exhausted`, or the run stops; {REPAIRED}", processes),
    "clock": Fault(f"no time is negative; {REPAIRED}", clock),
    "environment": Fault(f"rows name the file and what to do; after that, {REPAIRED}", environment),
    "elsewhere": Fault("as on one file system", elsewhere),
    "read-only": Fault("one line says that `results/` has to be writable", read_only),
    "two": Fault("the second run is refused", two),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("faults", nargs="*", choices=FAULTS, help="default: all")
    parser.add_argument("--number", type=int, default=20, help="of kills, of points of a run")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    print(f"# in {folder}", flush=True)
    for name in args.faults or FAULTS:
        print(f"# {name}: {FAULTS[name].promise}", flush=True)
        for row in FAULTS[name].inject(folder / name, args.number, args.seed):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
