"""A folder with a test of each distinct dispatch of a cell: the dispatch as a program, inputs, right outputs and commands.

`run.sh` compiles and runs all of them with the flags of a file and compares the outputs. So sets of flags, builds of IREE and
targets are compared per dispatch.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.reproduce import case as cases
from scripts.features.reproduce.case import COMPILE, Case, NoCase
from scripts.features.reproduce.reduction import mismatch
from scripts.features.reproduce.reduction.dispatches import PROGRAM, REPORT, RIGHT_DEVICE, TESTED
from scripts.iree import compile_options, shell
from scripts.iree.session import runtime_flags
from scripts.records import markdown

SCRIPT, README = "run.sh", "README.md"
FLAGS, RIGHT_FLAGS = "flags.txt", "flags_right.txt"


def write(
    root: Path, case: Case, folder: Path, budget_s: float, modules: Path | None = None
) -> list[dict[str, Any]]:
    """Write the tests of a cell into a folder, which must not exist; return what the report says about each. `modules`: folder
    for the modules of the dispatches that are right. Raises NoCase."""
    if case.exported.dynamic:
        raise NoCase(
            f"{case.cell} has a program for all sizes; its dispatches are written of the program for one size"
        )
    folder.mkdir(parents=True)
    written = {"program": case.files[PROGRAM], "right_flags": case.cpu_flags}
    results = run(root, case, folder, budget_s, modules, written)
    tests = [each | results[each["functions"][0]] for each in atomic.read_json(folder / REPORT)]
    atomic.write_json(folder / REPORT, tests)
    if compile_options.SPEC_COPY in case.files:
        shutil.copyfile(case.files[compile_options.SPEC_COPY], folder / compile_options.SPEC_COPY)
    for name, flags in (
        (FLAGS, compile_options.flags_in_bundle(case.flags)),
        (RIGHT_FLAGS, case.cpu_flags),
    ):
        (folder / name).write_text("".join(f"{flag}\n" for flag in flags), encoding="utf-8")
    for test in tests:
        _write_command(case, folder / test["functions"][0], test)
    about = f"{case.cell}: compiles and runs each dispatch, and compares its outputs with the right ones."
    shell.write_text(folder / SCRIPT, about, str(case.versions["iree"]), _RUN)
    (folder / README).write_text(_readme(case, tests), encoding="utf-8")
    return tests


def run(
    root: Path,
    case: Case,
    folder: Path,
    budget_s: float,
    modules: Path | None = None,
    written: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Test the dispatches in a folder with the compiler, flags and device of a cell; return what came out, by the names of their
    folders. `written`: fields by which the dispatches are written first. Raises NoCase."""
    with tempfile.TemporaryDirectory() as scratch:
        fields = {
            "tests": folder.absolute(),
            "flags": case.flags,
            "device": case.device,
            "threads": case.threads or 1,
            "budget": budget_s,
            "modules": modules,
            **(written or {}),
        }
        # By the compiler of the cell, which may be that of a toolchain.
        compilation = cases.recorded(root, COMPILE, case.module)
        if compilation.run("scripts.stages.run_dispatches", fields, Path(scratch)) != 0:
            raise NoCase(f"{case.cell}: its dispatches were not tested; the messages above say why")
        results: dict[str, dict[str, Any]] = atomic.read_json(Path(scratch, TESTED))
        return results


def counted(tests: Sequence[Mapping[str, Any]]) -> str:
    """`40 right, 1 wrong`."""
    return ", ".join(f"{n} {status}" for status, n in Counter(test["status"] for test in tests).most_common())  # fmt: skip


def _write_command(case: Case, folder: Path, said: Mapping[str, Any]) -> None:
    """Write the commands of a dispatch. They run in the folder above, to which paths in flags are relative."""
    name = folder.name
    text = _COMMAND.format(name=name, flags=FLAGS, program=PROGRAM)
    if said["outputs"]:
        inputs = len(mismatch.saved(folder, "input"))
        call = mismatch.calling(f"{name}/module.vmfb", case.device, inputs, said["outputs"])
        tolerance = mismatch.RELATIVE * said["largest_value"]
        call = [
            *(word.replace("=@", f"=@{name}/") for word in call),
            *(f"--expected_{kind}_threshold={tolerance:g}" for kind in ("f16", "f32", "f64")),
            *runtime_flags(RIGHT_DEVICE, case.threads or 1),
        ]
        given = f"--device={case.device}"
        text += shell.shown(call).replace(given, f'--device="${{DEVICE:-{case.device}}}"') + "\n"
    script = folder / SCRIPT
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)


def _readme(case: Case, tests: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"`{test['functions'][0]}`",
            str(len(test["functions"])),
            ", ".join(f"{n} {name}" for name, n in test["operations"].items()),
            test["status"],
            markdown.text(test["detail"].partition("\n")[0][:200]),
        )
        for test in sorted(tests, key=lambda test: test["status"] == "right")
    ]
    table = markdown.table(
        ("folder", "dispatches", "operations", "with the cell's flags", ""), rows
    )
    return _README.format(
        cell=case.cell,
        version=case.versions["iree"],
        device=case.device,
        counted=counted(tests),
        table=table.strip(),
        folders=len(tests),
        dispatches=sum(len(test["functions"]) for test in tests),
    )


_COMMAND = """\
#!/bin/sh
# {name}: ends with 0 if it compiles and its outputs are right. README.md explains FLAGS and DEVICE.
set -eu
cd "$(dirname "$0")/.."
rm -f {name}/module.vmfb
while IFS= read -r flag; do
    set -- "$@" "$flag"
done < "${{FLAGS:-{flags}}}"
set -x
iree-compile "$@" {name}/{program} -o {name}/module.vmfb
"""

_RUN = """\
failed=0
for script in */run.sh; do
    name=${script%/run.sh}
    if "./$script" > "$name/log.txt" 2>&1; then
        [ -f "$name/expected_0.npy" ] && said=right || said=compiles
    elif grep -q '\\[FAILED\\]' "$name/log.txt"; then
        said=wrong
    elif [ -f "$name/module.vmfb" ]; then
        said='does not run'
    else
        said='does not compile'
    fi
    case $said in right | compiles) ;; *) failed=1 ;; esac
    printf '%-16s %s\\n' "$said" "$name"
done
exit $failed
"""

_README = """\
# Dispatches of {cell}

IREE {version} compiles this cell to {dispatches} different dispatches. Each of the {folders} folders has one of them as a program of its own
(dispatches of the same operations are in one folder), on `{device}`: {counted}.

```sh
./run.sh                                  # all; makes ./venv with IREE {version}
./run.sh ~/iree-build/tools               # with the tools of this folder
FLAGS=flags_right.txt ./run.sh            # with other flags of iree-compile, one per line of a file
FLAGS=cuda.txt DEVICE=cuda ./run.sh       # for another target
```

`run.sh` prints `right`, `wrong`, `does not run`, `does not compile`, or `compiles` where there are no right outputs, for each dispatch, and ends with 1 if one fails. Its output for two
sets of flags, builds or targets can be compared with `diff`. What the tools print is in `<folder>/log.txt`.

| file | contents |
| --- | --- |
| `program.mlir` | the operations of the program that are in the dispatch. Weights and what other dispatches compute are arguments. Of a dispatch that only packs an operand: the operation that uses it |
| `input_<n>.npy` | random inputs, always the same |
| `expected_<n>.npy` | right outputs: those of llvm-cpu at O0 (`flags_right.txt`) |
| `computed_<n>.npy` | wrong outputs with the flags of the cell, if they are wrong; after `--against`, those of the other cell if that is wrong |
| `run.sh` | the commands for this dispatch; it needs the tools on PATH |

Outputs are wrong if they are further apart than 1 % of the largest value of all of them.

{table}
"""
