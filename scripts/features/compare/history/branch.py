"""A branch of a repository with the files of a history in its top folder: what others have measured is there for comparisons."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import msgspec

from scripts.core import atomic
from scripts.features.compare.history.store import PASSES, Entry
from scripts.records.results_file import BadRecords

ATTEMPTS = 5
"""Pushes that are tried: another job may push to the branch at the same time."""
AUTHOR = ("-c", "user.name=vmfbench", "-c", "user.email=vmfbench@localhost")


def git(*words: str, **variables: str) -> bytes:
    """The output of git in the working folder, with these environment variables. Raises BadRecords."""
    try:
        done = subprocess.run(
            ["git", *words], capture_output=True, timeout=60, env=os.environ | variables
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadRecords(f"git cannot be run: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or "it found nothing"
        raise BadRecords(f"git {' '.join(words)}: {said}")
    return done.stdout


def extract(commit: str, folder: Path) -> None:
    """Write the files of a commit or branch to a folder. Raises BadRecords."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        archive.extractall(folder, filter="data")


def publish(history: Path, name: str) -> str:
    """Add the files of a history to a branch of a remote repository, and say what was done.

    `name`: `REMOTE/BRANCH`. The branch is made if there is none. It keeps the files that it has; an entry that both have is of the
    commits of both. The working folder, its index and its branches stay as they are. Raises BadRecords.
    """
    remote, _, branch = name.partition("/")
    if not branch:
        raise BadRecords(f"--publish {name}: expected REMOTE/BRANCH, such as origin/{name}")
    files = [path for path in sorted(history.glob("*")) if path.is_file()]
    if not files:
        raise BadRecords(f"{history}: no run is kept, so there is nothing to publish")
    refused = BadRecords("")
    for _ in range(ATTEMPTS):
        tip = git("ls-remote", remote, f"refs/heads/{branch}").decode().partition("\t")[0]
        if tip:
            git("fetch", "--quiet", "--no-tags", remote, f"refs/heads/{branch}")
        commit, added = _commit(files, tip)
        if not added:
            return f"{name} has these runs already"
        try:
            git("push", "--quiet", remote, f"{commit}:refs/heads/{branch}")
        except BadRecords as error:
            refused = error
        else:
            return f"{added} files were added to {name}"
    raise refused


def _commit(files: list[Path], tip: str) -> tuple[str, int]:
    """A commit on `tip` ("": the first one) with these files too, and how many of them are new or differ."""
    with tempfile.TemporaryDirectory(prefix="history-") as scratch:
        folder, added = Path(scratch, "files"), 0
        folder.mkdir()
        if tip:
            extract(tip, folder)
        for path in files:
            added += _add(path, folder / path.name)
        if not added:
            return tip, 0
        index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
        where = f"--git-dir={Path(git('rev-parse', '--absolute-git-dir').decode().strip())}"
        git(where, f"--work-tree={folder}", "add", "--all", "--force", ".", **index)
        tree = git("write-tree", **index).decode().strip()
        parent = ("-p", tip) if tip else ()
        words = (*AUTHOR, "commit-tree", tree, *parent, "-m", f"{added} files of runs")
        return git(*words).decode().strip(), added


def _add(path: Path, place: Path) -> bool:
    """Copy a file of a history to another one, unless that has the same. An entry of both gets the commits of both."""
    if not place.is_file():
        shutil.copyfile(path, place)
        return True
    if path.suffix != ".json":
        # Records are named by their content; times of passes may have been measured again.
        is_new = path.name.endswith(PASSES) and path.read_bytes() != place.read_bytes()
        if is_new:
            shutil.copyfile(path, place)
        return is_new
    ours, theirs = (msgspec.json.decode(each.read_bytes(), type=Entry) for each in (path, place))
    lacking = [commit for commit in ours.commits if commit not in theirs.commits]
    if lacking:
        merged = msgspec.structs.replace(theirs, commits=[*theirs.commits, *lacking])
        atomic.write_json(place, msgspec.to_builtins(merged))
    return bool(lacking)
