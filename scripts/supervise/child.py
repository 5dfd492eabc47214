"""The process of a stage, as its supervisor handles it: its tree, its end, its memory.

It is started as a new program, or forked by the fork server of the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.core import process, temporary
from scripts.supervise import fork_server, sandbox
from scripts.supervise.job import CannotStart

Exit = tuple[int, float]
"""Exit code (negative: signal), peak resident set of the process itself in MiB (ru_maxrss)."""

CONNECT_SECONDS = 5.0
"""Seconds from the start of a server until it listens. It imports packages after that."""
RETRY_SECONDS = 0.02
AFTER_END_SECONDS = 0.2
"""Seconds from the end of a server that was started until another one, which was faster, listens."""


class CannotFork(Exception):
    """There is no fork server, or it cannot fork: the stage has to be started as a new process."""


class Spawned:
    """A child of this process, started as a new program.

    All descendants of this process are its tree. If it is one of `several` children, only its own descendants are, and
    `clear` does nothing: what else it has started is killed when all of them have ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        output: int,
        channel: int,
        folder: Path | None = None,
        several: bool = False,
        writable: Sequence[str] | None = None,
    ) -> None:
        """`folder`: in which it runs; None for that of this process. `writable`: the folders that it may write to, in a
        sandbox; None for no sandbox."""
        self._several = several
        process.adopt_orphans()
        setup = process.child_setup(os.getpid())

        def prepare() -> None:
            setup()
            if writable is not None:
                sandbox.enter(writable)

        try:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=prepare,
                env=dict(env),
                pass_fds=[channel],
                cwd=folder,
            )
        # An environment that was moved away, say, or an error in `prepare`.
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotStart(str(error)) from error
        self.pid = self._popen.pid

    def tree(self) -> list[int]:
        """Process ids of the stage and of everything that it started, in all sessions."""
        if self._several:
            return [self.pid, *process.descendants(self.pid)]
        return process.descendants(os.getpid())

    def reap(self, options: int = os.WNOHANG) -> Exit | None:
        """How the process of the stage ended; None while it is running."""
        pid, status, usage = os.wait4(self.pid, options)
        if not pid:
            return None
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        return self._popen.returncode, process.rss_mb(usage)

    def kill(self) -> Exit:
        """Kill the whole tree and wait for its end."""
        if self._several:
            process.kill_tree(self.pid)
        else:
            process.kill_descendants(spare=self.pid)
        ended = self.reap(0)
        assert ended is not None  # without WNOHANG, wait4 returns when it has ended
        return ended

    def clear(self) -> None:
        """Kill the processes that an ended stage has left running."""
        if not self._several:
            process.kill_descendants()


class Forked:
    """A stage that is not a child of this process: the server that forked it waits for it.

    The stage adopts orphans among its descendants, so its whole tree is below it. The server kills
    the tree when this process ends.
    """

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._connection = connection
        opened = process.opened(pid)
        if opened is None:
            raise CannotFork("this system cannot watch another's child (pidfd_open)")
        self._opened = opened

    def tree(self) -> list[int]:
        return [self.pid, *process.descendants(self.pid)]

    def reap(self) -> Exit | None:
        if not select.select([self._opened], [], [], 0)[0]:
            return None
        said = b""
        with contextlib.suppress(ConnectionError):
            self._connection.send(fork_server.REAP)
            said = self._connection.recv(fork_server.MESSAGE_BYTES)
        if not said:
            raise ConnectionError("the process that forked it is gone")
        ended = json.loads(said)
        return ended["returncode"], ended["max_rss_mb"]

    def kill(self) -> Exit:
        process.kill_tree(self.pid)
        while (ended := self.reap()) is None:
            time.sleep(0.01)
        return ended

    def clear(self) -> None:
        """Does nothing: the server has killed them when it was asked how the stage ended."""
        self._connection.close()
        os.close(self._opened)


Child = Spawned | Forked


def fork(
    command: Sequence[str],
    env: Mapping[str, str],
    output: int,
    channel: int,
    owner: int,
    log: Path,
    check: Callable[[], None],
    writable: Sequence[str] | None = None,
) -> Forked:
    """Make the run's server for this Python fork `python -m <module> …`; start the server if necessary.

    `output` and `channel` are file descriptors for the stage, `log` is the server's log. `check` is
    called while the server starts, and may raise to end the wait. `writable`: as of Spawned. Raises CannotFork.
    """
    python, dash_m, module, *arguments = command
    if dash_m != "-m" or not hasattr(socket, "SO_PEERCRED"):
        raise CannotFork("not a Python module, or not on Linux")
    request = {"module": module, "arguments": arguments, "env": dict(env), "writable": writable}
    with contextlib.ExitStack() as opened:
        connection = opened.enter_context(_connect(python, owner, log, check))
        try:
            socket.send_fds(connection, [json.dumps(request).encode()], [output, channel])
            while not select.select([connection], [], [], 0.1)[0]:  # it may still be importing
                check()
            said = connection.recv(fork_server.MESSAGE_BYTES)
        except OSError as error:
            raise CannotFork(f"the process to fork did not take it: {error}") from error
        if not said:
            raise CannotFork(f"the process to fork ended: see {log}")
        answer: dict[str, Any] = json.loads(said)
        if "pid" not in answer:
            raise CannotFork(answer["refused"])
        forked = Forked(answer["pid"], connection)
        opened.pop_all()
        return forked


def _connect(python: str, owner: int, log: Path, check: Callable[[], None]) -> socket.socket:
    """A connection to the server, which is started if there is none."""
    program = shutil.which(python)
    if program is None:
        raise CannotFork(f"no such command: {python}")
    where = fork_server.address(program, owner)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, fork_server.MESSAGE_BYTES)
    started: subprocess.Popen | None = None
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            connection.connect(where)
            return connection
        check()
        if started is None:
            started = _start_server(program, owner, log)
        elif started.poll() is not None:  # it failed, or another one listens in a moment
            deadline = min(deadline, time.monotonic() + AFTER_END_SECONDS)
        if time.monotonic() > deadline:
            connection.close()
            raise CannotFork(f"the process to fork does not listen: see {log}")
        time.sleep(RETRY_SECONDS)


def _start_server(python: str, owner: int, log: Path) -> subprocess.Popen:
    words = ("-m", "scripts.stages.fork_server", "--owner", str(owner), "--python", python)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        try:
            return subprocess.Popen(
                [python, "-u", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=os.environ | {"TMPDIR": temporary.machine()},  # this job's ends with it
            )
        except OSError as error:  # an environment that was moved away: spawning says so in full
            raise CannotFork(str(error)) from error
