"""Write a reproducer of an IREE cell: a folder, and an archive of it, that needs only IREE's wheels.

It has the program, the bare commands of IREE's tools (run.sh), the output of the failing command (log.txt) and the text
of an issue (ISSUE.md). For a cell that compiles, it also has inputs; for wrong results, weights and golden outputs too.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from scripts.config.stages import STAGES
from scripts.core import atomic, checkout, exits, private, python_source, temporary
from scripts.results import results_file
from scripts.results.results_file import Record, cell_of
from scripts.run.jobs import REFERENCE_FILES
from scripts.run.recorded import NoCase, recorded
from scripts.supervise import outcome
from scripts.supervise.diagnose import failure_signature
from scripts.tools.reproduce import bundling, dispatch_tests, issue
from scripts.tools.reproduce import case as cases
from scripts.tools.reproduce.case import VERIFY, Case

ROOT = checkout.ROOT
MODULES = (
    "scripts.tools.reproduce.measure_elsewhere",
    "scripts.stages.verify_iree",
    "scripts.stages.time_module",
)
"""The commands of a bundle that measures. It has their code and every module of this project that they import, as they are: so a
row that was measured elsewhere is verified and timed as all others."""
MEASURE = "measure.json"
MODULE, EXPORTED = "module.vmfb", "exported.json"
"""In such a bundle: the module, and the sizes that its program is for, if these are open."""


def main() -> None:
    parser = _parser(__doc__)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="instead, write what verifies and times the cell on another machine, with IREE's runtime only",
    )
    args = parser.parse_args()
    if args.measure and not args.cell:
        parser.error("--measure needs a cell")
    with _reported():
        if args.measure:
            _write_measuring(args)
        else:
            _write_cases(args)


def reduce() -> None:
    """Write a reproducer, as `vmfbench bundle` does, and add a program of few operations that fails in the same way."""
    parser = _parser(reduce.__doc__)
    text = "for a reduction, or for each step of --dispatches (default: 300)"
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS", help=text)
    parser.add_argument(
        "--dispatches",
        action="store_true",
        help="instead, write a test of each distinct dispatch of the cell",
    )
    parser.add_argument(
        "--against",
        metavar="CELL",
        help="with --dispatches: compile and test them as this cell of the same program too (other flags, another toolchain or "
        "target), and time them in turns",
    )
    args = parser.parse_args()
    if args.dispatches and not args.cell:
        parser.error("--dispatches needs a cell")
    if args.against and not args.dispatches:
        parser.error("--against needs --dispatches")
    with _reported():
        if args.dispatches:
            _write_dispatches(args)
        else:
            _write_cases(args, args.budget)


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("cell", nargs="?", help="such as bert/torchmlir-stablehlo/cuda")
    chosen.add_argument(
        "--failed", action="store_true", help="one cell per group of failures with the same message"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder (default: results)"
    )
    parser.add_argument("-o", "--out", type=Path, help="default: <results>/bundles")
    parser.add_argument(
        "--weights",
        action="store_true",
        help="add the weights even if the failure does not depend on them",
    )
    return parser


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Exit with the message of what cannot be written."""
    try:
        yield
    except (NoCase, results_file.BadRecords) as error:
        exits.fail(str(error))


def _write_dispatches(args: argparse.Namespace) -> None:
    """Write a test of each distinct dispatch of a cell, and print those that fail."""
    root, records = args.results.absolute().parent, _records(args)
    case = cases.case_of(root, cases.named(records, args.cell))
    folder, compared = _emptied(args, f"{case.name}__dispatches"), ""
    if args.against:
        other = cases.case_of(root, cases.named(records, args.against))
        with temporary.folder("dispatches") as scratch:
            tests, compared = dispatch_tests.compare(case, other, folder, args.budget, scratch)
    else:
        tests = dispatch_tests.write(case, folder, args.budget)
    print(f"{folder}: {dispatch_tests.counted(tests)}; ./run.sh tests the dispatches again")
    for test in tests:
        if test["status"] != "right":
            line = test["detail"].partition("\n")[0]
            print(f"    {test['status']}: {test['functions'][0]}: {line}")
    print(compared, end="")
    print(f"    {bundling.pack(folder)}")


def _write_cases(args: argparse.Namespace, reduce_s: float | None = None) -> None:
    """Write the reproducers that are requested. `reduce_s`: seconds for a reduction; None: they are not reduced."""
    root, records = args.results.absolute().parent, _records(args)
    if args.failed:
        chosen = list(_one_per_group(root, records))
    else:
        chosen = [cases.case_of(root, cases.named(records, args.cell), of_golden=True)]
    for case in (cases.with_owner(case, records) for case in chosen):
        folder, ended = _emptied(args, case.name), case.ended
        bundling.write(case, folder, args.weights)
        if reduce_s is not None:
            bundling.add_reduced(case, folder, reduce_s)
        print(
            f"{folder}: {ended.stage} {case.cell}: {ended.status} ({ended.reason or 'no failure'})"
        )
        # An issue of a wrong operator has evidence of its own.
        if case.owner and case.owner.evidence in (folder / issue.ISSUE).read_text(encoding="utf-8"):
            print(f"    likely owner: {case.owner.name}. {case.owner.evidence}")
        print(f"    {bundling.pack(folder)}")
    if not chosen:
        print("no stage of an IREE cell has failed")


def _records(args: argparse.Namespace) -> list[Record]:
    return results_file.read(args.results / "results.jsonl")


def _emptied(args: argparse.Namespace, name: str) -> Path:
    folder: Path = (args.out or args.results / "bundles") / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _one_per_group(root: Path, records: Iterable[Record]) -> Iterator[Case]:
    """The first case of each group of failures that have the same message, without names and numbers."""
    seen: set[tuple[str, ...]] = set()
    for record in filter(lambda record: record.is_iree, records):
        try:
            case = cases.case_of(root, record, of_golden=True)
        except NoCase as error:
            print(f"note: {error}")
            continue
        group = (case.ended.stage, case.ended.reason, failure_signature(case.ended.detail))
        if case.ended.status in outcome.FAILED and group not in seen:
            seen.add(group)
            yield case


def _write_measuring(args: argparse.Namespace) -> None:
    """Write what measures a cell on another machine."""
    record = cases.named(_records(args), args.cell)
    folder = _emptied(args, f"{args.cell.replace('/', '__')}__measure")
    write_measuring(args.results.absolute().parent, record, folder)
    print(f"{folder}: ./run.sh measures {args.cell} on another machine")
    print(f"    {bundling.pack(folder)}")


def write_measuring(root: Path, record: Record, folder: Path) -> None:
    """Write what measures a record's cell on a machine without this checkout into a folder, which must not exist: its module, its
    data, and the code for it. Raises NoCase."""
    row = cell_of(record.data)
    cell = str(row)
    if not record.is_iree:
        raise NoCase(f"{cell} is a baseline; only modules of IREE are measured elsewhere")
    fields = recorded(root, VERIFY, cell).request.fields
    names = {"vmfb": MODULE, **REFERENCE_FILES}
    sources: dict[str, Path] = {}
    for field, name in names.items():
        files = fields[field] if isinstance(fields[field], list) else [fields[field]]
        for path in (root / file for file in files):
            # A stage that failed has left an empty file.
            if path.is_file() and path.stat().st_size:
                sources.setdefault(name, path)
    if missing := [name for name in names.values() if name not in sources]:
        raise NoCase(f"{cell}: no {', '.join(missing)}: it has not been compiled")
    exported = [EXPORTED] if fields["exported"] else []
    for report in fields["exported"][:1]:
        sources[EXPORTED] = root / report
    data = [*sources]
    code = python_source.of_project(MODULES, ROOT)
    sources |= {str(path.relative_to(ROOT)): path for path in code}
    for name, path in sources.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    private.clean(folder)
    bundle = {
        "request": {**fields, **REFERENCE_FILES, "vmfb": [MODULE], "exported": exported},
        "files": {name: asdict(atomic.digest_of(folder / name)) for name in data},
        "fingerprint": str(STAGES[VERIFY].version),
        "row": record.data,
        "threads": row.threads,
    }
    atomic.write_json(folder / MEASURE, private.cleaned(bundle))
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
exec "$PYTHON" -m scripts.tools.reproduce.measure_elsewhere "$@"
"""
