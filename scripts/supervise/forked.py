"""A stage that the fork server of the run has forked, as its supervisor handles it."""

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

from scripts.core import process
from scripts.supervise import fork_server
from scripts.supervise.child import Ended

CONNECT_SECONDS = 5.0
"""Seconds from the start of a server until it listens. It imports packages after that."""
RETRY_SECONDS = 0.02
AFTER_END_SECONDS = 0.2
"""Seconds from the end of a server that was started until another one, which was faster, listens."""


class CannotFork(Exception):
    """There is no fork server, or it cannot fork: the stage has to be started as a new process."""


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

    def reap(self) -> Ended | None:
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

    def kill(self) -> Ended:
        process.kill_tree(self.pid)
        while (ended := self.reap()) is None:
            time.sleep(0.01)
        return ended

    def clear(self) -> None:
        """Does nothing: the server has killed them when it was asked how the stage ended."""
        self._connection.close()
        os.close(self._opened)


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    output: int,
    channel: int,
    owner: int,
    log: Path,
    check: Callable[[], None],
) -> Forked:
    """Make the run's server for this Python fork `python -m <module> …`; start the server if necessary.

    `output` and `channel` are file descriptors for the stage, `log` is the server's log. `check` is
    called while the server starts, and may raise to end the wait. Raises CannotFork.
    """
    python, dash_m, module, *arguments = command
    if dash_m != "-m" or not hasattr(socket, "SO_PEERCRED"):
        raise CannotFork("not a Python module, or not on Linux")
    request = {"module": module, "arguments": arguments, "env": dict(env)}
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
        opened.pop_all()
        return Forked(answer["pid"], connection)


def _connect(python: str, owner: int, log: Path, check: Callable[[], None]) -> socket.socket:
    """A connection to the server, which is started if there is none."""
    found = shutil.which(python)
    if found is None:
        raise CannotFork(f"no such command: {python}")
    where = fork_server.address(found, owner)
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
            started = _start_server(found, owner, log)
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
            )
        except OSError as error:  # an environment that was moved away: spawning says so in full
            raise CannotFork(str(error)) from error
