"""Time the calls of a verified baseline when the coordinator of its group asks. The request is that of its verification."""

from __future__ import annotations

import functools
from typing import Any

from scripts.baselines.sessions.runtime import (
    BaselineRequest,
    compile_count,
    open_runtime,
    prepare_process,
    settle,
    use_cache,
)
from scripts.core import requests
from scripts.core.requests import Folders
from scripts.measure.timing import worker


def time_baseline(request: BaselineRequest, folders: Folders) -> None:
    """Serve requests until the coordinator ends (measure/timing/worker.py)."""
    work = request.work
    use_cache(folders.own)
    prepare_process(work)
    prepared: tuple[Any, Any, Any] | None = None
    if not work.program:
        from scripts.baselines.sessions.torch_session import prepare_fork

        prepared = prepare_fork(work)

    def load() -> worker.Program:
        if prepared:
            runtime, device, session = prepared
            session.adopt_fork()
        else:
            runtime, device = open_runtime(work)
            session = runtime.open_session(work, device)
        compilations = functools.partial(compile_count, runtime, device)
        settled = functools.partial(settle, runtime)
        return worker.Program(session, device.finish, settled, session.check, compilations)

    worker.serve_generations(load)


if __name__ == "__main__":
    requests.run(BaselineRequest, time_baseline)
