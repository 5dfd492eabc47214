"""What results/report.html is made from in addition to results.jsonl: params of its rule.

They are no inputs: the page shows operators, kernels and profiles if there are any, and making it must
not run them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.core import checkout, python_source
from scripts.run import outputs
from scripts.tools import registry

BESIDE = (
    "results/operators/operators.jsonl",
    str(outputs.files_of("kernels")[2]),
    "results/profile/*/*/*/profiles.json",
    "results/machine_limits/*/limits.json",
    "results/comparison.json",
    "results/history/*.json",
)
"""Patterns of these files."""
PAGE = "scripts/tools/report/web"
"""The folder with the scripts and styles of the page."""


def data() -> str:
    """Return a hash that changes when one of the files is written, added or deleted."""
    files = sorted(path for pattern in BESIDE for path in Path().glob(pattern))
    signs = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return hashlib.sha256("\n".join(signs).encode()).hexdigest()[:12]


def code() -> str:
    """Return a hash of the code of the page."""
    modules = ["scripts.tools.report.write_report", *registry.VIEWS]
    scripts = python_source.of_project(modules, checkout.ROOT)
    others = (path for kind in ("js", "css", "html") for path in (checkout.ROOT / PAGE).rglob(f"*.{kind}"))  # fmt: skip
    digest = hashlib.sha256()
    for path in sorted((*scripts, *others)):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
