"""Processes that cannot outlive whoever started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# linux/prctl.h. There is no kept library for these two calls on Python 3.11.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Ask the kernel to SIGKILL this process when its parent dies (Linux; else nothing)."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent exits, so that none escapes a kill."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def child_setup(parent: int) -> Callable[[], None]:
    """A `preexec_fn`: die with `parent`, even when it died before this line was reached."""

    def setup() -> None:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)

    return setup


def descendants(pid: int) -> list[int]:
    """Process ids of all children, grandchildren and so on, zombies included.

    Asks the kernel for each process's own list (proc(5), /proc/<pid>/task/<tid>/children),
    which costs a fraction of a walk over every process of the machine: this is called ten
    times a second beside measurements.
    """
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        import psutil  # kernels without CONFIG_PROC_CHILDREN, and other systems

        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    found: list[int] = []
    todo = [pid]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(child) for child in task.read_text().split()]
                found += children
                todo += children
    return found


@dataclass(frozen=True)
class ToolRun:
    """A finished tool: exit code (negative: signal), wall seconds, peak RSS in MiB."""

    returncode: int
    seconds: float
    max_rss_mb: float


def run_tool(command: Sequence[str]) -> ToolRun:
    """Run a tool with its output passed through, and account for that process alone.

    Peak RSS is the kernel's own `ru_maxrss` of the tool, which no polling can miss.
    """
    start = time.monotonic()
    child = subprocess.Popen(list(command), preexec_fn=child_setup(os.getpid()))
    _, wait_status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(wait_status)
    return ToolRun(child.returncode, time.monotonic() - start, rss_mb(usage))


def rss_mb(usage: resource.struct_rusage) -> float:
    """Peak resident set in MiB; Linux reports KiB (getrusage(2))."""
    return usage.ru_maxrss / 1024


def exit_like(returncode: int) -> None:
    """End this process as the tool ended: same exit code, or the same signal."""
    if returncode < 0:
        number = -returncode
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(number, signal.SIG_DFL) if number not in (9, 19) else None
        os.kill(os.getpid(), number)
    raise SystemExit(returncode)
