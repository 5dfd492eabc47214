"""Which models reach which frontend and target, how far the others came and why they stopped."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from scripts.config import stages
from scripts.config.cell import TRAIN, Kind
from scripts.core import atomic, commands, exits
from scripts.core.commands import option
from scripts.results import remedied, results_file
from scripts.results.page_sections import CODE, Section, Styled, as_markdown
from scripts.results.results_file import BadRecords, read
from scripts.results.results_table import Provenance
from scripts.results.row import Row
from scripts.supervise import outcome
from scripts.supervise.diagnose import failure_signature, readable_detail
from scripts.supervise.outcome import Outcome
from scripts.tools import registry

Record = Mapping[str, Any]

STAGES = (
    "reference",
    "gradients",
    *[stage.name for stage in stages.before(stages.LAST[Kind.IREE])][1:],
    "time",
)
"""The chain of an IREE cell, in order; only that of a training step has gradients."""
NOTHING = "nothing"
VERIFIED = "verified"

ENDINGS = {
    VERIFIED: "verified",
    "no-device": "compiled, no device",
    "wrong": "wrong result",
    "undecided": "undecided",
    "time": "verified, not timed",
    "verify": "failed at verify",
    "compile": "failed at compile",
    "export": "failed at export",
    "gradients": "failed at gradients",
    "reference": "failed at reference",
    "env": "no environment",
    "skipped": "skipped",
}
"""How a cell can end, and the heading of the count. Every cell is counted as exactly one."""
COLUMNS = (
    *("suite", "model", "frontend", "target", "reached", "stopped_at", "status", "reason"),
    *("detail", "verified", "rewrites", "remedy", "frontend_used", "first_error"),
)
"""The columns of coverage.csv, in order (docs/records.md)."""
LOWERING_PATH = ["frontend", "target"]
MODEL = ["suite", "model"]
MANY = 10
ALWAYS_COUNTED = ("verified", "no-device", "wrong", "compile", "export", "reference")
STOPPED = "Details that differ only in numbers, types or source lines share a row, which quotes the first of them."
COMPILED = "Cells by how they were compiled. *By remedy*: as asked they fail, and another lowering path, level or set of flags compiles them."
REMEDIES = "Cells that a remedy has compiled. They count as failed above and below if it took another lowering path."
LEGEND = """\
✓: verified against eager · `compiled`: it compiles, but this machine has no such device · `✗ wrong`: it
ran, and its results differ from eager's · `✗ <stage>`: that stage failed, with its status if that is
`unsupported`, `crashed`, `oom` or `timeout` · `✗ env`: an environment could not be made · `undecided`:
two runs of eager differ · `skipped`: on a skip list · –: not in the matrix · \\*: the exporter
rewrote the program, because the frontend does not accept it otherwise · †: a [remedy](#remedies) has compiled it
"""


def iree_cells(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the IREE cells among the records, in their order: COLUMNS, `ending` (a key of ENDINGS), `way` (Row.way) and
    `mark` (the outcome of the cell, in a word or two).

    `reached` is the last stage that succeeded, `stopped_at` the one that failed: `env` if the environment of a stage could
    not be made, "" for a verified cell. A cell that a remedy has compiled by another frontend's program (`frontend_used`)
    has failed at compile.
    """
    records = list(records)
    referenced = {_model_of(record) for record in records if _is_past_reference(record)}
    return [
        _cell(record, _model_of(record) in referenced)
        for record in records
        if record["experiment"]["runtime"] == "iree"
    ]


def _cell(record: Record, referenced: bool) -> dict[str, Any]:
    row, experiment = Row.of_record(record), record["experiment"]
    verified, ended = bool(row.timing), row.ended
    rewrites = tuple((record.get("export") or {}).get("rewrites") or ())
    ending = _ending(row)
    return {
        "suite": record["model"]["suite"],
        "model": row.model,
        "frontend": experiment["frontend"],
        "target": experiment["target"],
        "reached": VERIFIED if verified else _reached(record, ended, referenced),
        "stopped_at": "" if verified else ended.stage,
        "status": ended.status,
        "reason": ended.reason,
        "detail": ended.detail,
        "verified": verified,
        "rewrites": rewrites,
        "remedy": row.remedy,
        "frontend_used": remedied.frontend_used(record) or "",
        "first_error": remedied.first_error(record, "reason"),
        "ending": ending,
        "way": row.way,
        "mark": _mark(ended, ending) + ("*" if rewrites else "") + ("†" if row.remedy else ""),
    }


def _ending(row: Row) -> str:
    if row.timing:
        return VERIFIED
    ended = row.ended
    if ended.status == outcome.SKIPPED:
        return "skipped"
    if ended.status == outcome.UNAVAILABLE and ended.stage == "verify":
        return "no-device"
    special = {"wrong-result": "wrong", "nondeterministic-eager": "undecided"}
    return special.get(ended.reason, ended.stage)


def _mark(ended: Outcome, ending: str) -> str:
    words = {VERIFIED: "✓", "no-device": "compiled", "wrong": "✗ wrong"}
    if ending in ("undecided", "skipped"):
        return ending
    status = "" if ended.status == "error" else f" {ended.status}"
    return words.get(ending, f"✗ {ended.stage}{status}")


def _reached(record: Record, ended: Outcome, referenced: bool) -> str:
    """The last stage of the chain that succeeded."""
    is_train = record["experiment"]["test"] == TRAIN
    chain = [stage for stage in STAGES if is_train or stage != "gradients"]
    if ended.stage in chain and ended.status != outcome.SKIPPED:
        return (NOTHING, *chain)[chain.index(ended.stage)]
    # On a skip list, or without an environment: the row does not name the stage before, but
    # a stage that succeeded has left its report.
    for stage in ("compile", "export"):
        if record.get(stage):
            return stage
    return "reference" if referenced else NOTHING


def _is_past_reference(record: Record) -> bool:
    """Whether this row shows that the reference of its model, which all its rows share, succeeded."""
    result = record["outcome"]
    ran = result["status"] != outcome.SKIPPED and result["stage"] not in ("env", "reference")
    return ran or bool(record.get("reference") or record.get("export"))


def _model_of(record: Record) -> tuple[str, str]:
    return record["model"]["suite"], record["model"]["name"]


def frame(records: Sequence[results_file.Record]) -> pd.DataFrame:
    """One row per IREE cell, in the order of the records (iree_cells)."""
    return pd.DataFrame(iree_cells(record.data for record in records))


def to_csv(cells: pd.DataFrame) -> str:
    """CSV with one line per cell. Details are complete; their line breaks become spaces."""
    one_line = cells["detail"].map(lambda detail: " ".join(detail.split()))
    flat = cells.assign(detail=one_line, rewrites=cells["rewrites"].map("; ".join))
    return flat.map(commands.csv_cell).to_csv(
        columns=list(COLUMNS), index=False, lineterminator="\n"
    )


def page(cells: pd.DataFrame, records: Sequence[results_file.Record]) -> str:
    """The sections of the Markdown page, below its title: counts and reasons before the long table."""
    provenance = Provenance()
    for record in records:
        provenance.add(record.data)
    sections = [
        section("By suite", suites(cells)),
        section("Why cells stopped", reasons(cells), STOPPED),
        *([section("Compiled", compiled(cells), COMPILED)] if (cells["way"] != remedied.WAYS[0]).any() else []),
        *([section("Remedies", made_good(cells), REMEDIES)] if cells["remedy"].any() else []),
        section("By model", models(cells), LEGEND),
        *([section("Rewrites", rewrites(cells))] if cells["rewrites"].any() else []),
        Section("Measured with", lines=provenance.measured_with),
    ]  # fmt: skip
    return f"\n{as_markdown(sections)}"


def suites(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells by suite (down) and how they ended (across); every cell is counted once."""
    counts = pd.crosstab(cells["suite"], cells["ending"])
    shown = [key for key in ENDINGS if key in ALWAYS_COUNTED or key in counts]
    counts = counts.reindex(index=cells["suite"].unique(), columns=shown, fill_value=0)
    by_model = cells.groupby(MODEL, sort=False)["verified"].any().groupby("suite", sort=False)
    counts.insert(0, "models", by_model.size())
    counts.insert(1, "with a verified cell", by_model.sum())
    counts.insert(2, "cells", cells["suite"].value_counts())
    if len(counts) > 1:
        counts.loc["all"] = counts.sum()
    return counts.rename(columns=ENDINGS).rename_axis("suite").reset_index()


def compiled(cells: pd.DataFrame) -> pd.DataFrame:
    """Targets (down) and how their cells were compiled (across)."""
    counts = pd.crosstab(cells["target"], cells["way"])
    counts = counts.reindex(index=cells["target"].unique(), columns=remedied.WAYS, fill_value=0)
    return counts.rename_axis("target").reset_index()


def made_good(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells that a remedy has compiled, together where their paths, reasons and remedies agree."""
    by = ["frontend", "target", "first error", "remedy", "frontend used"]
    by_remedy = cells[cells["remedy"] != ""].rename(
        columns={"frontend_used": "frontend used", "first_error": "first error"}
    )
    models = by_remedy.groupby(by, sort=False)["model"].agg(["size", ", ".join]).reset_index()
    return models.set_axis([*by, "cells", "models"], axis=1)


def models(cells: pd.DataFrame) -> pd.DataFrame:
    """Models (down) and lowering paths (across); the last row counts the verified models. MANY models of a suite that ended
    alike share a row."""
    marks = cells.pivot(index=MODEL, columns=LOWERING_PATH, values="mark")
    verified = cells.groupby(LOWERING_PATH)["verified"].agg(lambda v: f"{v.sum()} of {len(v)}")
    every = itertools.product(*(cells[name].unique() for name in LOWERING_PATH))
    paths = [path for path in every if path in marks.columns]
    rows = marks.reindex(index=pd.MultiIndex.from_frame(cells[MODEL].drop_duplicates()))
    rows = rows[paths].fillna("–").reset_index()
    rows.columns = ["suite", "model", *("/\n".join(path) for path in paths)]
    alike = [name for name in rows.columns if name != "model"]
    counts = rows.groupby(alike, sort=False)["model"].transform("size")
    many = rows[counts >= MANY].groupby(alike, sort=False)["model"].agg(", ".join).reset_index()
    rows = pd.concat([rows[counts < MANY], many[rows.columns]], ignore_index=True)
    rows.loc[len(rows)] = ["verified", "", *(verified[path] for path in paths)]
    return rows


def reasons(cells: pd.DataFrame) -> pd.DataFrame:
    """Why cells are not verified, the most frequent reason first, each with the cells concerned."""
    names = cells.groupby("model")["suite"].transform("nunique")
    label = cells["model"].where(names == 1, cells["suite"] + "/" + cells["model"])
    labelled = cells.assign(label=label, kind=cells["detail"].map(failure_signature))
    every = labelled.groupby("label")[LOWERING_PATH].apply(
        lambda group: list(group.itertuples(index=False, name=None))
    )
    stopped = labelled[~labelled["verified"]]
    rows = []
    for (stage, status, reason, _), group in stopped.groupby(
        ["stopped_at", "status", "reason", "kind"], sort=False
    ):
        detail = readable_detail(group["detail"].iloc[0])
        rows.append((len(group), stage, status, reason, detail, where(group, every)))
    columns = ["cells", "stage", "status", "reason", "detail", "where"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("cells", ascending=False, kind="stable")


def where(group: pd.DataFrame, every: pd.Series) -> str:
    """The cells of a group as text, with models of the same lowering paths together.

    `<frontend>/*` stands for all targets of a frontend, `*/<target>` for all frontends of a target.
    """
    together: dict[str, list[str]] = {}
    for model, cells in group.groupby("label", sort=False):
        here, there = list(cells[LOWERING_PATH].itertuples(index=False, name=None)), every[model]
        paths = "everywhere" if set(here) == set(there) else ", ".join(_named(here, there))
        together.setdefault(paths, []).append(str(model))
    return "; ".join(f"{paths}: {', '.join(names)}" for paths, names in together.items())


def _named(here: Sequence[tuple[str, str]], there: Sequence[tuple[str, str]]) -> list[str]:
    """Short names for the lowering paths `here`, given all lowering paths of the model, `there`."""

    def whole(side: int, name: str) -> bool:
        of_name = {path for path in there if path[side] == name}
        return len(of_name) > 1 and of_name <= set(here)

    named: dict[str, None] = {}
    for frontend, target in here:
        if whole(0, frontend):
            named[f"{frontend}/*"] = None
        elif whole(1, target):
            named[f"*/{target}"] = None
        else:
            named[f"{frontend}/{target}"] = None
    return list(named)


def rewrites(cells: pd.DataFrame) -> pd.DataFrame:
    """What exporters changed, per frontend. A program is counted once, for all of its targets."""
    programs = cells.drop_duplicates([*MODEL, "frontend"]).explode("rewrites")
    programs = programs.dropna(subset="rewrites")
    counts = programs.groupby(["frontend", "rewrites"], sort=False)["model"].agg(
        ["size", ", ".join]
    )
    return counts.reset_index().set_axis(["frontend", "rewrite", "programs", "models"], axis=1)


def section(title: str, rows: pd.DataFrame, note: str = "") -> Section:
    """Return a table as a section. Numbers are aligned to the right; details are code."""
    right = [n for n, kind in enumerate(rows.dtypes) if pd.api.types.is_numeric_dtype(kind)]
    lines = [
        [Styled(value, CODE if name == "detail" else "") for name, value in zip(rows.columns, row, strict=True)]
        for row in rows.itertuples(index=False)
    ]  # fmt: skip
    return Section(title, [*rows.columns], lines, right, note)


@dataclass(frozen=True, kw_only=True)
class Options:
    results: list[Path] = option(
        factory=lambda: [Path("results/results.jsonl")],
        type=Path,
        nargs="+",
        help="one or several results.jsonl that have no cell in common",
    )
    out_md: Path | None = option(None, help="the page, in Markdown")
    out_csv: Path | None = option(None, help="CSV file with one line per cell and complete details")


def main() -> None:
    registry.load()
    args = commands.parse_options(Options)
    if not (args.out_md or args.out_csv):
        exits.fail("nothing to write: give --out-md, --out-csv or both", code=2)
    try:
        records = load(args.results)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    cells = frame(records)
    if args.out_csv:
        atomic.write_text(args.out_csv, to_csv(cells))
        print(args.out_csv)
    if args.out_md:
        paths = [*map(_from_here, args.results), "--out-md", _from_here(args.out_md)]
        made_by = shlex.join(
            ["python", "-m", "scripts.tools.report.report_coverage", "--results", *paths]
        )
        head = f"# Coverage\n\nMade by `{made_by}`.\n"
        atomic.write_text(args.out_md, head + page(cells, records))
        print(args.out_md)
    counts = cells["ending"].value_counts()
    print(", ".join(f"{counts[key]} {ENDINGS[key]}" for key in ENDINGS if key in counts))


def load(paths: Sequence[Path]) -> list[results_file.Record]:
    """The records of several results.jsonl, in their order. Raises BadRecords for a line that is not a record, for a cell that occurs
    twice, and if there is no IREE cell."""
    records = [record for path in paths for record in read(path)]
    seen: dict[tuple[str, str], results_file.Record] = {}
    for record in records:
        for key in ("stage", "reason"):
            if not isinstance(record.data["outcome"].get(key), str):
                raise BadRecords(f"{record.where}: no outcome.{key}; run the workflow again")
        first = seen.setdefault((record["suite"], record["cell"]), record)
        if first is not record:
            raise BadRecords(
                f"{first.where} and {record.where} are both {record['cell']} of suite"
                f" {record['suite']}; give files to --results that have no cell in common"
            )
    if not any(record.is_iree for record in records):
        raise BadRecords(
            f"{', '.join(map(str, paths))}: found no row of an IREE cell, and coverage is"
            " about those; run the workflow with a frontend and a target"
        )
    return records


def _from_here(path: Path) -> str:
    """A path as the page may show it: a path outside this folder keeps its last two parts only."""
    near = Path(os.path.relpath(path))
    return str(near if ".." not in near.parts else Path(*path.resolve().parts[-2:]))


if __name__ == "__main__":
    commands.run(main)
