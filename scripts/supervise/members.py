"""The processes of the members of a group that is timed (measure/timing/turns.py), and their limits.

`time_in_turns` times a few programs without a job, for commands that a person runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, process, requests, temporary
from scripts.core.requests import StageRequest
from scripts.measure.timing import ratios
from scripts.measure.timing.group_timing import GroupTiming, latencies, part_of
from scripts.measure.timing.turns import Group, MemberEnded, Rule
from scripts.measure.timing.worker import FIRST, READY, REST, WAKE
from scripts.supervise import outcome, sandbox
from scripts.supervise.child import CannotFork, Child, Exit, Spawned, fork
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.environment_damage import with_environment_damage
from scripts.supervise.job import CannotStart, Job
from scripts.supervise.watch import Watch

VERIFICATION = "verification.json"
MODULE, BASELINE = "scripts.stages.time_module", "scripts.stages.time_baseline"
"""What times a module of IREE and a baseline."""
REST_S = 30.0
"""Seconds in which a process has to release its program."""
BUILT = 1.5
"""How much memory a baseline needs when it is timed, as a multiple of what its verification needed: the process that has
built the model stays beside the one that is forked from it."""
POLL_S = 0.5
"""Seconds between two looks at the memory of the members, and at whether this process has to stop."""


@dataclass(frozen=True)
class Member:
    """A member of a group: the command of its worker. `forked`: from a process that has imported the packages of its
    environment. `env`: further environment variables. `folder`: in which it runs, then not forked (None: that of this
    process). `sandbox`: the folder that it may write to beside that of temporary files, in a sandbox; None for no sandbox."""

    name: str
    command: tuple[str, ...]
    log: Path
    forked: bool = True
    env: Mapping[str, str] | None = None
    folder: Path | None = None
    sandbox: Path | None = None

    @classmethod
    def verified(
        cls, name: str, folder: Path, log: Path, forked: bool, sandboxed: bool = False
    ) -> Member:
        """A program that was verified: its worker loads the same files. `folder`: of the verification. Raises OSError, or
        ValueError if one of its files cannot be read."""
        measured = atomic.read_json(folder / VERIFICATION)
        command = timing_command(requests.read(folder), folder, measured)
        return cls(name, tuple(command), log, forked, sandbox=folder if sandboxed else None)


def timing_command(verified: StageRequest, folder: Path, measured: Mapping[str, Any]) -> list[str]:
    """The command of the process that times a row.

    `verified`: the request of its verification, in `folder`. `measured`: what that found out: of IREE, the flags of
    iree-benchmark-module, which scripts.stages.time_module takes.
    """
    python = measured["python"] if verified.python == "python" else verified.python
    if measured["flags"]:
        return [python, "-m", MODULE, *measured["flags"]]
    return replace(verified, module=BASELINE, python=python).command(folder)


def memory_mb(folder: Path) -> float:
    """The memory that a verified member needs when it is timed, in MiB; 0 if it is not known."""
    used = outcome.read_usage(folder / outcome.STATUS)
    is_baseline = not atomic.read_json(folder / VERIFICATION)["flags"]
    return used.max_rss_mb * (BUILT if is_baseline else 1) if used else 0.0


def parts(
    needs_mb: Mapping[str, float], anchor: str, limit_mb: float, most: int | None = None
) -> list[list[str]]:
    """The members that are timed together: all of them, if their processes fit into the memory and there are not more
    than `most`. Otherwise several parts, each with the anchor as its first one ("": there is none)."""
    first = [anchor] if anchor else []
    groups = [first]
    for name in (name for name in needs_mb if name != anchor):
        part = [*groups[-1], name]
        together = [needs_mb[member] for member in part]
        is_full = sum(together) + max(together) > limit_mb or len(part) > (most or len(needs_mb))
        if is_full and groups[-1] != first:
            groups.append([*first, name])
        else:
            groups[-1] = part
    return [part for part in groups if part]


class Process:
    """A turns.Worker, from its start to its end. `check` is called before requests and while it is waited for, and may
    raise. `keeps`: whether it rests between generations if it can, and does not end.

    Raises MemberEnded if its command cannot be started.
    """

    def __init__(
        self,
        member: Member,
        owner: int,
        server_log: Path,
        load_s: float,
        check: Callable[[], None],
        keeps: bool = False,
    ) -> None:
        self._member, self._load_s, self._check = member, load_s, check
        self._said = b""
        self._too_large: MemberEnded | None = None
        self._killed: Exit | None = None
        ours, theirs = socket.socketpair()
        member.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened, member.log.open("wb") as out, theirs:
            # A worker is killed at its end, and cannot remove what it has written.
            own_folder = opened.enter_context(temporary.folder("worker"))
            env = os.environ | {
                "PYTHONFAULTHANDLER": "1",
                "PYTHONUNBUFFERED": "1",
                commands.CHANNEL_VARIABLE: str(theirs.fileno()),
                "TMPDIR": str(own_folder),
                temporary.MACHINE: temporary.machine(),
                **(member.env or {}),
            }
            self._child = self._start(env, out.fileno(), theirs.fileno(), owner, server_log)
            self._opened = opened.pop_all()
        self._socket, self._ended = ours, False
        self._keeps, self._rests, self.is_resting = keeps, False, False

    def _start(
        self, env: Mapping[str, str], output: int, own_channel: int, owner: int, server_log: Path
    ) -> Child:
        command = list(self._member.command)
        writable = None
        if self._member.sandbox and not sandbox.unavailable():
            writable = sandbox.folders(self._member.sandbox, env)
        if self._member.forked and self._member.folder is None:
            with contextlib.suppress(CannotFork, ConnectionError):
                return fork(command, env, output, own_channel, owner, server_log, self._check, writable)  # fmt: skip
        try:
            return Spawned(command, env, output, own_channel, self._member.folder, True, writable)
        except CannotStart as error:
            said = Diagnosis("error", "cannot-start", str(error))
            raise self._member_ended(said) from error

    def wait_ready(self) -> None:
        while READY not in (said := self._answer(self._load_s)):
            pass
        self._rests = self._keeps and said.get(REST, False)

    def first_call(self) -> dict[str, Any]:
        self._check()
        self._send({FIRST: True})
        return self._answer(self._load_s)

    def wake(self) -> None:
        """Begin a further generation of a process that rests. Raises MemberEnded from `wait_ready`."""
        self.is_resting = False
        self._send({WAKE: True})

    def rest(self) -> None:
        """Release the program. A process that cannot load it again ends."""
        try:
            if self._rests and not self._ended:
                self._send({REST: True})
                self._answer(REST_S)
                self.is_resting = True
        except MemberEnded:
            pass
        finally:
            if not self.is_resting:
                self.close()

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        self._check()  # now, as nothing is timed
        self._send(request)
        return self._answer(limit_s)

    def _send(self, request: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(request).encode() + b"\n")

    def tree(self) -> list[int]:
        """The ids of its processes."""
        return [] if self._ended or self._killed else self._child.tree()

    def too_large(self, detail: str) -> None:
        """End the process, because the members need more memory than there may be."""
        self._too_large = MemberEnded("oom", "memory-limit", detail)
        self._killed = self._child.kill()

    def close(self) -> None:
        """End the process and all that it has started."""
        if not self._ended:
            self._ended = True
            if not self._killed:
                with contextlib.suppress(ConnectionError):
                    self._child.kill()
            self._child.clear()
        self._socket.close()
        self._opened.close()

    def _answer(self, limit_s: float) -> dict[str, Any]:
        """The next JSON object that the worker sends."""
        deadline = time.monotonic() + limit_s
        while True:
            while b"\n" in self._said:
                line, _, self._said = self._said.partition(b"\n")
                if line.startswith(b"{"):
                    return json.loads(line)
            left = deadline - time.monotonic()
            if left <= 0:
                raise MemberEnded("timeout", "time-limit", f"no answer for {limit_s:.0f} s")
            if not select.select([self._socket], [], [], min(left, POLL_S))[0]:
                self._check()
                if (ended := self._killed or self._reap()) is not None:
                    raise self._diagnosed(ended)
                continue
            try:
                data = self._socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise self._diagnosed(self._wait())
            self._said += data

    def _wait(self) -> Exit:
        """How the process ended. One that closed its channel and goes on is killed."""
        deadline = time.monotonic() + 10
        while (ended := self._killed or self._reap()) is None:
            if time.monotonic() > deadline:
                return self._child.kill()
            time.sleep(0.01)
        return ended

    def _reap(self) -> Exit | None:
        """How the process ended; None while it runs. It ends with the process that forked it."""
        try:
            return self._child.reap()
        except ConnectionError as error:
            self._ended = True
            self._child.clear()
            raise MemberEnded("crashed", signal.SIGKILL.name, str(error)) from error

    def _diagnosed(self, ended: Exit) -> MemberEnded:
        self._ended = True
        self._child.clear()
        if self._too_large:
            return self._too_large
        if ended[0] == 0:
            return MemberEnded("error", "stage-error", "it ended while it was timed")
        printed = self._member.log.read_text(encoding="utf-8", errors="replace")
        return self._member_ended(diagnose(ended[0], printed))

    def _member_ended(self, diagnosis: Diagnosis) -> MemberEnded:
        said = with_environment_damage(diagnosis, self._member.command[0])
        return MemberEnded(said.status, said.reason, said.detail)


class Workers:
    """Starts the processes of members, and looks at the limits of the job that times them: its memory, and `seconds`
    from now. `peak_mb`: the peak memory of all of them together, MiB."""

    def __init__(self, job: Job, owner: int, watch: Watch, seconds: float) -> None:
        self._job, self._owner, self._watch = job, owner, watch
        self._seconds, self._deadline = seconds, time.monotonic() + seconds
        self._started: dict[str, Process] = {}
        self._looked = 0.0
        self.peak_mb = 0.0

    def start(self, member: Member) -> Process:
        kept = self._started.get(member.name)
        if kept and kept.is_resting:
            kept.wake()
            return kept
        server_log = (self._job.journal or self._job.log_path).with_name("fork-server-timing.txt")
        load_s = max(60.0, self._deadline - time.monotonic())
        owner = self._job.owner or self._owner
        started = Process(member, owner, server_log, load_s, self._check, keeps=True)
        self._started[member.name] = started
        return started

    def close(self) -> None:
        """End all processes."""
        for started in self._started.values():
            started.close()

    def _check(self) -> None:
        """Look at the limits, but at the memory not more often than every POLL_S. Raises Interrupted and TimeoutError."""
        self._watch.check()
        now = time.monotonic()
        if now > self._deadline:
            raise TimeoutError(f"still timing after {self._seconds:g} s")
        if now < self._looked + POLL_S:
            return
        self._looked = now
        trees = {name: started.tree() for name, started in self._started.items()}
        pids = [pid for tree in trees.values() for pid in tree]
        seen, limit_mb = process.resident_mb(pids), self._job.memory_mb
        if seen > limit_mb:
            seen = process.resident_mb(pids, shared_once=True)
        self.peak_mb = max(self.peak_mb, seen)
        if seen > limit_mb:
            largest = max(trees, key=lambda name: process.resident_mb(trees[name]))
            detail = f"all members held {seen:.0f} MiB; the limit is {limit_mb:.0f} MiB, and this one held most"
            self._started[largest].too_large(detail)


TWIN = " again"
"""The end of the name of the control's second process."""
LOAD_S = 600.0
"""Seconds in which a program has to be loaded."""


def time_in_turns(
    members: Sequence[Member], rule: Rule, said: Callable[[str], None] = lambda _: None
) -> GroupTiming:
    """Time members until each ratio to the first one is decided, for the budget of the rule at most; the first one is there
    twice, as a control. One member has no ratio, and takes the whole budget. (Where it is measured elsewhere, there is no scipy,
    which a ratio needs.)

    A member that ended, or could not be started, has the reason in its MemberTiming.
    """
    first, started = members[0], time.time()
    twin = replace(first, name=f"{first.name}{TWIN}", log=first.log.with_name("control.txt"))
    by_name = {member.name: member for member in (*members, twin)}
    group = Group(
        list(by_name),
        lambda name: Process(by_name[name], os.getpid(), by_name[name].log, LOAD_S, lambda: None),
        rule,
        lambda timed: len(members) > 1 and ratios.is_decided(latencies(timed), [first.name]),
        said,
    )
    group.run()
    part, timed = part_of(group.timed, first.name, twin.name, "", 0)
    others = group.load.others()
    return GroupTiming(
        started,
        rule.text(),
        "",
        timed,
        (part,),
        foreign=others.foreign,
        steal=others.steal,
        load=group.load.average,
    )


def failed_member(timing: GroupTiming) -> str:
    """How a member ended otherwise than it should; "" if none did."""
    for name, member in timing.members.items():
        if member.status != outcome.OK:
            return f"{name}: {member.status} ({member.reason}): {member.detail}"
    return ""


def unfit_control(timing: GroupTiming) -> str:
    """Why ratios of these turns may be wrong: the two processes of the control differ; "" if they do not."""
    [part] = timing.parts
    ratio = ratios.paired(*part.control_ms, timing.noise(0)) if part.control else None
    at = ratio.interval() if ratio else None
    if at is None or at.low <= 1 <= at.high:
        return ""
    return f"two processes of {part.control} differ by a factor of {at.ratio:.3f}: the machine was too noisy"
