"""scripts.tools.profile.profile_group: rounds of several programs in turns, and what is said of one that fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scripts.core.requests import Folders, StageRequest
from scripts.supervise import outcome
from scripts.supervise.members import VERIFICATION
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.profile import profile_group
from scripts.tools.profile.profile_files import PROFILES
from scripts.tools.profile.rounds import ROUNDS

MEMBER = """
import json, os, sys, time
from pathlib import Path
from scripts.tools.profile import rounds
from scripts.tools.profile.rounds import CallTimes

# Rounds are over before the next program is loaded, unless they wait for their turns.
rounds.SHORT_S, rounds.CALLS = 0.01, 2
path = Path(sys.argv[2])
fields = json.loads(path.read_text())["fields"]
name, journal = fields["name"], Path(fields["journal"])
taken = 0

def take(calls):
    global taken
    taken += 1
    if name == "crashes" and taken == 2:
        os.abort()
    with journal.open("a") as out:
        out.write(f"{name} begins\\n")
        out.flush()
        time.sleep(0.02)
        out.write(f"{name} ends\\n")
    return [CallTimes(1.0, {"a": 0.5}, 0.3, 0.2)]

measured = rounds.profiled(lambda: time.sleep(0.001), take, lambda key: {"name": key}, in_turns=True)
rounds.write(path.parent, {"name": name, **measured}, in_turns=True)
"""


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A function that profiles programs with these names in turns: it returns the members and the lines that they wrote."""
    (tmp_path / "member.py").write_text(MEMBER)
    monkeypatch.setattr(profile_group, "BASELINE", "member")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    journal = tmp_path / "journal.txt"

    def profile(*names: str, unverified: tuple[str, ...] = ()) -> tuple[dict, list[str]]:
        for name in names:
            folder = tmp_path / "verified" / name
            fields = {"name": name, "journal": str(journal), "collect": []}
            StageRequest("verify", sys.executable, fields).write(folder)
            (folder / VERIFICATION).write_text('{"flags": []}')
            ended = Outcome("ok", "baseline", name)
            if name in unverified:
                ended = Outcome("error", "baseline", name, "wrong-values", "they differ")
            outcome.write(folder / outcome.STATUS, ended, Usage(1.0, 10.0))
        members = {name: str(tmp_path / "verified" / name) for name in names}
        request = profile_group.ProfileGroupRequest(members=members, memory_mb=1000)
        profile_group.profile_group(request, Folders(tmp_path, tmp_path))
        written = json.loads((tmp_path / PROFILES).read_text())["members"]
        return written, journal.read_text().splitlines()

    return profile


def test_each_round_has_every_program_once_and_no_two_at_a_time(group):
    members, lines = group("a", "b", "c")
    assert list(members) == ["a", "b", "c"]
    assert {member["profile"]["name"] for member in members.values()} == {"a", "b", "c"}
    turns = [line.removesuffix(" begins") for line in lines[::2]]
    assert lines[1::2] == [f"{name} ends" for name in turns], "one at a time"
    assert len(turns) == 3 * ROUNDS
    assert all(sorted(turns[at : at + 3]) == ["a", "b", "c"] for at in range(0, len(turns), 3))


def test_a_program_that_fails_leaves_the_group(group):
    members, _ = group("a", "crashes", "wrong", unverified=("wrong",))
    assert members["a"]["status"] == "ok"
    assert len(members["a"]["profile"]["rounds_ms"]) == ROUNDS
    assert (members["crashes"]["status"], members["crashes"]["reason"]) == ("crashed", "SIGABRT")
    assert members["wrong"] == {
        "status": "error",
        "reason": "wrong-values",
        "detail": "they differ",
    }


def test_a_group_without_a_profile_fails_with_the_first_reason(group, capsys):
    with pytest.raises(SystemExit):
        group("wrong", unverified=("wrong",))
    assert (
        "none of 1 rows has a profile; wrong: error (wrong-values): they differ"
        in capsys.readouterr().err
    )
