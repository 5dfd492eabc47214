"""Time the calls of a verified baseline when the coordinator of its group asks. The request is that of its verification."""

from __future__ import annotations

from scripts.core import requests
from scripts.core.requests import Folders
from scripts.torch_runtime.arguments import BaselineRequest, prepare_process, use_cache
from scripts.torch_runtime.verify_session import serve


def time_baseline(request: BaselineRequest, folders: Folders) -> None:
    """Serve requests until the coordinator ends."""
    use_cache(folders.own)
    prepare_process(request.work)
    prepared = None
    if not request.work.program:
        from scripts.torch_runtime.torch_session import prepare_fork

        prepared = prepare_fork(request.work)
    serve(request.work, prepared)


if __name__ == "__main__":
    requests.run(BaselineRequest, time_baseline)
