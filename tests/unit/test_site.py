"""`vmfbench site`: what its pages say, that they fit together, and that no text of a row can run."""

from __future__ import annotations

import csv
import itertools
import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import duckdb
import pytest

from scripts.core import commands
from scripts.features.compare.history import store
from scripts.features.compare.history.store import Machine
from scripts.features.site import model_pages, verb
from scripts.records.results_file import cell_of
from tests import histories, report_records
from tests.histories import CELL
from tests.report_records import HOSTILE, HOSTILE_LOG, unpacked

LAPTOP = Machine("laptop", HOSTILE, 4)
COMMIT = "89ece87b8985"
ATOM = "{http://www.w3.org/2005/Atom}"
WEB = Path(__file__).parents[2] / "scripts/features/site"


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
    cell["versions"]["iree_build"] = f"3.13.0 @ {COMMIT}"
    cell["outcome"] |= {"status": "unavailable", "stage": "verify", "reason": "no-device"}
    described = store._described

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_described", lambda *given: store.msgspec.structs.replace(described(*given), machine=LAPTOP))  # fmt: skip
        histories.keep(folder / "laptop", [cell, *report_records.hostile()])
    return folder


@pytest.fixture(scope="module")
def site(folder) -> Path:
    argv = sys.argv
    assert call(folder / "site", "--from", folder / "results", folder / "laptop/history", "--jobs", 1) == 0  # fmt: skip
    sys.argv = argv
    return folder / "site"


@pytest.fixture
def runs(folder) -> list[store.Entry]:
    return [kept.entry for kept in store.read(folder / "results/history")[0]]


def data_of(page: Path) -> dict[str, object]:
    elements = re.findall(r'<script type="text/plain" id="data-([^"]+)">([^<]*)</script>', page.read_text())  # fmt: skip
    return {name: unpacked(value) for name, value in elements}


def tables_of(page: Path, view: str) -> list[dict]:
    return data_of(page)[f"view-{view}"]["tables"]


def texts(row: list) -> list[str]:
    return [cell["text"] if isinstance(cell, dict) else cell for cell in row]


def linked(value: object) -> list[str]:
    """The addresses in the data of a page."""
    if isinstance(value, dict):
        own = [value[key] for key in ("href", "image") if value.get(key)]
        return own + [address for inner in value.values() for address in linked(inner)]
    return [address for inner in value for address in linked(inner)] if isinstance(value, list) else []  # fmt: skip


def test_every_page_leads_only_to_files_of_the_site(site):
    all_pages = sorted(site.rglob("*.html"))
    assert len(all_pages) == 2 + 4 + 1 + 9 + 2 + len(list((site / "releases").iterdir()))
    for page in all_pages:
        data = data_of(page)
        values = data["rows"]["values"]
        opened = [f"{data['views']['root']}models/{name}.html" for name in values.get("page", [])]
        html = re.findall(
            r'(?:href|src)="([^"#]+)', re.sub(r'href="(#|data:)', "", page.read_text())
        )
        for address in [*html, *opened, *linked(data)]:
            file = unquote(address.partition("#")[0])
            assert not re.match(r"[a-z]+:|/", file)
            assert (page.parent / file).is_file(), (page, address)


def test_a_change_is_on_the_pages_of_its_run_release_and_model(site, runs):
    first, *others = tables_of(site / "index.html", "changes")
    assert others == []
    [row] = first["rows"]
    cell, ratio, what, differs = texts(row)
    assert (cell, what) == (CELL, "latency")
    assert ratio.startswith("speed × 0.66")
    assert "IREE 3.12.0 → 3.13.0" in differs
    assert first["title"]["href"] == f"runs/{runs[4].id}.html"
    assert tables_of(site / f"runs/{runs[4].id}.html", "run")[1]["rows"][0][1:] == row[1:]
    assert tables_of(site / "releases/IREE-3.13.0.html", "release")[-1]["rows"][0][1:] == row[1:]  # fmt: skip
    history = data_of(site / "models/bert.html")["view-history"]
    assert [change["run"] for each in history["values"]["latency_ms"] for change in each["changes"]] == [4]  # fmt: skip
    with (site / "data/changes.csv").open(newline="") as file:
        [line] = csv.DictReader(file)
    assert (line["run"], line["cell"], line["kind"]) == (runs[4].id, CELL, "slower")
    [entry] = ElementTree.parse(site / "feed.xml").getroot().findall(f"{ATOM}entry")
    assert entry.find(f"{ATOM}title").text == "IREE 3.12.0 → 3.13.0: latency: 1 worse"
    assert entry.find(f"{ATOM}link").get("href") == f"runs/{runs[4].id}.html"


def test_each_run_is_compared_with_the_one_before_on_its_machine(site, runs):
    compared = {page.stem: data_of(page).get("view-comparison", {}).get("chosen") for page in (site / "runs").iterdir()}  # fmt: skip
    ids = [run.id for run in runs]
    [on_laptop] = compared.keys() - ids
    assert compared == {ids[0]: None, on_laptop: None} | {after: [before, after] for before, after in itertools.pairwise(ids)}  # fmt: skip


def test_any_two_runs_can_be_compared(site, runs):
    listed = [run["id"] for run in data_of(site / "compare.html")["view-comparison"]["runs"]]
    assert (len(listed), listed[: len(runs)]) == (9, [run.id for run in runs])
    for run in runs:
        text = (site / f"data/runs/{run.id}.js").read_text()
        [packed] = re.fullmatch(
            rf'report\.addRun\("{run.id}", "([A-Za-z0-9+/=]+)"\);\n', text
        ).groups()
        known = unpacked(packed)
        assert len(known["cells"]) == run.rows
        assert known["latency"][known["cells"].index(CELL)][0] > 0
    [_, _, _, _, _, _, _, [_, link]] = tables_of(site / f"runs/{runs[3].id}.html", "run")[0]["rows"]
    assert link["href"] == f"../compare.html#comparison?after={runs[3].id}"


def test_a_release_of_iree_has_the_commit_that_its_compiler_prints(site):
    [releases] = tables_of(site / "index.html", "releases")
    commits = {texts(row)[0]: row[1] for row in releases["rows"]}
    assert commits["IREE 3.13.0"] == COMMIT
    assert commits["IREE 3.12.0"] == ""
    built, _ = tables_of(site / "releases/IREE-3.13.0.html", "release")
    assert built["rows"] == [["commit", COMMIT]]


def test_today_is_the_newest_row_of_a_machine_that_has_the_device(site):
    values = data_of(site / "index.html")["rows"]["values"]
    rows = dict(zip(values["cell"], zip(values["status"], values["machine"], strict=True), strict=True))  # fmt: skip
    status, machine = rows[CELL]
    assert status == "ok"
    assert "laptop" not in machine
    assert "laptop" in next(machine for cell, (_, machine) in rows.items() if HOSTILE in cell)
    on_laptop = data_of(site / "machines/laptop.html")["rows"]["values"]
    assert dict(zip(on_laptop["cell"], on_laptop["status"], strict=True))[CELL] == "unavailable"


def test_a_model_has_its_latency_by_version_and_machine(site):
    by_version, by_machine, badge = tables_of(site / "models/bert.html", "versions")
    assert by_version["head"] == ["cell", "CPU", "3.13.0", "3.12.0"]
    rows = {tuple(texts(row)[:2]): row[2:] for row in by_version["rows"]}
    after, before = next(row for (cell, cpu), row in rows.items() if cell == CELL and cpu != HOSTILE)  # fmt: skip
    assert before["text"].startswith("× 1.0")
    assert (after["text"].startswith("× 0.67"), after["kind"]) == (True, "slower")
    assert rows[CELL, HOSTILE] == ["compiles, no device", ""]
    assert {texts(row)[3] for row in by_machine["rows"] if row[0] == CELL} >= {
        "compiled: no-device"
    }
    assert (site / "models" / badge["image"]).resolve().is_file()


def test_a_row_has_its_details_and_where_it_was_measured(site):
    data = data_of(site / "models/conv.html")
    assert len(data["details-0"]) == len(data["rows"]["values"]["cell"])
    assert {"machine", "run", "measured", "latency_ms"} <= set(data["rows"]["values"])
    assert "view-why" not in data  # no profile was kept


def test_hostile_texts_are_texts_in_every_file(site):
    for path in site.rglob("*"):
        if path.suffix in (".html", ".xml", ".svg"):
            text = path.read_text()
            assert "<img" not in text, path
            assert "</script><script>" not in text.replace("</script>\n<script", ""), path
        if path.suffix in (".xml", ".svg"):
            ElementTree.fromstring(text)
    [page] = [page for page in (site / "models").iterdir() if "onerror" in page.name]
    data = data_of(page)
    assert data["rows"]["values"]["model"][0] == HOSTILE
    assert HOSTILE_LOG in {each["outcome"]["detail"] for each in data["details-0"]}
    assert all(re.fullmatch(r"[\w.+-]+", path.name) for path in site.rglob("*"))


def test_only_the_scripts_of_the_site_may_run(site):
    for page in site.rglob("*.html"):
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page.read_text())[1]
        assert "default-src 'none'; script-src 'self' file:;" in policy
        assert re.findall(r"<script>", page.read_text()) == []
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|fetch\("
    )
    for script in WEB.glob("*.js"):
        assert not re.search(forbidden, script.read_text())


def test_the_rows_of_all_runs_are_in_the_parquet_file(site, runs):
    file = site / "data/history.parquet"
    [[count, of_runs]] = duckdb.sql(f"select count(*), count(distinct run) from '{file}'").fetchall()  # fmt: skip
    assert (count, of_runs) == (sum(entry.rows for entry in runs) + 4, 9)
    query = f"select distinct iree_version from '{file}' where model = 'bert' and latency_ms > 0 and target = 'llvm-cpu' order by 1"
    assert duckdb.sql(query).fetchall() == [("3.12.0",), ("3.13.0",)]
    with (site / "data/rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(data_of(site / "index.html")["rows"]["values"]["cell"])


def test_a_badge_says_how_fast_the_model_is(site):
    assert "IREE 1." in (site / "badges/bert.svg").read_text() or "× eager" in (site / "badges/bert.svg").read_text()  # fmt: skip
    assert "verified" in (site / "badges/all.svg").read_text()


def test_logs_and_profiles_are_those_of_the_last_run_of_a_results_folder(tmp_path):
    results = tmp_path / "results"
    histories.with_a_change(results, runs=2)
    log = next(iter(json.loads((results / "results.jsonl").read_text().splitlines()[0])["outcome"]["log"].split("\n")))  # fmt: skip
    (tmp_path / log).parent.mkdir(parents=True)
    (tmp_path / log).write_text("the end of the log")
    assert call(tmp_path / "site", "--from", results, "--jobs", 1) == 0
    logs = {each["log_end"] for page in (tmp_path / "site/models").iterdir() for each in data_of(page)["details-0"]}  # fmt: skip
    assert "the end of the log" in logs
    (results / "results.jsonl").write_text("{}\n")  # of a later run, which was not kept
    assert call(tmp_path / "site", "--from", results, "--jobs", 1) == 0
    logs = {each["log_end"] for page in (tmp_path / "site/models").iterdir() for each in data_of(page)["details-0"]}  # fmt: skip
    assert logs == {""}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("files/mine.txt", "x", "is no site (it has no site.json) and not empty"),
        ("files", "x", "is no site (it has no site.json) and not empty"),
    ],
)
def test_a_folder_that_is_no_site_is_left_alone(folder, tmp_path, capsys, name, text, message):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert call(tmp_path / "files", "--from", folder / "results") == 1
    assert message in capsys.readouterr().err
    assert path.read_text() == text


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
    kept = store.read(results / "history")[0][0]
    good = kept.text().split(b"\n")[0]
    (results / "results.jsonl").write_bytes(good + b"\n" + line.encode() + b"\n")
    for path in (results / "history").iterdir():
        path.unlink()
    entry = store.msgspec.structs.replace(kept.entry, id=store.id_of((results / "results.jsonl").read_bytes()))  # fmt: skip
    (results / f"history/{entry.id}.json").write_bytes(store.msgspec.json.encode(entry))
    import zstandard

    (results / f"history/{entry.id}.jsonl.zst").write_bytes(zstandard.compress((results / "results.jsonl").read_bytes()))  # fmt: skip
    assert call(tmp_path / "site", "--from", results, "--jobs", 1) == 1
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
    assert f"{tmp_path / 'file/site'}: cannot be made (" in capsys.readouterr().err


def test_versions_are_sorted_as_numbers():
    assert sorted(["3.12.0", "3.9.0", "3.12.0rc20261001"], key=model_pages._number)[0] == "3.9.0"
