"""Write where the time of a baseline's call goes: by kernel, with the nodes of the captured graph that each computes.

Nothing here is timed for a row. The runtimes are those in scripts/tools/profile/profilers.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path

from scripts.baselines.sessions.runtime import Work, open_runtime, prepare_process
from scripts.core import requests
from scripts.core.requests import Folders
from scripts.tools.profile import profilers, rounds
from scripts.tools.profile.profilers import Kernel, Profiler


def profile_baseline(cell: Work, folders: Folders) -> None:
    """Write the profile, in turns with the other rows of a group (profile_group.py)."""
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="profile-") as folder:
        prepare_process(cell)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder).absolute())
        runtime, device = open_runtime(cell)
        module = importlib.import_module(f"{profilers.__name__}.{cell.runtime}")
        profiler: Profiler = module.open_profiler(cell, runtime, device)
        measured = rounds.profiled(
            profiler.call, profiler.take, Kernel.described, "kernels", in_turns=True
        )
        about = {"runtime": cell.runtime, "threads": cell.threads, "kinds": dict(profiler.kinds)}
        work = profiler.work()
        profile = about | measured | ({"work": work} if work else {})
        rounds.write(folders.results, profile, in_turns=True)


if __name__ == "__main__":
    requests.run(Work, profile_baseline)
