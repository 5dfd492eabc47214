"""Write where the time of a baseline's call goes: by kernel, with the nodes of the captured graph that each computes.

Nothing here is timed for a row. The runtimes are those in scripts/tools/profile/profilers.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scripts.baselines.sessions.runtime import Work, open_runtime, prepare_process
from scripts.core import atomic, exits, requests
from scripts.core.requests import Folders
from scripts.tools.profile import profilers, rounds
from scripts.tools.profile.profilers import Profiler


@dataclass(frozen=True, kw_only=True)
class BaselineProfileRequest:
    """`in_turns`: in turns with the other rows of a group (profile_group.py)."""

    work: Work
    in_turns: bool = False


def profile_baseline(request: BaselineProfileRequest, folders: Folders) -> None:
    """Write the profile. Exits if there is none of this runtime."""
    cell = request.work
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="profile-") as folder:
        prepare_process(cell)
        if cell.runtime not in profilers.RUNTIMES or cell.device != "cpu" or cell.test != "eval":
            exits.fail(
                f"{cell.runtime} {cell.test} on {cell.device} has no profile; "
                f"expected eval of {' or '.join(profilers.RUNTIMES)} on cpu",
                exits.UNSUPPORTED,
            )
        if cell.rewrites:
            exits.fail("a rewritten graph has no modules to profile", exits.UNSUPPORTED)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder).absolute())
        runtime, device = open_runtime(cell)
        module = importlib.import_module(f"{profilers.__name__}.{cell.runtime}")
        profiler: Profiler = module.open_profiler(cell, runtime, device)
        measured = rounds.profiled(
            profiler.call, profiler.take, lambda kernel: kernel.described(), in_turns=request.in_turns
        )  # fmt: skip
        about = {"runtime": cell.runtime, "threads": cell.threads, "kinds": dict(profiler.kinds)}
        work = profiler.work()
        made = about | measured | ({"work": work} if work else {})
        atomic.write_json(folders.results / "profile.json", made)
        rounds.report_written(request.in_turns)


if __name__ == "__main__":
    requests.run(BaselineProfileRequest, profile_baseline)
