"""Adds the smallest case of a failure to its reproducer: few operations, or one wrong operator."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.core import atomic
from scripts.features.reproduce import bundle
from scripts.features.reproduce.case import COMPILE, WRONG_RESULT, Case, NoCase, recorded
from scripts.features.reproduce.reduction.mismatch import RELATIVE
from scripts.iree import shell
from scripts.iree.session import runtime_flags
from scripts.matrix import threads, training
from scripts.supervise import outcome

REDUCED = "reduced.mlir"


def add(root: Path, case: Case, folder: Path, budget_s: float) -> None:
    """Add the reduced program of a case to its bundle, and to the issue. Of wrong results, the frontend is examined first."""
    if case.reason == WRONG_RESULT and _wrong_operator(root, case, folder, budget_s):
        return
    if case.stage == COMPILE and case.status in outcome.FAILED:
        mode = []
    elif case.reason == WRONG_RESULT and case.threads:
        mode = ["--right-flags", json.dumps(case.right_flags)]
        mode += ["--device", case.device, "--threads", str(case.threads)]
    else:
        why = f" ({case.reason})" if case.reason else f" on {case.device}"
        print(
            f"note: {case.cell}: only failures to compile and wrong results on a CPU are reduced; "
            f"this is {case.stage}: {case.status}{why}"
        )
        return
    place = folder.absolute()
    out, report = place / REDUCED, place / "reduction.json"
    options = [
        *("--program", str(place / bundle.PROGRAM), "--flags", json.dumps(case.flags)),
        *("--budget", f"{budget_s:g}", "--out", str(out), "--out-report", str(report), *mode),
    ]
    try:
        # By the compiler of the cell, which may be that of a toolchain.
        compilation = recorded(root, COMPILE, threads.shared(case.cell))
        if compilation.run("scripts.stages.reduce_program", options) != 0:
            print(f"note: {case.cell} was not reduced; the messages above say why")
            return
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return
    steps = [bundle.compiling(case, REDUCED, "reduced.vmfb")]
    inputs, outputs = (len([*folder.glob(f"{name}_*.npy")]) for name in ("input", "expected"))
    if outputs:
        # The difference from which the search has called values different.
        tolerance = RELATIVE * atomic.read_json(report)["largest_value"]
        steps.append(
            [
                *("iree-run-module", "--module=reduced.vmfb", "--function=main"),
                *(f"--device={case.device}", *runtime_flags(case.device, case.threads or 1)),
                *(f"--input=@input_{n}.npy" for n in range(inputs)),
                *(f"--expected_output=@expected_{n}.npy" for n in range(outputs)),
                *(f"--expected_{kind}_threshold={tolerance:g}" for kind in ("f16", "f32", "f64")),
            ]
        )
    shell.write(
        folder / "run_reduced.sh",
        f"{case.cell}: the few operations of {REDUCED}, which fail in the same way.",
        str(case.versions["iree"]),
        steps,
    )
    bundle.write_issue(case, folder, out.read_text(encoding="utf-8"))


def _wrong_operator(root: Path, case: Case, folder: Path, budget_s: float) -> bool:
    """Look for a wrong operator in the captured graph of a case, in the environment of its frontend; return whether one was
    found and written."""
    try:
        if training.test(case.exported.rpartition("/")[2]) == training.TRAIN:
            raise NoCase(
                "operators are looked for in graphs of forward passes, not of training steps"
            )
        export = recorded(root, "export", case.exported)
        model = ("--name", "--model-file", "--options", "--load-threads")
        options = export.words(*model, "--exporter", "--exporter-options")
        words = [*options, "--budget", f"{budget_s:g}", "--out", str(folder.absolute())]
        return export.run("scripts.stages.find_wrong_operator", words) == 0
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return False
