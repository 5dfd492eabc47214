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
from scripts.matrix.stages import STAGES
from scripts.records.results_file import Record, cell_of

ROOT = checkout.ROOT
MODULES = (
    "scripts.stages.measure_elsewhere",
    "scripts.stages.verify_iree",
    "scripts.stages.time_module",
)
BUNDLE = "measure.json"
FILES = {
    "vmfb": "module.vmfb",
    "weights": "weights.irpa",
    "inputs": "inputs.npz",
    "golden": "golden.npz",
    "signature": "signature.json",
}
"""The files of the bundle, by the fields of a VerifyRequest that name them."""
REPORT = "exported.json"
"""The sizes that a program is for: the first file of the field `exported`, if there is one."""


def write(root: Path, record: Record, folder: Path) -> None:
    """Write the bundle of a record's cell into a folder, which must not exist. Raises NoCase."""
    row = cell_of(record.data)
    cell = str(row)
    if not record.is_iree:
        raise NoCase(f"{cell} is a baseline; only modules of IREE are measured elsewhere")
    fields = recorded(root, VERIFY, cell).request.fields
    sources: dict[str, Path] = {}
    for field, name in FILES.items():
        files = fields[field] if isinstance(fields[field], list) else [fields[field]]
        for path in (root / file for file in files):
            # A stage that failed has left an empty file.
            if path.is_file() and path.stat().st_size:
                sources.setdefault(name, path)
    if missing := [name for name in FILES.values() if name not in sources]:
        raise NoCase(f"{cell}: no {', '.join(missing)}: it has not been compiled")
    copied = {**FILES, "vmfb": [FILES["vmfb"]]}
    for report in fields["exported"][:1]:
        copied["exported"], sources[REPORT] = [REPORT], root / report
    data = [*FILES.values(), *copied.get("exported", ())]
    code = python_source.of_project(MODULES, ROOT)
    sources |= {str(path.relative_to(ROOT)): path for path in code}
    for name, path in sources.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    private.clean(folder)
    bundle = {
        "request": {**fields, "exported": [], **copied},
        "files": {name: asdict(atomic.digest_of(folder / name)) for name in data},
        "fingerprint": str(STAGES[VERIFY].version),
        "row": record.data,
        "threads": row.threads,
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
