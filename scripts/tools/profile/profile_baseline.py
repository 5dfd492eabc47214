"""Write how the time of a baseline's call is shared out over the model's nn.Modules.

Nothing here is timed for a row. Runtimes: eager (PyTorch's profiler, with a range for each module) and
inductor (the kernels of its generated code, by the modules of their nodes).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.baselines.sessions.runtime import Work, open_runtime, prepare_process, settle
from scripts.config.choices import MODULE_PROFILES
from scripts.core import atomic, commands, exits, requests
from scripts.core.requests import Folders

CALLS = 5
"""Calls of which the times are the mean, if none takes longer than LONG_S / CALLS."""
LONG_S = 10.0


@dataclass(frozen=True, kw_only=True)
class BaselineProfileRequest:
    work: Work


def profile_baseline(request: BaselineProfileRequest, folders: Folders) -> None:
    """Write the profile. Exits if there is none of this runtime."""
    cell = request.work
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="profile-") as folder:
        prepare_process(cell)
        if cell.runtime not in MODULE_PROFILES or cell.device != "cpu" or cell.test != "eval":
            exits.fail(
                f"{cell.runtime} {cell.test} on {cell.device} has no profile by module; "
                f"expected eval of {' or '.join(MODULE_PROFILES)} on cpu",
                exits.UNSUPPORTED,
            )
        if cell.rewrites:
            exits.fail("a rewritten graph has no modules to profile", exits.UNSUPPORTED)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder).absolute())
        atomic.write_json(folders.results / "profile.json", profile(cell))


def profile(cell: Work) -> dict[str, Any]:
    """The profile of a baseline: milliseconds by module, and what is measured beside them (rounds.py). That of eager has the
    work of the model too (count_work)."""
    import torch

    from scripts.baselines.sessions import torch_session
    from scripts.frontends.torch_model.step import count_work
    from scripts.tools.profile import by_module, rounds

    runtime, device = open_runtime(cell)
    commands.report_working()
    built = torch_session.build_ahead(cell)
    exported = built.module if isinstance(built.module, torch.fx.GraphModule) else None
    modules = by_module.split(exported) if exported is not None else {}
    marking: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if cell.runtime == "inductor":
        from scripts.tools.profile import inductor_by_module

        marking = inductor_by_module.marking()
    with marking:
        session = runtime.open_session(cell, device)
        session()  # compiles
    settle(runtime)
    calls = _calls(session)
    work_of_model = {}
    loaded = session.step.loaded if cell.runtime == "eager" else None

    def take() -> tuple[dict[by_module.Module, float], float]:
        if loaded:
            times = by_module.eager(session, loaded.module, calls)
        else:
            times = inductor_by_module.inductor(session, calls)
        return times, sum(times.values())

    by_part, measured = rounds.profiled(lambda: _fastest_ms(session, calls), take)
    if loaded:
        counted = asdict(count_work(session, loaded))
        work_of_model = {"work": by_module.merged_work(counted, modules)}
    by_module_of_model = by_module.merged_times(by_part, modules)
    return {
        "runtime": cell.runtime,
        "threads": cell.threads,
        "calls": calls,
        **measured,
        "modules": [
            {"module": module.path, "kind": module.kind, "ms": ms}
            for module, ms in sorted(by_module_of_model.items(), key=lambda item: -item[1])
        ],
    } | work_of_model


def _calls(session: Callable[[], Any]) -> int:
    """The number of calls to profile: CALLS, or as many as fit into LONG_S."""
    start = time.perf_counter()
    session()
    return max(1, min(CALLS, int(LONG_S / (time.perf_counter() - start))))


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
