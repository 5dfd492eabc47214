"""Process trees: children that end with their parent, and finding, measuring and killing descendants."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

KILL_GRACE_SECONDS = 10.0

# linux/prctl.h. There is no maintained library for these two calls on Python 3.11.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel to SIGKILL this process when its parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def opened(pid: int) -> int | None:
    """A file descriptor that is readable once the process has ended; None where there is no such
    process, or the system cannot tell (pidfd_open(2), Linux 5.3)."""
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent exits, so that all of them can be killed."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def child_setup(parent: int) -> Callable[[], None]:
    """A `preexec_fn`: the child dies with `parent`, even if that has already died."""

    def setup() -> None:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)

    return setup


def descendants(pid: int) -> list[int]:
    """Process ids of all children, grandchildren and so on, zombies included.

    Asks the kernel for each process's own list (proc(5), /proc/<pid>/task/<tid>/children), which costs a
    fraction of a walk over every process of the machine: this is called ten times a second.
    """
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        import psutil  # kernels without CONFIG_PROC_CHILDREN

        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    pids: list[int] = []
    todo = [pid]
    while todo:
        children = _children(todo.pop())
        pids += children
        todo += children
    return pids


def same_program(pid: int) -> list[int]:
    """The descendants of a process that run the same program: those that a Python process has forked, or
    started with the same interpreter."""

    def program(pid: int) -> str:
        with contextlib.suppress(OSError):  # not told, as of one that has ended
            return os.readlink(f"/proc/{pid}/exe")
        return ""

    own = program(pid)
    return [below for below in descendants(pid) if program(below) == own != ""]


def _children(pid: int) -> list[int]:
    """The children of every thread of a process; none once it is gone, at whatever moment."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                listed = Path(f"/proc/{pid}/task/{thread}/children").read_text()
                children += [int(child) for child in listed.split()]
    return children


def resident_mb(pids: Iterable[int], shared_once: bool = False) -> float:
    """Resident set of several processes together, in MiB; processes that have ended count as 0.

    A plain sum counts pages that forked workers share once per process. `shared_once` uses the kernel's
    proportional shares instead, which is slower and therefore only used near the limit.
    """
    size = _proportional_bytes if shared_once else _resident_bytes
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += size(pid)
    return total / 2**20


def _resident_bytes(pid: int) -> int:
    """By proc(5), statm. (psutil reads the same; its import is a third of the start of a supervisor.)"""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _proportional_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def kill_descendants(spare: int | None = None, but: Collection[int] = ()) -> None:
    """SIGKILL every descendant of this process and reap all of them but `spare`.

    `spare` is killed too, but left to be waited for by whoever wants its resource usage; children
    in `but` and what they have started are left alone. New sessions and daemons are descendants as
    well, once this process has adopted orphans.
    """
    deadline = time.monotonic() + KILL_GRACE_SECONDS
    while time.monotonic() < deadline:
        alone = {pid for child in but for pid in (child, *descendants(child))}
        others = [pid for pid in descendants(os.getpid()) if pid != spare and pid not in alone]
        _kill(others if spare is None else [*others, spare])
        if not others:
            return
        for pid in others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def kill_tree(pid: int) -> None:
    """SIGKILL a process that is not our child, and all its descendants, until only its zombie is left."""
    deadline = time.monotonic() + KILL_GRACE_SECONDS
    while time.monotonic() < deadline:
        below = descendants(pid)
        _kill([*below, pid])
        if not below and has_ended(pid):
            return
        time.sleep(0.01)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def name(pid: int) -> str:
    """The name of a process, its first 15 characters (proc(5), comm); "" if there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""


def has_ended(pid: int) -> bool:
    """Whether a process has ended, and is not yet waited for (or is gone)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def kernel_oom_kills() -> int:
    """The number of processes that the kernel has killed for memory: in this control group (cgroup v2,
    memory.events), else on the machine since boot (/proc/vmstat, Linux 4.13)."""
    with contextlib.suppress(OSError):
        for line in _kernel_oom_counter().read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


@functools.cache
def _kernel_oom_counter() -> Path:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            events = Path(f"/sys/fs/cgroup{line.removeprefix('0::')}/memory.events")
            if line.startswith("0::") and events.is_file():
                return events
    return Path("/proc/vmstat")


def shared_memory_mb() -> float:
    """The MiB for whose sake the kernel kills processes: the least limit of this control group and those above it (cgroup v2), else
    the memory of the machine."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20]
    folder = _kernel_oom_counter().parent
    for group in (folder, *folder.parents):
        with contextlib.suppress(OSError, ValueError):  # one without a limit has `max`
            limits.append(int((group / "memory.max").read_text()) / 2**20)
    return min(limits)


def leave_no_core(pid: int) -> None:
    """Prevent a core dump of a process, if the system supports it (prlimit(2), core(5)).

    The limit is one byte, because 0 does not apply to a core dump that is piped to a program.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (1, 1))


@dataclass(frozen=True)
class Limits:
    """What a tool may use: wall seconds, and MiB of resident memory."""

    seconds: float
    memory_mb: float


@dataclass(frozen=True)
class ToolRun:
    """A finished tool: exit code (negative: signal), wall seconds, peak RSS in MiB, and CPU seconds of all of its threads.
    `stopped_for`: "timeout" or "oom" if it was killed because it had reached a limit."""

    returncode: int
    seconds: float
    max_rss_mb: float
    cpu_s: float
    stopped_for: str = ""


def run_tool(
    command: Sequence[str],
    limits: Limits | None = None,
    output: IO[str] | None = None,
    said: list[str] | None = None,
) -> ToolRun:
    """Run a tool, and measure that process alone. What it prints is passed through, or written to `output`. The lines of its
    standard error are added to `said`, without `limits`.

    Peak RSS is the kernel's own `ru_maxrss` of the tool, which no polling can miss.
    """
    start = time.monotonic()
    child = subprocess.Popen(
        list(command),
        stdout=output,
        stderr=output if said is None else subprocess.PIPE,
        preexec_fn=child_setup(os.getpid()),
    )
    if child.stderr is not None and said is not None:
        with child.stderr:
            for line in child.stderr:
                said.append(line.decode(errors="replace"))
                os.write(2, line)
    stopped_for = _stopped_for(child.pid, limits, start) if limits else ""
    _, wait_status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(wait_status)
    seconds, cpu_s = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    return ToolRun(child.returncode, seconds, rss_mb(usage), cpu_s, stopped_for)


def captured(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    timeout_s: float | None = None,
    cpu_s: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command and return the outcome, with what it printed. After `cpu_s` seconds of CPU time, SIGXCPU ends it. Raises OSError
    if it cannot be started, and subprocess.TimeoutExpired."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s or 0, cpu_s or 0))

    return subprocess.run(
        command,
        cwd=cwd,
        timeout=timeout_s,
        preexec_fn=limit if cpu_s else None,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def require_tool(command: Sequence[str]) -> ToolRun:
    """Run a tool as `run_tool` does. If it fails, this process ends in the same way."""
    run = run_tool(command)
    if run.returncode != 0:
        exit_like(run.returncode)
    return run


def forked(work: Callable[[], bytes]) -> tuple[int, bytes]:
    """Do `work` in a forked process. Return the outcome (negative: by this signal; 1: with an exception, whose traceback it has
    printed) and what `work` returned."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        # Freeing the parent's garbage may wait for threads that a forked process does not have.
        gc.freeze()
        code = 1
        try:
            child_setup(parent)()
            with os.fdopen(writing, "wb") as answer:
                answer.write(work())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def _stopped_for(pid: int, limits: Limits, start: float) -> str:
    """Wait until a child has ended, or kill it at a limit; return which one, or ""."""
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        late = time.monotonic() - start > limits.seconds
        if late or resident_mb([pid]) > limits.memory_mb:
            os.kill(pid, signal.SIGKILL)
            return "timeout" if late else "oom"
        time.sleep(0.02)
    return ""


def reset_peak_rss() -> None:
    """Reset this process's peak memory, if the system supports it (proc(5), clear_refs)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_rss_mb() -> float:
    """Peak resident set of this process in MiB, since the last reset if the system supports that."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    return round(rss_mb(resource.getrusage(resource.RUSAGE_SELF)), 1)


def private_bytes() -> int:
    """Resident memory of this process that it shares with no file, in bytes; 0 if the system does not tell (proc(5), statm)."""
    with contextlib.suppress(OSError):
        _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
        return (int(resident) - int(shared)) * resource.getpagesize()
    return 0


def rss_mb(usage: resource.struct_rusage) -> float:
    """Peak resident set in MiB; Linux reports KiB (getrusage(2))."""
    return usage.ru_maxrss / 1024


def exit_like(returncode: int) -> NoReturn:
    """End this process like the tool: by the same signal, or with 1 for any failure.

    The exit codes of tools have other meanings (IREE's tools exit with status codes) than those of
    scripts/core/exits.py, so they are not passed on.
    """
    if returncode < 0:
        # A core dump of this process would not help; the tool may have left its own.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -returncode not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    raise SystemExit(1 if returncode else 0)
