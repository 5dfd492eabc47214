"""Writes what measures a cell on a machine without this checkout: its module, its data, and this project's own code for it.

The code is that of the commands in MODULES with every module of this project that they import, as they are. So a row that was
measured elsewhere is verified and timed as all others.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from scripts.core import atomic, checkout, private, python_source
from scripts.features.reproduce.case import VERIFY, NoCase, recorded
from scripts.matrix.cell import threads_of
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
EXPORTED = "--exported"
"""The option whose first file, if there is one, has the sizes that a program is for."""
REPORT = "exported.json"
KEPT = ("--device", "--threads", "--tolerance")
"""Options of the recorded command that the bundle's command has too. `--threads`: only if the run was given it."""


def write(root: Path, record: Record, folder: Path) -> None:
    """Write the bundle of a record's cell into a folder, which must not exist. Raises NoCase."""
    cell = str(cell_of(record.data))
    if not record.is_iree:
        raise NoCase(f"{cell} is a baseline; only modules of IREE are measured elsewhere")
    command = recorded(root, VERIFY, cell)
    sources: dict[str, Path] = {}
    for option, name in FILES.items():
        for path in (root / file for file in command.options.get(option, ())):
            # A stage that failed has left an empty file.
            if path.is_file() and path.stat().st_size:
                sources.setdefault(name, path)
    if missing := [name for name in FILES.values() if name not in sources]:
        raise NoCase(f"{cell}: no {', '.join(missing)}: it has not been compiled")
    options = dict(FILES)
    for report in command.options.get(EXPORTED, ())[:1]:
        options[EXPORTED], sources[REPORT] = REPORT, root / report
    code = python_source.of_project(MODULES, ROOT)
    sources |= {str(path.relative_to(ROOT)): path for path in code}
    for name, path in sources.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    private.clean(folder)
    words = [word for option, name in options.items() for word in (option, name)]
    bundle = {
        "command": [*words, *command.words(*KEPT), "--raw-inputs", "inputs"],
        "files": {name: asdict(atomic.digest_of(folder / name)) for name in options.values()},
        "fingerprint": fingerprint.code_of_stage(MODULES[1:]),
        "row": record.data,
        "threads": threads_of(cell),
    }
    atomic.write_json(folder / BUNDLE, private.cleaned(bundle))
    script = folder / "run.sh"
    script.write_text(_SCRIPT.format(cell=cell, version=record.data["versions"]["iree"]), "utf-8")
    script.chmod(0o755)


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
