"""Verify a baseline runtime on the same weights and inputs as IREE."""

from __future__ import annotations

import shutil

from scripts.core import requests
from scripts.core.requests import Folders
from scripts.torch_runtime import verify_session
from scripts.torch_runtime.arguments import BaselineRequest, prepare_process, use_cache
from scripts.verify.verification import FILE


def verify_baseline(request: BaselineRequest, folders: Folders) -> None:
    """Write the verification. Exits if the device is absent or the results are wrong."""
    shutil.rmtree(use_cache(folders.own), ignore_errors=True)
    prepare_process(request.work)
    verify_session.verify_baseline(request.work, request.collect, folders.results / FILE)


if __name__ == "__main__":
    requests.run(BaselineRequest, verify_baseline)
