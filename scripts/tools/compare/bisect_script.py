"""Finds the release of IREE that changed the outcome of a script of its tools, such as a reproducer of `vmfbench fuzz`."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts.core import exits, process
from scripts.frontends.torch_model.errors import first_line
from scripts.iree.backends import renamed
from scripts.supervise.diagnose import failure_signature
from scripts.tools.compare import bisection
from scripts.tools.compare.bisection import Candidate, CannotInstall, Side

COMPILE, RUN = "iree-compile", "iree-run-module"
EXPECTED = "--expected_output"
UNKNOWN_FLAG = "Unknown command line argument"
_CALLED = re.compile(r"^\+ (\S+)", re.MULTILINE)
"""A command that a shell with `set -x` prints."""
_ERROR = re.compile(rf"^.*(?:error:|\[FAILED\]|{UNKNOWN_FLAG}).*$", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """How a script ended with a release. `tool`: the one that failed, "" if none did, None if the release cannot be judged. `message`: of that tool.
    `results`: what iree-run-module prints of the results of modules; iree-run-module before 3.12 takes any value for an expected NaN."""

    version: str
    tool: str | None
    message: str = ""
    results: str = ""

    @property
    def words(self) -> str:
        """The outcome in words."""
        if self.tool is None:
            return f"cannot be judged: {self.message}"
        return f"{self.tool} fails: {self.message}" if self.tool else "ok"


def side(bad: Ended, ended: Ended) -> Side:
    """What a release is, given the bad end. It is bad if its results are the same, or the same tool fails; if that is the compiler, with the same
    message but for names and numbers."""
    if bad.results and ended.results == bad.results:
        return Side.BAD
    if not ended.tool:
        return Side.GOOD if ended.tool == "" else Side.NEITHER
    same = ended.tool != COMPILE or failure_signature(ended.message) == failure_signature(bad.message)  # fmt: skip
    return Side.BAD if ended.tool == bad.tool and same else Side.NEITHER


def try_release(script: Path, candidate: Candidate, folder: Path, timeout_s: float) -> Ended:
    """Run a script with the tools of a release, in `folder`, where the files beside it are copied to."""
    version = candidate.version
    shutil.copytree(script.parent, work := folder / "work")
    try:
        python, _ = bisection.make_environment(candidate, folder / "env")
    except CannotInstall as error:
        return Ended(version, None, first_line(error))

    def run(lines: list[str]) -> subprocess.CompletedProcess[str]:
        place = f"PATH={shlex.quote(str(python.parent))}:$PATH"
        return process.captured(["sh", "-c", "\n".join([place, *lines])], work, timeout_s)

    lines = script.read_text(encoding="utf-8").splitlines()
    compiled = [shlex.join(renamed(shlex.split(line), version)) if line.startswith(COMPILE) else line for line in lines]  # fmt: skip
    shown = [shlex.join(word for word in shlex.split(line) if not word.startswith(EXPECTED)) for line in lines if line.startswith(RUN)]  # fmt: skip
    try:
        done = run(compiled)
        results = run(shown).stdout if shown else ""
    except subprocess.TimeoutExpired:
        return Ended(version, "the script", f"takes over {timeout_s:g} s")
    printed = done.stdout + done.stderr
    said = next((line.strip() for line in _ERROR.findall(printed)), f"exit code {done.returncode}")
    if UNKNOWN_FLAG in printed:
        return Ended(version, None, f"it does not know a flag: {said}")
    called = _CALLED.findall(done.stderr)
    tool = Path(called[-1]).name if called else "the script"
    return Ended(version, tool if done.returncode else "", said[:300], results if "=" in results else "")  # fmt: skip


def require_ends(good: Ended, bad: Ended) -> None:
    """Exit unless one end works, and the other does not."""
    if not bad.tool:
        exits.fail(f"--bad {bad.version} is {bad.words}; expected that a tool fails")
    if good.tool or side(bad, good) is Side.BAD:
        why = good.words if good.tool else "its results are those of --bad"
        exits.fail(f"--good {good.version} is bad, too: {why}; give another release")
    if good.tool is None:
        exits.fail(f"--good {good.version} {good.words}; give another release")
