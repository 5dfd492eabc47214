"""The rows of results/fuzz.csv, one for each cause of failures, and results/fuzz.md."""

from __future__ import annotations

from collections import Counter
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


def records(causes: Iterable[Cause], folders: Mapping[str, Path]) -> list[Record]:
    """The records of causes. `folders`: of the work of each lowering path."""
    return [{"cause": _values(cause, folders[cause.first.path])} for cause in causes]


def _values(cause: Cause, folder: Path) -> dict[str, Any]:
    first, reduced = cause.first, cause.reduced.get("reduced")
    folders = [*folder.glob(f"*/causes/{first.name}")] if reduced else []
    return {
        "path": first.path,
        "status": first.status,
        "stage": first.stage,
        "known": cause.known.name if cause.known else "",
        "issue": cause.known.issue if cause.known else "",
        "count": cause.count,
        "operators": " ".join(cause.operators)
        if reduced or len(first.operators) < 3
        else f"not reduced ({len(first.operators)})",
        "inputs": " ".join(cause.reduced.get("inputs", ())),
        "right_on": " ".join(cause.right_on),
        "detail": cause.detail[:500],
        "graph": first.name.replace("-", "/"),
        "source": cause.reduced.get("source", ""),
        "reproducer": str(folders[0]) if folders else "",
    }


def sections(records: Sequence[Record], counts: Counts) -> list[Section]:
    """What is shown of causes."""
    paths = list(dict.fromkeys(path for path, _ in counts))
    statuses = Counter(status for _, status in counts)
    judged = ("ok", "wrong", "crashed", "hangs", "refused")
    open_ = [status for status in sorted(statuses) if status not in judged]
    table = [[path, *(str(counts.get((path, s), 0)) for s in judged), str(sum(counts.get((path, s), 0) for s in open_))] for path in paths]  # fmt: skip
    reasons = Counter[str]()
    for (_, status), count in counts.items():
        if status in open_:
            reasons[status.removeprefix("undefined: ")] += count
    thrown = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    head = ("status", "stage", "known", "graphs", "operators", "inputs", "right on", "detail")
    lines = []
    for record in records:
        cause = record["cause"]
        status = Styled(cause["status"], STRONG) if cause["status"] == "wrong" else cause["status"]
        detail = " ".join(cause["detail"].split())
        lines.append([status, cause["stage"], cause["known"], str(cause["count"]), Styled(cause["operators"], CODE), cause["inputs"], cause["right_on"], detail[:160]])  # fmt: skip
    return [
        Section(
            "Graphs",
            ("path", *judged, "thrown away"),
            table,
            range(1, 7),
            f"Thrown away, as no result is right: {thrown}." if thrown else "",
        ),
        Section("Causes", head, lines, (3,)),
        Section(
            "Reduced graphs",
            parts=[
                Section(
                    f"{r['cause']['status']}: {r['cause']['operators']}",
                    text=r["cause"]["source"],
                    lines=[r["cause"]["reproducer"]],
                )
                for r in records
                if r["cause"]["source"]
            ],
        ),
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
