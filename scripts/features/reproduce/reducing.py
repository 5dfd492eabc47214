"""Adds the smallest case of a failure to its reproducer: few operations, or one wrong operator."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.core import atomic
from scripts.features.reproduce import case as cases
from scripts.features.reproduce import commands, recorded, writing
from scripts.features.reproduce.case import COMPILE, Case, NoCase
from scripts.features.reproduce.reduction import mismatch
from scripts.iree import shell
from scripts.matrix import threads, training
from scripts.supervise import outcome

EXPORT = "export"
WRONG = "scripts.stages.find_wrong_operator"
"""The command that searches in the captured graph of a model."""


def add(root: Path, case: Case, folder: Path, budget_s: float) -> None:
    """Add the reduced program of a case to its bundle, and to the issue. Of wrong results, the frontend is examined first."""
    if case.reason == cases.WRONG_RESULT and _wrong_operator(root, case, folder, budget_s):
        return
    if (mode := _mode(case)) is None:
        print(
            f"note: {case.cell}: only failures to compile and wrong results on a CPU are reduced; "
            f"this is {case.stage}: {case.status}"
            + (f" ({case.reason})" if case.reason else f" on {case.device}")
        )
        return
    place = folder.absolute()
    out, report = place / commands.REDUCED, place / "reduction.json"
    options = [
        *("--program", str(place / "program.mlir"), "--flags", json.dumps(case.flags)),
        *("--budget", f"{budget_s:g}", "--out", str(out), "--out-report", str(report), *mode),
    ]
    try:
        # By the compiler of the cell, which may be that of a toolchain.
        ended = recorded.of(root, COMPILE, threads.shared(case.cell)).run(
            "scripts.stages.reduce_program", options
        )
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return
    if ended != 0:
        print(f"note: {case.cell} was not reduced; the messages above say why")
        return
    inputs, outputs = (len([*folder.glob(f"{name}_*.npy")]) for name in ("input", "expected"))
    shell.write(
        folder / "run_reduced.sh",
        f"{case.cell}: the few operations of {commands.REDUCED}, which fail in the same way.",
        str(case.versions["iree"]),
        commands.of_reduced(case, inputs, outputs, _tolerance(report)),
    )
    log = (folder / "log.txt").read_text(encoding="utf-8")
    writing.write_issue(case, folder, log, out.read_text(encoding="utf-8"))


def _wrong_operator(root: Path, case: Case, folder: Path, budget_s: float) -> bool:
    """Look for a wrong operator in the captured graph of a case, in the environment of its frontend; return whether one was
    found and written."""
    try:
        if training.test(case.exported.rpartition("/")[2]) == training.TRAIN:
            raise NoCase(
                "operators are looked for in graphs of forward passes, not of training steps"
            )
        export = recorded.of(root, EXPORT, case.exported)
        model = ("--name", "--model-file", "--options", "--load-threads")
        options = export.words(*model, "--exporter", "--exporter-options")
        words = [*options, "--budget", f"{budget_s:g}", "--out", str(folder.absolute())]
        return export.run(WRONG, words) == 0
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return False


def _tolerance(report: Path) -> float:
    """The difference from which the search has called values different; 0 if it was for a failure to compile."""
    return mismatch.RELATIVE * atomic.read_json(report).get("largest_value", 0.0)


def _mode(case: Case) -> list[str] | None:
    """Options of scripts.stages.reduce_program for the kind of a failure; None if it cannot be reduced."""
    if case.stage == COMPILE and case.status in outcome.FAILED:
        return []
    if case.reason == cases.WRONG_RESULT and case.threads:
        return [
            *("--right-flags", json.dumps(case.right_flags)),
            *("--device", case.device, "--threads", str(case.threads)),
        ]
    return None
