"""A folder with a test of each distinct dispatch of a cell: the dispatch as a program, inputs, right outputs and commands.

`run.sh` compiles and runs all of them with the flags of a file and compares the outputs. So sets of flags, builds of IREE and
targets are compared per dispatch. The dispatches are also compared with those of another cell of the same program: which differ
in their results, and in their time.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout
from scripts.core.tensors import TensorType
from scripts.iree import compile_options, session, shell
from scripts.iree.backends import allocator_flags
from scripts.iree.session import runtime_flags
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Decision, Difference, decide
from scripts.measure.timing.turns import Rule
from scripts.results import wording
from scripts.results.wording import milliseconds
from scripts.run.recorded import NoCase
from scripts.supervise.members import Member, failed_member, time_in_turns, unfit_control
from scripts.tools.reproduce import mismatch
from scripts.tools.reproduce.case import Case
from scripts.tools.reproduce.run_dispatches import PROGRAM, REPORT, RIGHT, RIGHT_DEVICE, TESTED

SCRIPT, README = "run.sh", "README.md"
FLAGS, RIGHT_FLAGS = "flags.txt", "flags_right.txt"
RULE = Rule(budget_s=1.0, generations=ratios.LEAST)
"""How each dispatch is timed."""
SIDES, TABLE = ("before", "after"), "comparison.md"
RATE, MATTERS = 0.05, 1.05
"""The rate of false discoveries, and the ratio from which a difference matters."""


def write(
    case: Case, folder: Path, budget_s: float, modules: Path | None = None
) -> list[dict[str, Any]]:
    """Write the tests of a cell into a folder, which must not exist; return what the report says about each. `budget_s`: seconds of
    each step. `modules`: folder for the modules of the dispatches that are right. Raises NoCase."""
    if case.exported.dynamic:
        raise NoCase(
            f"{case.cell} has a program for all sizes; its dispatches are written of the program for one size"
        )
    folder.mkdir(parents=True)
    written = {"program": case.files[PROGRAM], "right_flags": case.cpu_flags}
    results = run(case, folder, budget_s, modules, written)
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
        if (
            case.compilation.run("scripts.tools.reproduce.run_dispatches", fields, Path(scratch))
            != 0
        ):
            raise NoCase(f"{case.cell}: its dispatches were not tested; the messages above say why")
        results: dict[str, dict[str, Any]] = atomic.read_json(Path(scratch, TESTED))
        return results


def counted(tests: Sequence[Mapping[str, Any]]) -> str:
    """`40 right, 1 wrong`."""
    return ", ".join(f"{n} {status}" for status, n in Counter(test["status"] for test in tests).most_common())  # fmt: skip


def _write_command(case: Case, folder: Path, test: Mapping[str, Any]) -> None:
    """Write the commands of a dispatch. They run in the folder above, to which paths in flags are relative."""
    name = folder.name
    text = _COMMAND.format(name=name, flags=FLAGS, program=PROGRAM)
    if test["outputs"]:
        inputs = len(mismatch.saved(folder, "input"))
        call = mismatch.calling(
            f"{name}/module.vmfb", case.device, inputs, test["outputs"], test["largest_value"]
        )
        call = [
            *(word.replace("=@", f"=@{name}/") for word in call),
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
            wording.text(test["detail"].partition("\n")[0][:200]),
        )
        for test in sorted(tests, key=lambda test: test["status"] == "right")
    ]
    table = wording.table(("folder", "dispatches", "operations", "with the cell's flags", ""), rows)
    return _README.format(
        cell=case.cell,
        version=case.versions["iree"],
        device=case.device,
        counted=counted(tests),
        table=table.strip(),
        folders=len(tests),
        dispatches=sum(len(test["functions"]) for test in tests),
    )


@dataclass(frozen=True)
class Side:
    """A cell, the results of its tests by the names of their folders, and the folder of its modules."""

    case: Case
    results: Mapping[str, Mapping[str, Any]]
    modules: Path


def compare(
    case: Case, other: Case, folder: Path, budget_s: float, scratch: Path
) -> tuple[list[dict[str, Any]], str]:
    """Write the tests of a cell as `write` does, test and time them as another cell too, and add TABLE to the folder; return the
    tests and the table. Raises NoCase."""
    if case.files[PROGRAM].read_bytes() != other.files[PROGRAM].read_bytes():
        raise NoCase(
            f"{case.cell} and {other.cell} have different programs, so different dispatches"
        )
    modules = [scratch / name for name in SIDES]
    for place in modules:
        place.mkdir()
    tests = write(case, folder, budget_s, modules[0])
    results = {test["functions"][0]: test for test in tests}
    others = run(other, folder, budget_s, modules[1])
    sides = Side(case, results, modules[0]), Side(other, others, modules[1])
    timed, left = measure(folder, sides, time.monotonic() + budget_s)
    text = table(sides, timed, left)
    (folder / TABLE).write_text(text, encoding="utf-8")
    return tests, text


def table(sides: tuple[Side, Side], timed: Sequence[Timed], left: Mapping[str, str]) -> str:
    """The dispatches as Markdown, those that have become slower by most milliseconds first."""
    before, after = sides
    slowest_first = sorted(timed, key=lambda each: each.before_ms - each.after_ms)
    rows = [
        (
            f"`{each.name}`",
            str(len(before.results[each.name]["functions"])),
            milliseconds(each.before_ms),
            milliseconds(each.after_ms),
            f"{each.decision.ratio:.3f} ({each.decision.low:.3f} to {each.decision.high:.3f})",
            each.decision.verdict,
        )
        for each in slowest_first
    ]
    head = ("dispatch", "functions", "before, ms", "after, ms", "ratio", "verdict")
    lines = [
        f"{before.case.cell} → {after.case.cell}: {counted([*before.results.values()])} → "
        f"{counted([*after.results.values()])}\n",
        wording.table(head, rows, (1, 2, 3, 4)) if rows else "",
        *(
            f"wrong in {after.case.cell}: `{name}`: {test['detail']}\n"
            for name, test in after.results.items()
            if test["status"] == "wrong"
        ),
        *(f"not timed: `{name}`: {why}\n" for name, why in left.items()),
    ]
    return "\n".join(filter(None, lines))


@dataclass(frozen=True)
class Timed:
    """A dispatch in both cells, in milliseconds per call."""

    name: str
    before_ms: float
    after_ms: float
    decision: Decision


def measure(
    folder: Path, sides: tuple[Side, Side], deadline: float
) -> tuple[list[Timed], dict[str, str]]:
    """Time the dispatches that are right in both cells, each in turns; return them, and by name why others were not timed.

    `deadline`: by time.monotonic(), after which no dispatch is begun.
    """
    timed: list[tuple[str, float, float, Difference]] = []
    left: dict[str, str] = {}
    names = [name for name, said in sides[0].results.items() if said["status"] == RIGHT]
    for name in names:
        if sides[1].results[name]["status"] != RIGHT:
            left[name] = f"in the other cell it is {sides[1].results[name]['status']}"
        elif time.monotonic() > deadline:
            left[name] = "the time was over (--budget)"
        else:
            try:
                timed.append((name, *_in_turns(folder / name, sides)))
            except NotTimed as error:
                left[name] = str(error)
    decisions = decide([difference for *_, difference in timed], RATE, MATTERS)
    return [
        Timed(name, before_ms, after_ms, decision)
        for (name, before_ms, after_ms, _), decision in zip(timed, decisions, strict=True)
    ], left


class NotTimed(Exception):
    """A dispatch was not timed. Says why."""


def _in_turns(test: Path, sides: Sequence[Side]) -> tuple[float, float, Difference]:
    """The milliseconds of a dispatch in both cells, and the logarithm of their ratio. Raises NotTimed."""
    members = [_member(name, side, test) for name, side in zip(SIDES, sides, strict=True)]
    timing = time_in_turns(members, RULE)
    if why := failed_member(timing):
        raise NotTimed(why)
    before, after = (timing.members[member.name].values_ms for member in members)
    difference = ratios.paired(after, before)
    if difference is None:
        raise NotTimed(f"{len(after)} generations; an interval needs {ratios.LEAST}")
    if why := unfit_control(timing):
        raise NotTimed(why)
    return math.exp(ratios.log_mean(before)), math.exp(ratios.log_mean(after)), difference


def _member(name: str, side: Side, test: Path) -> Member:
    """The process that times the module of a dispatch, with the runtime of its cell's compiler."""
    case, inputs = side.case, mismatch.saved(test, "input")
    types = [TensorType("", array.shape, array.dtype.name) for array in inputs]
    raw = side.modules / f"{test.name}-inputs"
    command = [
        *(str(case.root / case.compilation.request.python), "-m", "scripts.stages.time_module"),
        *(f"--module={side.modules / test.name}.vmfb", "--function=main"),
        *(f"--device={case.device}", *runtime_flags(case.device, case.threads or 1)),
        *allocator_flags(case.device),
        *session.write_inputs(raw, inputs, types),
    ]
    log = side.modules / f"{test.name}-{name}.txt"
    return Member(
        name, tuple(command), log, forked=False, env=checkout.variables(), folder=case.root
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
