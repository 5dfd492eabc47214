"""Writes what measures a cell on a machine without this checkout: its module, its data, and this project's own code for it.

The code is scripts.stages.measure_elsewhere, scripts.stages.verify_iree and scripts.stages.time_module with every module of this project that they
import, as they are. So a row that was measured elsewhere is verified and timed as all others.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from scripts.core import atomic, checkout, digest, python_source
from scripts.features.reproduce import recorded
from scripts.features.reproduce.case import VERIFY, NoCase
from scripts.matrix import threads
from scripts.records.results_file import Record, cell_of
from scripts.run import fingerprint

ROOT = checkout.ROOT
MODULES = (
    "scripts.stages.measure_elsewhere",
    "scripts.stages.verify_iree",
    "scripts.stages.time_module",
)
BUNDLE = "measure.json"
FILES = {
    "--vmfb": "module.vmfb",
    "--weights": "weights.irpa",
    "--inputs": "inputs.npz",
    "--golden": "golden.npz",
    "--signature": "signature.json",
}
"""The files of the bundle, by the options of scripts.stages.verify_iree that name them."""
KEPT = ("--device", "--threads", "--tolerance")
"""Options of the recorded command that the bundle's command has too. `--threads`: only if the run was given it."""


def write(root: Path, record: Record, folder: Path) -> None:
    """Write the bundle of a record's cell into a folder, which must not exist. Raises NoCase."""
    cell = str(cell_of(record.data))
    if not record.is_iree:
        raise NoCase(f"{cell} is a baseline; only modules of IREE are measured elsewhere")
    command = recorded.of(root, VERIFY, cell)
    sources = {name: _made(root, command.values(option)) for option, name in FILES.items()}
    if missing := [name for name, path in sources.items() if path is None]:
        raise NoCase(f"{cell}: no {', '.join(missing)}: it has not been compiled")
    folder.mkdir(parents=True)
    for name, path in sources.items():
        shutil.copyfile(path, folder / name)  # type: ignore[arg-type]
    for path in python_source.closure(MODULES, ROOT, _is_ours):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    words = [word for option, name in FILES.items() for word in (option, name)]
    bundle = {
        "command": [*words, *command.words(*KEPT), "--raw-inputs", "inputs"],
        "files": {name: asdict(digest.of(folder / name)) for name in FILES.values()},
        "fingerprint": fingerprint.code_of_stage(MODULES[1:]),
        "row": record.data,
        "threads": threads.of(cell),
    }
    atomic.write_json(folder / BUNDLE, bundle)
    script = folder / "run.sh"
    script.write_text(_SCRIPT.format(cell=cell, version=record.data["versions"]["iree"]), "utf-8")
    script.chmod(0o755)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "scripts"


def _made(root: Path, paths: tuple[str, ...]) -> Path | None:
    """The first of some files that was made: a stage that failed left an empty one."""
    found = (root / path for path in paths)
    return next((path for path in found if path.is_file() and path.stat().st_size), None)


_SCRIPT = """\
#!/bin/sh
# Measures {cell} on this machine, and writes record.json.
#
#   ./run.sh [options]                   makes an environment in ./venv with IREE's runtime {version} (needs PyPI)
#   PYTHON=<interpreter> ./run.sh …      uses one that has iree-base-runtime; then no network is needed
#
# Options: --name <of this machine>, --threads <n>, --device <URI>; ./run.sh --help
set -eu
cd "$(dirname "$0")"
if [ -z "${{PYTHON:-}}" ]; then
    PYTHON=venv/bin/python
    [ -x venv/bin/iree-benchmark-module ] || {{
        python3 -m venv venv
        venv/bin/python -m pip install -q iree-base-runtime=={version}
    }}
fi
exec "$PYTHON" -m scripts.stages.measure_elsewhere "$@"
"""
