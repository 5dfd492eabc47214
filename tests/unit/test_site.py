"""`vmfbench site`: the report page over the runs of several folders and machines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import zstandard

from scripts.core import commands
from scripts.results.results_file import cell_of
from scripts.tools.compare import site as verb
from scripts.tools.compare import store
from scripts.tools.compare.store import Machine
from tests import histories, report_records
from tests.histories import CELL
from tests.report_records import HOSTILE, HOSTILE_LOG, unpacked

LAPTOP = Machine("laptop", HOSTILE, 4)


def call(*words: object) -> int:
    sys.argv = ["vmfbench site", *map(str, words)]
    try:
        commands.run(verb.main)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two histories: runs of which the later ones have a newer IREE and a slower cell, and a run with hostile texts of another machine, which has
    no device for one cell."""
    folder = tmp_path_factory.mktemp("site")
    histories.with_a_change(folder / "results", runs=8, at=4)
    last = histories.records(9, {CELL: 1.5}, "3.13.0")
    cell = next(each for each in last if str(cell_of(each)) == CELL)
    cell |= {"latency": None, "runs": None}
    cell["outcome"] |= {"status": "unavailable", "stage": "verify", "reason": "no-device"}
    described = store._described

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_described", lambda *given: store.msgspec.structs.replace(described(*given), machine=LAPTOP))  # fmt: skip
        histories.keep(folder / "laptop", [cell, *report_records.hostile()])
    return folder


@pytest.fixture(scope="module")
def data(folder) -> dict[str, object]:
    """The data of the page by element."""
    argv = sys.argv
    assert call(folder / "site", "--from", folder / "results", folder / "laptop/history") == 0
    sys.argv = argv
    page = (folder / "site/index.html").read_text()
    assert "<img" not in page
    elements = re.findall(r'<script type="text/plain" id="data-([^"]+)">([^<]*)</script>', page)
    return {name: unpacked(value) for name, value in elements}


def test_the_history_is_that_of_all_runs(data):
    sections = {section["title"]: section for section in data["view-history"]}
    assert [cell for cell, *_ in sections["Changes of the latency"]["rows"]] == [CELL]
    assert len(sections["Runs"]["rows"]) == 9


def test_the_newest_row_is_that_of_a_machine_that_has_the_device(data):
    values = data["rows"]["values"]
    rows = dict(zip(values["cell"], zip(values["status"], values["machine"], strict=True), strict=True))  # fmt: skip
    status, machine = rows[CELL]
    assert status == "ok"
    assert "laptop" not in machine
    assert "laptop" in next(machine for cell, (_, machine) in rows.items() if HOSTILE in cell)
    assert values["model"] == sorted(values["model"], key=str.lower)


def test_a_row_has_its_details_and_where_it_was_measured(data):
    assert len(data["details-0"]) == len(data["rows"]["values"]["cell"])
    names = [name for name, _ in data["details-0"][0][0]["rows"]]
    assert names == ["machine", "run", "measured"]
    texts = {section.get("text") for row in data["details-0"] for section in row}
    assert HOSTILE_LOG in texts
    assert data["view-why"] is None  # no profile was kept


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"model": {"name": "../../x"}}', "`$.model.name`"),
        ("[", "expected a record of this project"),
    ],
)
def test_a_bad_row_stops_with_its_file_and_line(tmp_path, capsys, line, message):
    results = tmp_path / "results"
    histories.keep(results, histories.records(0))
    [kept], _ = store.read(results / "history")
    text = kept.text().split(b"\n")[0] + b"\n" + line.encode() + b"\n"
    kept.path.unlink()
    kept.path.with_name(f"{kept.entry.id}.json").unlink()
    entry = store.msgspec.structs.replace(kept.entry, id=store.id_of(text))
    kept.path.with_name(f"{entry.id}.json").write_bytes(store.msgspec.json.encode(entry))
    kept.path.with_name(f"{entry.id}.jsonl.zst").write_bytes(zstandard.compress(text))
    assert call(tmp_path / "site", "--from", results) == 1
    said = capsys.readouterr().err
    assert f"{entry.id}.jsonl.zst:2: " in said
    assert message in said
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_folder_without_runs_is_named(tmp_path, capsys):
    assert call(tmp_path / "site", "--from", tmp_path) == 1
    assert f"{tmp_path}: no run is kept" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert call(tmp_path / "file/site", "--from", folder / "results") == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
