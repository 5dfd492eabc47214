"""Write where the time of a baseline's call goes: by kernel, with the nodes of the captured graph that each computes.

Nothing here is timed for a row. The runtimes are those in scripts/tools/profile/profilers.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.baselines.sessions.runtime import Work, open_runtime, prepare_process
from scripts.core import atomic, commands, exits, requests
from scripts.core.requests import Folders
from scripts.tools.profile import profilers, rounds
from scripts.tools.profile.profilers import Profiler

CALLS, SHORT_S = 5, 0.3
"""Calls of a round, and seconds that they fill at least, if a call does not take longer than LONG_S / CALLS."""
LONG_S = 10.0


@dataclass(frozen=True, kw_only=True)
class BaselineProfileRequest:
    work: Work


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
        atomic.write_json(folders.results / "profile.json", profile(cell))


def profile(cell: Work) -> dict[str, Any]:
    """The profile of a baseline: milliseconds by kernel, and what is measured beside them (rounds.py)."""
    runtime, device = open_runtime(cell)
    commands.report_working()
    module = importlib.import_module(f"{profilers.__name__}.{cell.runtime}")
    profiler: Profiler = module.open_profiler(cell, runtime, device)
    calls = _calls(profiler.call)
    measured = rounds.profiled(
        lambda: _fastest_ms(profiler.call, calls),
        lambda: profiler.take(calls),
        lambda kernel: kernel.described(),
    )
    work = profiler.work()
    return {
        "runtime": cell.runtime,
        "threads": cell.threads,
        "kinds": dict(profiler.kinds),
        **measured,
        **({"work": work} if work else {}),
    }


def _calls(call: Callable[[], Any]) -> int:
    """The number of calls of a round."""
    call()
    start = time.perf_counter()
    call()
    each_s = time.perf_counter() - start
    return max(1, min(max(CALLS, int(SHORT_S / each_s)), int(LONG_S / each_s)))


def _fastest_ms(session: Callable[[], Any], calls: int) -> float:
    """Milliseconds of the fastest of `calls` calls, after one that does not count."""
    session()
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        session()
        seconds.append((time.perf_counter() - start) * 1e3)
    return min(seconds)


if __name__ == "__main__":
    requests.run(BaselineProfileRequest, profile_baseline)
