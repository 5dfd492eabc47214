"""Runs one child process under its limits, from its start until its whole process tree has ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.core import channel, exits, process
from scripts.supervise.caplog import Log
from scripts.supervise.child import CannotFork, Child, Exit, Spawned, fork
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.memory_series import Series

POLL_SECONDS = 0.1
STACK_SECONDS = 2.0
"""Seconds for a stage that has reached its time limit to print its stacks before it is killed."""
LOOK_SECONDS = 1.0
"""Seconds between two readings of the kernel's counter of kills while a stage runs."""
ENDING_SECONDS = 30.0
"""How long a process may take to end after the kernel has killed it: it frees much memory."""
STACKS = "# the time limit is met: the stack of every Python thread of the stage"


@dataclass(frozen=True)
class Ended:
    """How a child ended. `seconds`: wall time; of these, `startup_s` were before it reported that its work begins
    (None: it never did). `said`: the last line that it had printed when it reached a limit. `memory`: its resident
    memory over time."""

    returncode: int = 0
    seconds: float = 0.0
    max_rss_mb: float = 0.0
    stopped_for: str = ""
    peak_seen_mb: float = 0.0
    startup_s: float | None = None
    said: str = ""
    memory: Series | None = None

    @property
    def keeps_artifacts(self) -> bool:
        return not self.stopped_for and self.returncode in exits.KEEPS_ARTIFACTS


class Watch:
    """Runs the child of a job. `owner` must remain the parent of this process."""

    def __init__(self, job: Job, owner: int, scratch: Path, log: Log) -> None:
        self._job, self._owner, self._scratch, self._log = job, owner, scratch, log
        self._stop_asked: list[int] = []

    def run(self) -> Ended:
        """Run the child under its limits. Its whole process tree has ended when this returns or raises.

        Raises Interrupted if asked to stop or orphaned, and CannotStart if the command does not exist.
        """
        if self._job.preload:
            try:
                return self._run(forked=True)
            except (CannotFork, ConnectionError) as error:
                self._log.note(f"# not forked, but started by itself: {error}")
        return self._run(forked=False)

    def check(self) -> None:
        """Raise Interrupted if this process has to stop."""
        if self._stop_asked or os.getppid() != self._owner:
            raise Interrupted(f"{self._job.stage} {self._job.cell}: stopped before it ended")

    @contextlib.contextmanager
    def stop_requests(self) -> Iterator[None]:
        """Turn SIGTERM, SIGINT and SIGHUP into a flag, which `check` looks at."""
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        note = self._stop_asked.append
        before = {n: signal.signal(n, lambda number, _: note(number)) for n in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self, forked: bool) -> Ended:
        """Start the child and watch it to its end."""
        self._start = time.monotonic()
        self._startup: float | None = None
        self._limited_since = self._peak_mb = 0.0
        self._memory, self._kernel_kills = Series(), KernelKills()
        with contextlib.ExitStack() as opened:
            self._output, output = os.pipe()
            opened.callback(os.close, self._output)
            os.set_blocking(self._output, False)
            self._channel, theirs = socket.socketpair()
            opened.enter_context(self._channel).setblocking(False)
            try:
                child = self._start_child(output, theirs.fileno(), forked)
            finally:
                os.close(output)
                theirs.close()
            ended, stopped_for, said = None, "", ""
            try:
                with self._events(child.pid) as ready:
                    while ended is None:
                        self._wait(ready)
                        ended = child.reap()
                        if ended is not None:
                            break
                        self.check()
                        if stopped_for := self._limit_met(child):
                            self._drain()
                            said = self._log.last_line
                            if stopped_for == "timeout":
                                ended = self._show_stacks(child, ready)
                            ended = ended or child.kill()
                    seconds = self._seconds()
                    child.clear()
                    self._drain()
            finally:
                if ended is None:
                    with contextlib.suppress(ConnectionError):  # who forked it is gone, and it too
                        child.kill()
                    child.clear()
        returncode, max_rss_mb = ended
        if not stopped_for and returncode == -signal.SIGKILL and self._kernel_kills.lately():
            stopped_for = "kernel-oom"
        return Ended(
            returncode,
            seconds,
            round(max(self._peak_mb, max_rss_mb), 1),
            stopped_for,
            round(self._peak_mb, 1),
            self._startup,
            said,
            self._memory,
        )

    def _start_child(self, output: int, own_channel: int, forked: bool) -> Child:
        """Start the child with the file descriptors of its output and its channel. It gets scratch paths in place of the
        paths of artifacts."""
        job = self._job
        aside = {str(path): str(self._scratch / path.name) for path in job.artifacts}
        if len(set(aside.values())) != len(aside):
            raise ValueError(f"{job.stage} {job.cell}: two artifacts have the same file name")
        command = [aside.get(argument, argument) for argument in job.command]
        env = os.environ | {
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUNBUFFERED": "1",
            exits.LIMIT_VARIABLE: f"{job.memory_mb:g}",
            channel.VARIABLE: str(own_channel),
        }
        if not forked:
            return Spawned(command, env, output, own_channel)
        name = f"fork-server-{Path(job.command[0]).parent.parent.name}.txt"
        log = (job.journal or job.log_path).with_name(name)
        return fork(command, env, output, own_channel, self._owner, log, self.check)

    def _seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def _limit_met(self, child: Child) -> str:
        """The limit that the child has exceeded, or ""."""
        self._kernel_kills.follow()
        tree = child.tree()
        seen = process.resident_mb(tree)
        self._peak_mb = max(self._peak_mb, seen)
        self._memory.add(self._seconds(), seen)
        if self._seconds() - self._limited_since > self._job.timeout_s:
            return "timeout"
        if self._job.cpu_s is not None and process.cpu_seconds(tree) > self._job.cpu_s:
            return "cpu-time"
        limit = self._job.memory_mb
        # A plain sum counts shared pages once per process, but is cheaper to compute.
        if seen > limit and process.resident_mb(child.tree(), shared_once=True) > limit:
            return "oom"
        return ""

    def _show_stacks(self, child: Child, ready: selectors.BaseSelector) -> Exit | None:
        """Make a Python stage print its stacks, which ends it. Returns None if that takes too long.

        On SIGABRT, Python's faulthandler prints the stacks from the signal handler, even if all threads are waiting. It
        is enabled in every stage from its start, and therefore in the processes that the stage forks. Those get the
        signal first, because the stage may only be waiting for one of them.
        """
        self._log.insert(STACKS)
        for pid in (*process.same_program(child.pid), child.pid):
            process.leave_no_core(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
            self._wait(ready)
        deadline = time.monotonic() + STACK_SECONDS
        while (ended := child.reap()) is None and time.monotonic() < deadline:
            self._wait(ready)
        return ended

    @contextlib.contextmanager
    def _events(self, pid: int) -> Iterator[selectors.BaseSelector]:
        """A selector that wakes for output of the child, for its messages, and for its end."""
        with selectors.DefaultSelector() as ready, contextlib.ExitStack() as opened:
            ready.register(self._output, selectors.EVENT_READ)
            ready.register(self._channel, selectors.EVENT_READ)
            ended = process.opened(pid)
            if ended is not None:
                opened.callback(os.close, ended)
                ready.register(ended, selectors.EVENT_READ)
            yield ready

    def _wait(self, ready: selectors.BaseSelector) -> None:
        """Move output into the log until the child has ended or a poll interval is over."""
        deadline = time.monotonic() + POLL_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                if key.fileobj is self._channel:
                    self._listen(ready)
                elif key.fd != self._output:
                    return
                elif not self._drain(limit=1):
                    ready.unregister(self._output)

    def _listen(self, ready: selectors.BaseSelector) -> None:
        """Read the child's messages: that its work or a part of it begins."""
        try:
            said = self._channel.recv(4096)
        except OSError:
            said = b""
        if not said:
            ready.unregister(self._channel)
        if channel.WORKING in said and self._startup is None:
            self._startup = time.monotonic() - self._start
        if channel.NEXT in said:
            self._limited_since = self._seconds()
        for line in said.splitlines():
            if line.startswith(channel.MARK):
                name = line.removeprefix(channel.MARK).decode(errors="replace")
                self._memory.mark(self._seconds(), name)

    def _drain(self, limit: int = 1 << 16) -> bool:
        """Move the contents of the pipe into the log, with at most `limit` reads; False at its end."""
        for _ in range(limit):
            try:
                data = os.read(self._output, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._log.feed(data)
        return True


class KernelKills:
    """Follows the kernel's counter of processes killed for memory.

    A process cannot find out who sent a SIGKILL. The supervisor knows when it sends one itself. When the
    kernel's out-of-memory killer sends one, the counter rises just before. Any other SIGKILL is from outside.
    """

    def __init__(self) -> None:
        self._count = process.kernel_oom_kills()
        self._looked_at = time.monotonic()
        self._killed_at = float("-inf")

    def follow(self) -> None:
        """Read the counter from time to time: another stage may be killed while this one continues."""
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._look()

    def lately(self) -> bool:
        """Whether the kernel has killed a process within ENDING_SECONDS."""
        self._look()
        return time.monotonic() - self._killed_at < ENDING_SECONDS

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        if (count := process.kernel_oom_kills()) > self._count:
            self._count, self._killed_at = count, self._looked_at
