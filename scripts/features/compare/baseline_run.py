"""The run of another commit, which a run is compared with: found by its commit in a history, a folder or a branch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import machine, temporary
from scripts.features.compare.history import store
from scripts.features.compare.history.store import Damaged, Entry, Kept
from scripts.records.results_file import BadRecords

FORK_POINT, PARENT, LATEST = "fork-point", "parent", "latest"
AGAINST = {
    FORK_POINT: "the newest commit that HEAD shares with the base branch",
    PARENT: "the first parent of HEAD",
    LATEST: "the run that was kept last",
}
"""What a run can be compared with."""
ROWS = "results.jsonl"
SHOWN = 12
"""Digits of a commit."""


@dataclass(frozen=True)
class BaselineRun:
    """A run of another commit. `name`: for a title. `results`: its folder, if that still has what the run left."""

    name: str
    rows: list[dict[str, Any]]
    results: Path | None


def find(against: str, base: str, history: str, results: Path) -> BaselineRun:
    """Return the newest run of the commit that `against` names, of one on the same CPU if there is one.

    `base`: the base branch; "": that of the pull request, or `origin/HEAD`. `history`: a folder, or a branch with the files of one in its
    top folder. `results`: the folder of the run that is compared. Raises BadRecords if there is no such commit or no run of it.
    """
    with temporary.folder("history") as extracted:
        folder = Path(history)
        if not folder.is_dir():
            folder = extracted
            store.extract(history, folder)
        kept, wrong = store.read(folder)
        what, commit = AGAINST[against], ""
        if against == LATEST:
            current = store.id_of((results / ROWS).read_bytes())
            runs = [run for run in kept if run.entry.id != current]
        else:
            commit = commit_of(against, base)
            what = f"{what}, {commit[:SHOWN]}"
            runs = [run for run in kept if any(map(commit.startswith, _commits(run.entry)))]
        if not runs:
            known = dict.fromkeys(
                name[:SHOWN] for run in kept[::-1] for name in _commits(run.entry)
            )
            problems = "".join(f"; {problem}" for problem in wrong)
            raise BadRecords(
                f"{history}: no run of {what}, so nothing was compared; commits with a run: "
                f"{', '.join(known) or 'none'}. Run the same selection at that commit{problems}"
            )
        cpu = machine.cpu_name()
        run = ([run for run in runs if run.entry.machine.cpu == cpu] or runs)[-1]
        try:
            rows = list(run.records())
        except Damaged as error:
            raise BadRecords(str(error)) from error
        name = f"{against} {commit[:SHOWN] or ' '.join(_commits(run.entry)[-1:])}"
        return BaselineRun(name.strip(), rows, _results(run))


def _results(run: Kept) -> Path | None:
    """The folder of a run, if its rows are still those that were kept."""
    folder = run.path.parent.parent
    rows = folder / ROWS
    is_whole = rows.is_file() and store.id_of(rows.read_bytes()) == run.entry.id
    return folder if is_whole else None


def _commits(entry: Entry) -> list[str]:
    """The commits of a run, without those from which a file differed. Entries of older versions have only that of the checkout."""
    return [name for name in entry.commits or [entry.commit] if name and "-dirty" not in name]


def commit_of(against: str, base: str) -> str:
    """The full hash of the commit that FORK_POINT or PARENT names in the working folder. Raises BadRecords."""
    if against == PARENT:
        return _git("rev-parse", "--verify", "HEAD^1").decode().strip()
    pull_request = os.environ.get("GITHUB_BASE_REF")
    main = base or (f"origin/{pull_request}" if pull_request else "origin/HEAD")
    shared, head = (
        _git(*words, "HEAD", *rest).decode().strip()
        for words, rest in ((["merge-base"], [main]), (["rev-parse"], []))
    )
    if shared == head:
        raise BadRecords(
            f"HEAD, {head[:SHOWN]}, is a commit of {main} itself; use --against parent"
        )
    return shared


def _git(*words: str) -> bytes:
    """The output of git in the working folder. Raises BadRecords."""
    try:
        return store.git(*words)
    except BadRecords as error:
        raise BadRecords(
            f"{error}; --base names another branch, and a shallow clone has no older commits (actions/checkout: fetch-depth: 0)"
        ) from error
