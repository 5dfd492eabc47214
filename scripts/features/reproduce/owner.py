"""Whose fault a wrong result is likely to be: of IREE's compiler, or of the tool that has lowered the model.

The same program is run by XLA and by IREE at O0, and the rows of the model's other lowering paths are looked at.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.reproduce import case as cases
from scripts.features.reproduce import issue
from scripts.features.reproduce.case import VERIFY, WRONG_RESULT, Case, NoCase, Owner
from scripts.features.reproduce.compared import FILE, O0, SAME, XLA
from scripts.matrix.cell import REFERENCES, Cell, Kind
from scripts.records.results_file import Record, cell_of
from scripts.supervise import outcome

PASS = "PASS"
LIMIT_S = 300


def with_owner(root: Path, case: Case, records: Iterable[Record]) -> Case:
    """The case of a wrong result with its likely owner; other cases as they are."""
    if case.ended.reason != WRONG_RESULT or not case.compares_values:
        return case
    cell = Cell.parse(case.cell, Kind.IREE)
    try:
        compared = _compared(root, case, cell)
    except NoCase as error:
        print(f"note: {case.cell}: not compared with other executors: {error}")
        compared = {}
    return dataclasses.replace(case, owner=likely(case.exporter, compared, _others(records, cell)))


def likely(exporter: str, compared: Mapping[str, Any], others: Mapping[str, bool]) -> Owner:
    """The likely owner. `compared`: what compare_executors has written, {} if nothing. `others`: whether the results of each other lowering
    path of the model are right, by its name."""
    none = {"code": "", "detail": "it was not run"}
    xla, plain = compared.get(XLA, none), compared.get(O0, none)
    right = [path for path, is_right in others.items() if is_right]
    wrong = [path for path, is_right in others.items() if not is_right]
    tool, tracker = issue.TOOLS.get(exporter, ("", ""))
    iree = ("IREE", issue.IREE)
    of_tool = (tool, tracker) if tool else iree
    lowered = f"so the program is wrong: {tool}'s lowering" if tool else "so the program of the file, or the golden results that were given with it, are wrong"  # fmt: skip
    if xla["code"] == PASS:
        name = iree
        at_o0 = {PASS: ", in what it does beyond O0", "": ""}.get(plain["code"], ", at O0 too")
        said = f"XLA computes the golden result from the same StableHLO, so IREE's compiler is wrong{at_o0}."
    elif xla["code"]:
        name = of_tool
        alike = "IREE at O0 and XLA give the same wrong result from the same program" if compared.get(SAME) == PASS else "XLA computes a wrong result from the same StableHLO too"  # fmt: skip
        said = f"{alike}, {lowered}."
    elif plain["code"] == PASS:
        name = iree
        said = "IREE at O0 computes the golden result from the same program, so an optimization of its compiler is wrong."
    elif plain["code"] and right and tool:
        name = of_tool
        said = f"IREE at O0 computes a wrong result from the same program too, and the model is right by other paths, so {tool}'s lowering is likely to be wrong."
    elif plain["code"]:
        name = iree
        said = "IREE at O0 computes a wrong result from the same program too: whether the program or IREE's compiler is wrong is not known."
    else:
        name = iree
        said = f"The program ran on no other executor (IREE at O0: {plain['detail']})."
    if not xla["code"]:
        said += f" XLA was not compared: {xla['detail']}."
    for text, paths in (("right", right), ("wrong", wrong)):
        said += f" By other paths the model is {text}: {', '.join(paths)}." if paths else ""
    return Owner(*name, said, PASS in (xla["code"], plain["code"]))


def _compared(root: Path, case: Case, cell: Cell) -> Mapping[str, Any]:
    reference = cases.recorded(root, REFERENCES[cell.test], cell.model)
    verified = cases.recorded(root, VERIFY, case.cell).request.only("tolerance")
    with tempfile.TemporaryDirectory(prefix="owner-") as folder:
        files = {
            "program": "program.mlir",
            "weights": "weights.irpa",
            "inputs": "inputs.npz",
            "golden": "golden.npz",
            "signature": "signature.json",
        }
        fields: dict[str, Any] = {key: case.files[name] for key, name in files.items()}
        fields |= {**verified, "flags": case.cpu_flags, "limit_s": LIMIT_S}
        if reference.run("scripts.stages.compare_executors", fields, Path(folder)):
            raise NoCase("the messages above say why")
        return atomic.read_json(Path(folder, FILE))


def _others(records: Iterable[Record], cell: Cell) -> dict[str, bool]:
    """Whether the results of each other lowering path of the model are right, by its name; paths whose targets differ in that are
    left out."""
    codes: dict[str, set[bool]] = {}
    for record in records:
        other = cell_of(record.data)
        is_other = record.is_iree and (other.model, other.test) == (cell.model, cell.test) and other.frontend != cell.frontend  # fmt: skip
        ended = record.data["outcome"]
        if is_other and (ended["status"] == outcome.OK or ended["reason"] == WRONG_RESULT):
            codes.setdefault(other.frontend or "", set()).add(ended["status"] == outcome.OK)
    return {path: right.pop() for path, right in codes.items() if len(right) == 1}
