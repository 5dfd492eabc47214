"""Runs one child process under its limits, from its start until its whole process tree has ended, and keeps what it prints.

A failing iree-compile prints thousands of lines of IR. The first lines say what failed, the last ones
how it ended, and the `error:` lines in between are what a reader looks for. So a log keeps the head and the tail of what a tool
prints, and its diagnostics.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scripts.core import commands, exits, process
from scripts.supervise import sandbox
from scripts.supervise.child import CannotFork, Child, Exit, Spawned, fork
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.outcome import MemorySeries

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
LINE_BYTES = 4000
KEPT_DIAGNOSTICS = 200
_MARKS = (b"error:", b"Error:", b"ERROR", b"Assertion", b"terminate called", b"what():")


class Log(Protocol):
    """Receives the output of a stage: a CappedLog, which documents the methods, or several of them in turn."""

    @property
    def last_line(self) -> str: ...
    def note(self, text: str) -> None: ...
    def feed(self, data: bytes) -> None: ...
    def insert(self, text: str) -> None: ...


class CappedLog:
    """Write-once log file; `feed` takes raw bytes, `close` writes the kept tail.

    Raises OSError if the file cannot be made. Text that cannot be written later, for example to a
    full disk, is lost, and `lost` says why: a stage does not fail because of its log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("wb", buffering=0)
        self.lost: OSError | None = None
        self._pending = bytearray()
        self._last = b""
        self._head_left = HEAD_BYTES
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped_lines = 0
        self._dropped_bytes = 0
        self._diagnostics: list[bytes] = []
        self._rest = b""
        self._cut_in_line = 0

    def note(self, text: str) -> None:
        """Write a line of the supervisor's own (its command, its verdict)."""
        self._pending += text.encode() + b"\n"
        self._flush()

    @property
    def last_line(self) -> str:
        """The last line that was fed and is not blank, stripped; "" if there is none."""
        line = self._rest.strip() or self._last
        return line[:LINE_BYTES].decode("utf-8", "replace")

    def feed(self, data: bytes) -> None:
        """Take what the tool printed, in pieces of any size."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        # An unfinished line may be as long as a weight literal: keep only what will be shown.
        if len(rest) > LINE_BYTES:
            self._cut_in_line += len(rest) - LINE_BYTES
            rest = rest[:LINE_BYTES]
        self._rest = rest
        self._flush()

    def insert(self, text: str) -> None:
        """Add a line of the supervisor's own at the present position of the output."""
        self.feed((b"\n" if self._rest else b"") + text.encode() + b"\n")

    def close(self) -> None:
        """Write the rest: omitted diagnostics, then the tail."""
        if self._file.closed:
            return
        if self._rest or self._cut_in_line:
            self._line(self._rest)
            self._rest = b""
        if self._dropped_lines:
            dropped = (self._dropped_lines, self._dropped_bytes)
            self._pending += b"[... %d lines (%d bytes) left out ...]\n" % dropped
            for line in self._diagnostics:
                self._pending += b"[left out, but a diagnostic] " + line + b"\n"
        for line in self._tail:
            self._pending += line + b"\n"
        self._tail.clear()
        self._flush()
        try:
            self._file.close()
        except OSError as error:  # NFS says here that the disk is full
            self.lost = self.lost or error

    def _line(self, line: bytes) -> None:
        self._last = line.strip() or self._last
        cut = self._cut_in_line + max(0, len(line) - LINE_BYTES)
        self._cut_in_line = 0
        if cut:
            line = line[:LINE_BYTES] + b" [... %d bytes of this line left out]" % cut
        if self._head_left > 0:
            self._head_left -= len(line) + 1
            self._pending += line + b"\n"
            return
        self._tail.append(line)
        self._tail_size += len(line) + 1
        while self._tail_size > TAIL_BYTES and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._tail_size -= len(dropped) + 1
            self._dropped_lines += 1
            self._dropped_bytes += len(dropped) + 1
            if len(self._diagnostics) < KEPT_DIAGNOSTICS and any(m in dropped for m in _MARKS):
                self._diagnostics.append(dropped)

    def _flush(self) -> None:
        data, self._pending = self._pending, bytearray()
        try:
            while data and self.lost is None:
                del data[: self._file.write(data)]
        except OSError as error:
            self.lost = error


POLL_SECONDS = 0.1
STACK_SECONDS = 2.0
"""Seconds for a stage that has reached its time limit to print its stacks before it is killed."""
LOOK_SECONDS = 1.0
"""Seconds between two readings of the kernel's counter of kills while a stage runs."""
ENDING_SECONDS = 30.0
"""How long a process may take to end after the kernel has killed it: it frees much memory."""
LARGE_SHARE, NEAR_LIMIT = 0.5, 0.8
"""The shares of the memory of all, and of a stage's own limit, from which a kill for memory is due to the stage: the kernel's counter does
not say whom it has killed."""
TOOLS = "iree-"
"""The beginning of the names of IREE's tools."""
STACKS = "# the time limit is met: the stacks of the stage's compiler, and of every Python thread"


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
    memory: MemorySeries | None = None

    @property
    def keeps_artifacts(self) -> bool:
        return not self.stopped_for and self.returncode in exits.KEEPS_ARTIFACTS


class Watch:
    """Runs the child of a job. `owner` must remain the parent of this process."""

    def __init__(self, job: Job, owner: int, scratch: Path, log: Log) -> None:
        self._job, self._owner, self._scratch, self._log = job, owner, scratch, log
        self._stop_asked: list[int] = []
        self._writable: list[str] | None = None

    def run(self) -> Ended:
        """Run the child under its limits. Its whole process tree has ended when this returns or raises.

        Raises Interrupted if asked to stop or orphaned, and CannotStart if the command does not exist.
        """
        if self._job.sandbox:
            folders = sandbox.folders(self._job.sandbox, os.environ)
            self._log.note(sandbox.described(folders))
            self._writable = None if sandbox.unavailable() else folders
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
        self._memory, self._kernel_kills = MemorySeries(), KernelKills()
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
        most_mb = max(self._peak_mb, max_rss_mb)
        if not stopped_for and returncode == -signal.SIGKILL and self._kernel_kills.lately():
            is_large = most_mb >= LARGE_SHARE * process.shared_memory_mb()
            is_at_limit = most_mb >= NEAR_LIMIT * self._job.memory_mb
            stopped_for = "kernel-oom" if is_large or is_at_limit else "kernel-oom-of-others"
        return Ended(
            returncode,
            seconds,
            round(most_mb, 1),
            stopped_for,
            round(self._peak_mb, 1),
            self._startup,
            said,
            self._memory,
        )

    def _start_child(self, output: int, own_channel: int, forked: bool) -> Child:
        """Start the child with the file descriptors of its output and its channel. It makes its artifacts in the scratch
        folder."""
        job = self._job
        aside = {str(path): str(self._scratch / path.name) for path in job.artifacts}
        if len(set(aside.values())) != len(aside):
            raise ValueError(f"{job.stage} {job.cell}: two artifacts have the same file name")
        command = [aside.get(argument, argument) for argument in job.command]
        if job.request:
            command = [*job.command, "--out", str(self._scratch)]
        env = os.environ | {
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUNBUFFERED": "1",
            exits.LIMIT_VARIABLE: f"{job.memory_mb:g}",
            commands.CHANNEL_VARIABLE: str(own_channel),
        }
        if not forked:
            return Spawned(command, env, output, own_channel, writable=self._writable)
        name = f"fork-server-{Path(job.command[0]).parent.parent.name}.txt"
        log = (job.journal or job.log_path).with_name(name)
        return fork(command, env, output, own_channel, self._owner, log, self.check, self._writable)

    def _seconds(self) -> float:
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
        limit = self._job.memory_mb
        # A plain sum counts shared pages once per process, but is cheaper to compute.
        if seen > limit and process.resident_mb(child.tree(), shared_once=True) > limit:
            return "oom"
        return ""

    def _show_stacks(self, child: Child, ready: selectors.BaseSelector) -> Exit | None:
        """Make a stage and IREE's tools that it runs print their stacks, which ends them. Returns None if that takes too long.

        On SIGABRT, LLVM prints the stack of the compiler, and Python's faulthandler prints the stacks from the signal
        handler, even if all threads are waiting. It is enabled in every stage from its start, and therefore in the processes that
        the stage forks. Those get the signal first, because the stage may only be waiting for one of them, and tools before them,
        because they die with the stage, which may pass on what they print.
        """
        self._log.insert(STACKS)
        below = process.descendants(child.pid)
        tools = [pid for pid in below if process.name(pid).startswith(TOOLS)]
        for pid in tools:
            _abort(pid)
        deadline = time.monotonic() + STACK_SECONDS
        while not all(map(process.has_ended, tools)) and time.monotonic() < deadline:
            self._wait(ready)
        for pid in (*process.same_program(child.pid), child.pid):
            _abort(pid)
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
        if commands.WORKING in said and self._startup is None:
            self._startup = time.monotonic() - self._start
        if commands.NEXT in said:
            self._limited_since = self._seconds()
        for line in said.splitlines():
            if line.startswith(commands.MARK):
                name = line.removeprefix(commands.MARK).decode(errors="replace")
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


def _abort(pid: int) -> None:
    """Send SIGABRT to a process, if it still exists; it leaves no core dump."""
    process.leave_no_core(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGABRT)


class KernelKills:
    """Follows the kernel's counter of processes killed for memory, which rises just before it sends a SIGKILL. One that neither the
    kernel nor the supervisor has sent is from outside."""

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
