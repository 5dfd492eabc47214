"""What a site has beside its pages: badges, a feed of changes, and the rows as CSV and Parquet."""

from __future__ import annotations

import csv
import datetime
import html
import io
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.core import commands, private
from scripts.features.report.web.page_source import Record
from scripts.features.site.pages import Site
from scripts.records import fields, wording
from scripts.records.columns import COLUMNS
from scripts.records.fields import FLAG, INTEGER, LIST, NUMBER, OBJECT, TEXT
from scripts.records.row import Row

if TYPE_CHECKING:
    from scripts.features.site.model_pages import Change, Newest

MOST_ENTRIES = 50
"""Runs in the feed, and MOST_LINES changes of each."""
MOST_LINES = 100
GOOD, NEUTRAL, BAD = "#0067a8", "#59636e", "#a8540c"
_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {text}"><title>{name}: {text}</title>\
<rect width="{width}" height="20" rx="3" fill="#3b424a"/><path d="M{left} 0h{right}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right}z" fill="{color}"/>\
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">\
<text x="{name_at}" y="14">{name}</text><text x="{text_at}" y="14">{text}</text></g></svg>
"""
_TYPES = {TEXT: "VARCHAR", INTEGER: "BIGINT", NUMBER: "DOUBLE", FLAG: "BOOLEAN", LIST: "JSON", OBJECT: "JSON"}  # fmt: skip
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def badge(path: Path, name: str, text: str, color: str) -> None:
    """Write a badge: a name and what is said of it."""
    name = name[:40]
    left, right = (13 + round(6.6 * len(part)) for part in (name, text))
    values = {"name": _xml(name), "text": _xml(text), "color": color, "width": left + right}
    places = {"left": left, "right": right - 3, "name_at": left / 2, "text_at": left + right / 2}
    path.write_text(_BADGE.format(**values, **places), encoding="utf-8")


def best(rows: Sequence[Row]) -> tuple[str, str]:
    """Return what is said of a model, and the colour of that: the speed-up of IREE over eager that is known to be largest."""
    own = [row for row in rows if row.runtime == "iree"]
    timed = [row.timing.latency for row in own if row.timing]
    known = [[latency[f"speedup_vs_eager{end}"] for end in ("_low", "", "_high")] for latency in timed]  # fmt: skip
    if decided := [ends for ends in known if None not in ends and not ends[0] <= 1 <= ends[2]]:
        low, value, _ = max(decided)
        return f"IREE {value:.2f} × eager", GOOD if low > 1 else BAD
    if timed:
        return "verified on IREE", GOOD
    if any(row.is_compiled for row in own):
        return "compiles for IREE", NEUTRAL
    return ("fails on IREE", BAD) if own else ("no row of IREE", NEUTRAL)


def said(record: Record) -> str:
    """How a row ended, in few words."""
    row = Row.of_record(record)
    return f"{wording.milliseconds(row.timing.ms)} ms" if row.timing else f"{row.ending}: {row.why}"


def write_tables(site: Site, shown: Sequence[Newest], changes: Sequence[Change]) -> None:
    """Write the rows that count today, and all changes, as CSV."""
    columns = fields.columns(COLUMNS)
    head = ["cell", "machine", "run", *(column.column for column in columns)]
    rows = ([row.cell, site.machines[row.machine], site.entries[row.run].id, *(column.value_in(row.record) for column in columns)] for row in shown)  # fmt: skip
    _csv(site.out / "data/rows.csv", head, rows)
    runs = ((site.entries[each.run], each) for each in changes)
    changed = ([entry.id, _time(entry.at), each.cell, each.what, each.kind, each.words, "; ".join(each.differs)] for entry, each in runs)  # fmt: skip
    _csv(site.out / "data/changes.csv", ["run", "at", "cell", "what", "kind", "change", "differs"], changed)  # fmt: skip


def _csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(head)
    out.writerows(
        [commands.csv_cell(private.text(v) if isinstance(v, str) else v) for v in row]
        for row in rows
    )
    path.write_text(text.getvalue(), encoding="utf-8")


def write_parquet(site: Site) -> None:
    """Write the rows of all runs, with the columns of latency.csv that are values of a record."""
    import duckdb

    sections: dict[str, Any] = {}
    columns = [column for column in fields.columns(COLUMNS) if column.path and not column.value]
    for column in columns:
        *above, last = column.path.split(".")
        inside = sections
        for key in above:
            inside = inside.setdefault(key, {})
        inside[last] = _TYPES[column.kind]
    declared = ", ".join(f"{_quoted(name)}: {_quoted(_struct(form))}" for name, form in sections.items())  # fmt: skip
    values = ", ".join(f'{_path(column.path)} AS "{column.column}"' for column in columns)
    path = site.out / "data/history.parquet"
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute('CREATE TABLE runs (run VARCHAR, "at" TIMESTAMP, "commit" VARCHAR, machine VARCHAR, cpu VARCHAR)')  # fmt: skip
        for entry in site.entries:
            at = datetime.datetime.fromtimestamp(entry.at, datetime.UTC).replace(tzinfo=None)
            of_run = [entry.id, at, entry.commit, entry.machine.name, entry.machine.cpu]
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", of_run)
        read = f"read_ndjson(?, columns = {{{declared}}}, filename = true, ignore_errors = true)"
        joined = "runs.run = regexp_extract(line.filename, '([0-9a-f]{16})[.]jsonl[.]zst$', 1)"
        query = f"SELECT runs.*, {values} FROM {read} AS line JOIN runs ON {joined}"
        where = str(path).replace("'", "''")
        files = [str(kept.path) for kept in site.runs]
        connection.execute(f"COPY ({query}) TO '{where}' (FORMAT parquet, COMPRESSION zstd)", [files])  # fmt: skip


def _struct(form: str | dict[str, Any]) -> str:
    """A type of DuckDB."""
    if isinstance(form, str):
        return form
    inside = ", ".join(f'"{name}" {_struct(inner)}' for name, inner in form.items())
    return f"STRUCT({inside})"


def _path(path: str) -> str:
    """A value of a record in SQL."""
    return "line." + ".".join(f'"{key}"' for key in path.split("."))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def write_feed(site: Site, by_run: Mapping[int, Sequence[Change]]) -> None:
    """Write an Atom feed (RFC 4287) with an entry per run that changed something."""
    parts = [
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom"><title>vmfbench: changes</title>',
        f"<id>{_urn(f'feed {site.entries[0].id}')}</id><updated>{_time(site.entries[-1].at)}</updated>",
        '<author><name>vmfbench</name></author><link rel="alternate" href="index.html"/><link rel="self" href="feed.xml"/>',
    ]
    for place in [place for place in sorted(by_run, reverse=True) if by_run[place]][:MOST_ENTRIES]:
        entry, changes = site.entries[place], by_run[place]
        lines = [f"{each.cell}: {each.what} {each.words}" for each in changes[:MOST_LINES]]
        lines += [f"and {len(changes) - MOST_LINES} more"] if len(changes) > MOST_LINES else []
        parts.append(
            f"<entry><title>{_xml(heading(changes))}</title><id>{_urn(entry.id)}</id><updated>{_time(entry.at)}</updated>"
            f'<link rel="alternate" href="runs/{entry.id}.html"/><content type="text">{_xml(chr(10).join(lines))}</content></entry>'
        )
    (site.out / "feed.xml").write_text("\n".join([*parts, "</feed>\n"]), encoding="utf-8")


def heading(changes: Sequence[Change]) -> str:
    """What changed in a run, and the versions that differ, in a line; "" without a change."""
    return ": ".join(filter(None, (versions(changes), counted(changes))))


def counted(changes: Sequence[Change]) -> str:
    """How many changes there are of each kind: `latency: 3 worse, 12 better; outcome: 1 worse`; "" without one."""
    words = {"slower": "worse", "": "other", "faster": "better"}
    counts = Counter((change.what, words[change.kind]) for change in changes)
    by_what = {what: [f"{counts[what, kind]} {kind}" for kind in words.values() if counts[what, kind]] for what, _ in counts}  # fmt: skip
    return "; ".join(f"{what}: {', '.join(said)}" for what, said in by_what.items())


def versions(changes: Sequence[Change]) -> str:
    """The packages whose version differs in at least half of some changes, with both versions."""
    counts = Counter(
        f"{package} {old or '–'} → {new or '–'}"
        for change in changes
        for package, (old, new) in change.versions.items()
    )
    return ", ".join(text for text, count in counts.most_common() if 2 * count >= len(changes))


def _urn(name: str) -> str:
    """An identifier that does not change."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"vmfbench {name}").urn


def _time(at: float) -> str:
    """A time as in RFC 3339."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def _xml(text: str) -> str:
    """Text for XML, without what XML cannot have."""
    return html.escape(_NOT_XML.sub("�", private.text(text)))
