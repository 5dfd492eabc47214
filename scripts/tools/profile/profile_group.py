"""Profile the rows of a group in turns: of one model, device, number of threads and test.

All programs are loaded first and stay loaded. A round of one is followed by a round of another, in random order, while all others wait:
so what slows the machine down for a minute is in the profiles of all of them.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, requests
from scripts.core.requests import Folders, StageRequest
from scripts.measure.timing.turns import MemberEnded
from scripts.supervise import outcome
from scripts.supervise.group import MEMBERS, log_name
from scripts.supervise.members import VERIFICATION, Member, Process, memory_mb, parts
from scripts.tools.profile.profile_files import PROFILES
from scripts.tools.profile.rounds import ROUNDS, TURN

IREE, BASELINE = "scripts.tools.profile.profile_iree", "scripts.tools.profile.profile_baseline"
LIMIT_S = 600.0
"""Seconds in which a program has to be loaded, and to make the calls of a round."""
TWICE = 2
"""How much memory a program needs while it is profiled, as a multiple of what its verification needed: IREE's is loaded a second time, with its profiler."""


@dataclass(frozen=True, kw_only=True)
class ProfileGroupRequest:
    """`members`: the folder of the verification of each row, by the name of its cell. `memory_mb`: MiB that their processes may use together."""

    members: Mapping[str, str]
    memory_mb: float


def profile_group(request: ProfileGroupRequest, folders: Folders) -> None:
    """Write the profiles. Exits if there is none."""
    commands.report_working()
    ended: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="members-") as scratch:
        members: dict[str, Member] = {}
        for number, (name, folder) in enumerate(request.members.items()):
            try:
                command = _command(Path(folder), Path(scratch, str(number)))
                members[name] = Member(name, tuple(command), folders.own / MEMBERS / log_name(name), forked=False)  # fmt: skip
            except MemberEnded as error:
                ended[name] = _failure(error)
        needs = {name: TWICE * memory_mb(Path(request.members[name])) for name in members}
        for part in parts(needs, "", request.memory_mb):
            ended |= _profiled({name: members[name] for name in part})
    if not any("profile" in member for member in ended.values()):
        said = [f"{name}: {member['status']} ({member['reason']}): {member['detail']}" for name, member in ended.items()]  # fmt: skip
        exits.fail(f"none of {len(said)} rows has a profile; {said[0]}")
    atomic.write_json(
        folders.results / PROFILES, {"members": {name: ended[name] for name in request.members}}
    )


def _failure(error: MemberEnded) -> dict[str, Any]:
    return {"status": error.status, "reason": error.reason, "detail": error.detail}


def _command(verified: Path, folder: Path) -> list[str]:
    """The command that profiles a row and writes to a folder. `verified`: the folder of its verification. Raises MemberEnded if it has none."""
    before = outcome.read_or_damaged(verified / outcome.STATUS)
    if before.status != outcome.OK:
        raise MemberEnded(before.status, before.reason, before.detail)
    own = requests.read(verified)
    python = atomic.read_json(verified / VERIFICATION)["python"] if own.python == "python" else own.python  # fmt: skip
    if "vmfb" in own.fields:
        module, fields = IREE, {**_of_module(own), "in_turns": True}
    else:
        module = BASELINE
        fields = {name: value for name, value in own.fields.items() if name != "collect"}
    request = StageRequest(module, python, fields)
    request.write(folder)
    return request.command(folder)


def _of_module(verified: StageRequest) -> dict[str, Any]:
    """The fields of the request that profiles a module. Raises MemberEnded for a module of a remedy, whose dispatches are not those of its target's flags."""
    vmfb = next(Path(path) for path in verified.fields["vmfb"] if os.path.getsize(path))
    if vmfb != Path(verified.fields["vmfb"][0]):
        raise MemberEnded("unsupported", "remedy", "a module that a remedy has compiled has no profile")  # fmt: skip
    compiled = requests.read(vmfb.parent).fields
    return {
        **compiled,
        **verified.only("weights", "inputs", "signature", "device", "threads"),
        "vmfb": str(vmfb),
        "locations": str(Path(compiled["program"]).with_name("locations.json")),
    }


def _profiled(members: Mapping[str, Member]) -> dict[str, dict[str, Any]]:
    """Profile members in turns; return what PROFILES says of each."""
    ended: dict[str, dict[str, Any]] = {}
    processes: dict[str, Process] = {}

    def each(step: Callable[[str], object]) -> None:
        """Do something with the members that have not failed, in random order."""
        left = [name for name in members if name not in ended]
        for name in random.sample(left, len(left)):
            try:
                step(name)
            except MemberEnded as error:
                ended[name] = _failure(error)
                if name in processes:
                    processes[name].close()

    def start(name: str) -> None:
        member = members[name]
        processes[name] = Process(member, os.getpid(), member.log, LIMIT_S, lambda: None)
        processes[name].wait_ready()

    try:
        each(start)
        for _ in range(ROUNDS + 1):  # the last turn writes the profile
            each(lambda name: processes[name].ask({TURN: True}, LIMIT_S))
    finally:
        for process in processes.values():
            process.close()
    for name in members.keys() - ended.keys():
        written = Path(members[name].command[-1]).with_name("profile.json")
        ended[name] = {"status": outcome.OK, "profile": atomic.read_json(written)}
    return ended


if __name__ == "__main__":
    requests.run(ProfileGroupRequest, profile_group)
