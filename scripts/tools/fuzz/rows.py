"""The rows of results/fuzz.csv, one for each cause of failures, and results/fuzz.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from scripts.config.rows import Matrix
from scripts.results.columns import FROM_1, INTEGER, OBJECT, TEXT, Field
from scripts.results.page_sections import CODE, STRONG, Section, Styled, as_markdown
from scripts.results.results_file import Form
from scripts.results.row_set import Content, RowSet
from scripts.results.screen import Printed
from scripts.run import outputs
from scripts.tools.fuzz.triage import Cause

STATUSES = Literal["wrong", "crashed", "hangs", "refused", "slow"]
FIELDS = (
    Field("cause", OBJECT, "What failures of random graphs have in common."),
    Field("cause.path", TEXT, "Lowering path (frontend and target), or baseline.", column="path"),
    Field("cause.status", TEXT, "`wrong`: eager computes other values; `refused`: with a message; `slow`: over five times as long as by another path.", column="status", checks=STATUSES),
    Field("cause.stage", TEXT, "`export`, `compile`, `run` or `worker`.", column="stage"),
    Field("cause.known", TEXT, "Name of the known failure (`workflow/known_failures.yaml`), or empty.", column="known"),
    Field("cause.issue", TEXT, "Its issue, in the project that owns it.", column="issue"),
    Field("cause.count", INTEGER, "Graphs that failed so.", column="count", varies=True, checks=FROM_1),
    Field("cause.operators", TEXT, "Operators of the smallest graph that was found.", column="operators"),
    Field("cause.inputs", TEXT, "Types of its inputs.", column="inputs"),
    Field("cause.right_on", TEXT, "Other paths of the call on which the reduced graph does not fail.", column="right_on"),
    Field("cause.detail", TEXT, "What was said about it.", column="detail"),
    Field("cause.graph", TEXT, "Seed and number of the graph that was reduced, with the digest of the graph of which it is a mutation.", column="graph"),
    Field("cause.source", TEXT, "The reduced graph in Python; empty if none was reduced."),
    Field("cause.reproducer", TEXT, "Folder of a reproducer that needs the wheels alone, or empty.", column="reproducer"),
)  # fmt: skip
Record = Mapping[str, Any]
Counts = Mapping[tuple[str, str], int]
_THROWN = "thrown away"


def records(causes: Iterable[Cause], folders: Mapping[str, Path]) -> list[Record]:
    """The records of causes. `folders`: of the work of each lowering path."""
    return [{"cause": _values(cause, folders[cause.first.path])} for cause in causes]


def _values(cause: Cause, folder: Path) -> dict[str, Any]:
    first, reduced = cause.first, cause.reduced.get("reduced")
    folders = [*folder.glob(f"*/causes/{first.name}")] if reduced else []
    is_small = reduced or len(first.operators) < 3
    return {
        "path": first.path,
        "status": first.status,
        "stage": first.stage,
        "known": cause.known.name if cause.known else "",
        "issue": cause.known.issue if cause.known else "",
        "count": cause.count,
        "operators": " ".join(cause.operators) if is_small else f"not reduced ({len(first.operators)})",
        "inputs": " ".join(cause.reduced.get("inputs", ())),
        "right_on": " ".join(cause.right_on),
        "detail": cause.detail[:500],
        "graph": first.name.replace("-", "/"),
        "source": cause.reduced.get("source", ""),
        "reproducer": str(folders[0]) if folders else "",
    }  # fmt: skip


def sections(records: Sequence[Record], counts: Counts) -> list[Section]:
    """What is shown of causes."""
    judged = ("ok", "wrong", "crashed", "hangs", "refused")
    by_path: dict[str, Counter[str]] = defaultdict(Counter)
    reasons = Counter[str]()
    for (path, status), count in counts.items():
        by_path[path][status if status in judged else _THROWN] += count
        if status not in judged:
            reasons[status.removeprefix("undefined: ")] += count
    thrown = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    about = f"{_THROWN.capitalize()}, as no result is right: {thrown}." if thrown else ""
    counted = ("path", *judged, _THROWN)
    table = [[path, *(str(of_path[name]) for name in counted[1:])] for path, of_path in by_path.items()]  # fmt: skip
    head = ("status", "stage", "known", "graphs", "operators", "inputs", "right on", "detail")
    causes = [record["cause"] for record in records]
    lines = [
        [Styled(c["status"], STRONG) if c["status"] == "wrong" else c["status"], c["stage"], c["known"], str(c["count"]),
         Styled(c["operators"], CODE), c["inputs"], c["right_on"], " ".join(c["detail"].split())[:160]]
        for c in causes
    ]  # fmt: skip
    reduced = [Section(f"{c['status']}: {c['operators']}", text=c["source"], lines=[c["reproducer"]]) for c in causes if c["source"]]  # fmt: skip
    return [
        Section("Graphs", counted, table, range(1, 7), about),
        Section("Causes", head, lines, (3,)),
        Section("Reduced graphs", parts=reduced),
    ]


def of_causes(records: Sequence[Record], counts: Counts) -> Content:
    """What a call writes."""
    page = "# Fuzzing\n\n" + as_markdown(sections(records, counts))
    return Content(records, lambda _: page)


def content(matrix: Matrix, folder: Path) -> Content:
    raise ValueError("`vmfbench fuzz` writes results/fuzz.csv")


ROW_SET = RowSet(
    name="fuzz",
    jsonl=outputs.files_of("fuzz")[2],
    about="One row for every cause of failures of random graphs.",
    declared_in="scripts/tools/fuzz/rows.py",
    form=Form("results/fuzz.csv", FIELDS, contradiction=lambda record: "", needed={}),
    columns=[field for field in FIELDS if field.column],
    described=FIELDS,
    content=content,
    screen=lambda records: Printed(sections(list(records), {})),
    is_large=True,  # no columns for baselines, and not kept in the history
)
