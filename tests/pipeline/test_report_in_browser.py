"""results/report.html in headless Chromium: every view, the filters, the details, and hostile texts."""

from __future__ import annotations

import copy
import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from scripts.config.stages import status_path
from scripts.results import speedups, wording
from scripts.results.results_file import cell_of
from scripts.results.results_table import Table
from scripts.supervise import outcome
from scripts.supervise.outcome import MemorySeries, Outcome, Usage
from scripts.tools.compare import formats, pairs
from scripts.tools.compare.comparing import Settings, compare
from scripts.tools.report import write_report
from scripts.tools.report.web.page_source import Source
from tests import histories, report_records
from tests.checkouts import ROOT, Checkout
from tests.report_records import HOSTILE, HOSTILE_LOG, PROFILE, PROFILE_OF_EAGER, write_profiles

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FILTERED = [view.name for view in write_report.views() if view.filtered]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.fail("there is no chromium on PATH; apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM)
        yield found
        found.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Source:
    """Real rows, rows with hostile texts, a remedied row, stages with memory over time, and a profile."""
    found = report_records.records()
    failed = next(one for one in found if one["outcome"]["reason"] == "shared-memory-limit")
    found[found.index(failed)] = report_records.remedied(
        failed, "pytorch-xla", "torchxla-stablehlo"
    )
    found += [*report_records.training(), *report_records.by_threads(1, 2, 4)]
    found += report_records.hostile()
    speedups.add_speedups(found)
    made = report_records.write(tmp_path_factory.mktemp("report"), found, log=HOSTILE_LOG)
    for stage, cell in (("export", "bert/torchmlir-torch"), ("verify", "bert/torchmlir-torch/llvm-cpu")):  # fmt: skip
        path = made.root / status_path(stage, cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        outcome.write(path, Outcome("ok", stage, cell), Usage(2.0, 321.0))
        outcome.write_memory(path, MemorySeries([0.1, 0.2, 0.3], [50, 321, 200], [(0.2, HOSTILE)]))
    profiles = {"bert/torchmlir-torch/llvm-cpu": PROFILE, "bert/eager/eval": PROFILE_OF_EAGER}
    write_profiles(made.results, "bert/cpu/eval", profiles)
    histories.with_a_change(made.results)
    (made.results / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))
    after = copy.deepcopy(found)
    slower = next(one for one in after if one["latency"])
    slower["latency"] |= {
        key: [20 * ms for ms in slower["latency"][key]]
        if key == "values_ms"
        else 20 * slower["latency"][key]
        for key in ("values_ms", "ms", "low_ms", "high_ms")
    }
    compared = compare(pairs.of_files(found, after), "before", HOSTILE, Settings())
    (made.results / "comparison.json").write_text(formats.as_json(compared))
    return made


@pytest.fixture(scope="module")
def file(source) -> Path:
    path = source.results / "report.html"
    path.write_text(write_report.page(source), encoding="utf-8")
    return path


@pytest.fixture
def page(browser, file) -> Iterator[Page]:
    """The page, opened from its file. Nothing may be printed, requested or run by its data."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    go(opened, file)
    yield opened
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    assert opened.evaluate("window.hacked") is None
    opened.close()


def go(page: Page, file: Path, address: str = "") -> None:
    page.goto("about:blank")
    page.goto(file.as_uri() + address)
    page.wait_for_selector("html[data-drawn]", state="attached")


def view(page: Page, name: str) -> None:
    """Open a view by its tab."""
    title = next(one.title for one in write_report.views() if one.name == name)
    page.click(f"#tabs a:text-is('{title}')")
    page.wait_for_selector(f"#tabs a[aria-current]:text-is('{title}')")
    page.wait_for_selector(f"main[data-view={name}]")


def cell(source: Source, row: int) -> str:
    return str(cell_of(source.records[row]))


def counted(page: Page) -> str:
    return page.inner_text("#counted")


def choose(page: Page, facet: str, value: str) -> None:
    page.click(f"details[data-facet={facet}] > summary")
    page.check(f"details[data-facet={facet}] input[value='{value}']")
    page.keyboard.press("Escape")


@pytest.mark.parametrize("name", [one.name for one in write_report.views()])
def test_every_view_opens_and_shows_text(page, name):
    view(page, name)
    assert len(page.inner_text("main")) > 40
    assert page.locator("main [role=alert]").count() == 0


def test_the_charts_of_a_view_are_drawn(page):
    for name, least in (("latency", 6), ("threads", 2), ("memory", 1), ("history", 6), ("comparison", 1)):  # fmt: skip
        view(page, name)
        page.wait_for_selector("main figure svg")
        assert page.locator("main figure svg").count() >= least


def test_a_comparison_shows_what_became_slower(page):
    view(page, "comparison")
    text = page.inner_text("main")
    assert HOSTILE in page.inner_text("main h2 >> nth=0")
    assert "changes for the worse: 1" in text
    assert page.locator("main table tbody tr", has_text="slower").count() == 1


def test_training_steps_have_figures_and_the_reason_of_a_failure(page):
    view(page, "training")
    text = page.inner_text("main")
    assert "10/10" in text
    assert "wrong result: wrong-result" in text
    page.click("main summary")
    page.wait_for_selector("main details tbody tr")  # made by the event of the opening
    steps = page.locator("main details tbody tr").all_inner_texts()
    assert [line.split("\t")[:2] for line in steps[:2]] == [["1", "0.5000000"], ["2", "0.2500000"]]
    assert steps[1].endswith("0.3750000")
    assert steps[2].endswith("not finite")


def test_threads_have_charts_and_a_table_with_intervals_and_failures(page):
    view(page, "threads")
    page.wait_for_selector("main figure svg")
    titles = page.locator("main figcaption").all_inner_texts()
    assert titles == ["latency", "parallel efficiency"]
    rows = page.locator("main table tbody tr")
    eager = rows.filter(has_text="eager").all_inner_texts()
    assert "100 %" in eager[0]
    assert re.search(r"50 % \(\d+ % to \d+ %\)", eager[1])
    assert rows.filter(has_text="segfault").count() == 1
    rows.nth(1).locator(".opener").click()
    page.wait_for_selector("dialog[open] article")
    assert "+2-threads" in page.inner_text("dialog h2")


@pytest.mark.parametrize("name", FILTERED)
def test_filters_choose_the_rows_of_a_view_and_can_be_cleared(page, source, name):
    view(page, name)
    every = counted(page)
    assert every == f"{len(source.records)} of {len(source.records)} rows"
    choose(page, "model", "bert")
    choose(page, "on", "llvm-cpu")
    assert counted(page).startswith("3 of")
    page.fill("#filters input[type=search]", "torchxla")
    expect(page.locator("#counted")).to_have_text(re.compile("^1 of"))
    shown = page.locator("main [data-row]").evaluate_all("all => all.map(one => one.dataset.row)")
    assert {cell(source, int(row)) for row in shown} <= {"bert/torchxla-stablehlo/llvm-cpu"}
    assert shown or name not in ("overview", "latency")
    page.click("#clear")
    assert counted(page) == every


def test_the_address_keeps_view_filters_and_details(page, file):
    view(page, "latency")
    choose(page, "model", "conv")
    page.click("main table.rows .opener >> nth=0")
    page.wait_for_selector("dialog[open] article")
    address = page.evaluate("location.hash")
    go(page, file, address)
    page.wait_for_selector("dialog[open] article")
    assert page.inner_text("dialog h2").startswith("conv/")
    assert counted(page).startswith("14 of")
    assert page.inner_text("#tabs a[aria-current]") == "Latency"


def test_going_back_opens_the_details_of_that_address(page, source):
    first, second = cell(source, 0), cell(source, 1)
    for name in (first, second):
        page.evaluate("address => { location.hash = address }", f"#latency?cell={name}")
        page.wait_for_function(
            "name => document.querySelector('dialog[open] h2')?.textContent === name", arg=name
        )
    page.go_back()
    page.wait_for_function(
        "name => document.querySelector('dialog[open] h2')?.textContent === name", arg=first
    )
    page.wait_for_timeout(100)  # the event that the dialog was closed comes later
    assert first in page.evaluate("decodeURIComponent(location.hash)")


def test_a_cell_of_the_map_opens_its_details_by_the_keyboard(page):
    page.focus("table.map button[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('table.map') !== null")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] article")
    text = page.inner_text("dialog")
    for part in ("Latency", "Verification", "Commands", "End of the log", "speed-up over eager"):
        assert part in text
    assert page.locator("dialog figure svg").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("colour", ["outcome", "eager", "inductor", "verdict"])
def test_the_map_shows_what_is_chosen(page, colour):
    page.check(f"input[name=colour][value={colour}]")
    expected = {"outcome": "✓", "eager": ".", "inductor": ".", "verdict": "faster"}
    row = page.locator("table.map tbody tr", has_text="bert").first
    assert expected[colour] in row.inner_text()


def test_a_change_is_shown_with_its_run_and_opens_its_row(page):
    view(page, "history")
    changed = page.locator("main section", has_text="Changes of the latency").locator("tbody tr")
    assert changed.count() == 1
    text = changed.inner_text()
    assert histories.CELL in text
    assert "× 0.66" in text
    assert "IREE 3.12.0 → 3.13.0" in text
    size = page.locator("main section", has_text="Changes of the size of the module")
    assert "No change was found" in size.inner_text()
    changed.locator(".opener").click()
    page.wait_for_selector("dialog[open] article")
    assert page.inner_text("dialog h2").startswith(histories.CELL)


def test_means_of_all_rows_are_those_of_latency_md(page, source):
    view(page, "latency")
    shown = [row.split("\t") for row in page.inner_text("tbody.means").splitlines()]
    found = {name: over for name, _, *over in shown}
    means = Table.of_records(source.records).means
    for mean in means:
        over = [wording.speedup(speedup, mean) for speedup in mean.over]
        assert found[wording.path(mean.column, mean.test)] == over
    assert len(found) == len(means)


def test_rows_sort_and_are_saved_as_csv_as_shown(page, source):
    view(page, "latency")
    choose(page, "status", "ok")
    page.click("th button[data-column=latency_ms]")
    page.click("th button[data-column=latency_ms]")
    assert page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
    with page.expect_download() as download:
        page.click("button.export")
    with open(download.value.path(), newline="", encoding="utf-8") as saved:
        rows = list(csv.DictReader(saved))
    medians = [float(row["latency_ms"]) for row in rows]
    assert len(rows) == sum(one["outcome"]["status"] == "ok" for one in source.records)
    assert medians == sorted(medians, reverse=True)


def test_another_column_can_be_shown(page):
    view(page, "latency")
    page.click("details.picker > summary")
    page.check("details.picker label:text-is('rewrites') input")
    assert page.locator("th button[data-column=rewrites]").count() == 1


def test_hostile_texts_are_shown_as_texts(page):
    page.click(f"table.map tbody tr:has-text('{HOSTILE}') td button >> nth=0")
    page.wait_for_selector("dialog[open] article")
    assert HOSTILE in page.inner_text("dialog h2")
    assert "</script>" in page.inner_text("dialog pre >> nth=-1")
    page.keyboard.press("Escape")
    for one in write_report.views():
        view(page, one.name)
        assert page.locator("main img, main script, dialog img, dialog script").count() == 0
    view(page, "failures")
    page.click(f"details.folded:has-text('{HOSTILE}') > summary >> nth=0")
    assert HOSTILE in page.inner_text("main")


@pytest.mark.parametrize("name", [one.name for one in write_report.views()])
def test_a_narrow_screen_needs_no_sideways_scrolling(page, name):
    page.set_viewport_size({"width": 360, "height": 740})
    view(page, name)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_light_and_dark_by_the_system_and_by_the_button(page):
    def paper() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = paper()
    page.emulate_media(color_scheme="dark")
    dark = paper()
    assert dark != light
    page.click("#theme")
    assert paper() == light


def test_it_prints_without_its_controls(page, tmp_path):
    page.emulate_media(media="print")
    assert not page.is_visible("#filters")
    assert not page.is_visible("#tabs")
    assert page.is_visible("table.map")


def test_the_page_over_a_history_shows_the_newest_rows_and_what_changed(browser, tmp_path):
    """From a file and by the keyboard, at 360 pixels, with rows of two machines and hostile texts."""
    results = tmp_path / "results"
    histories.with_a_change(results)
    histories.keep(results, [*histories.records(9, {histories.CELL: 1.5}, "3.13.0"), *report_records.hostile()])  # fmt: skip
    Checkout(ROOT).vmfbench("site", tmp_path / "site", "--from", results)
    opened = browser.new_page(viewport={"width": 360, "height": 740})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    go(opened, tmp_path / "site/index.html")
    opened.focus("table.map .opener[tabindex='0']")
    opened.keyboard.press("ArrowDown")
    opened.keyboard.press("Enter")
    opened.wait_for_selector("dialog[open] article")
    assert "measured" in opened.inner_text("dialog")
    opened.click("dialog header button")
    view(opened, "history")
    opened.wait_for_selector("main figure svg")
    assert "× 0.66" in opened.inner_text("main")
    assert opened.locator("main section:has(> h2:text-is('Runs')) tbody tr").count() == 9
    for one in write_report.views():
        view(opened, one.name)
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360
    assert said == []
    assert opened.evaluate("window.hacked") is None
    opened.close()


def test_the_page_of_a_default_run_is_small(file):
    assert file.stat().st_size < 3e6


def test_five_thousand_rows_open(browser, tmp_path):
    """How long that takes is in docs/report.md and not a condition here."""
    found = report_records.many(5000)
    speedups.add_speedups(found)
    source = report_records.write(tmp_path, found, log="a line\n" * 40)
    path = tmp_path / "report.html"
    text = write_report.page(source)
    path.write_text(text, encoding="utf-8")
    assert len(text) < 15e6
    opened = browser.new_page()
    go(opened, path)
    assert opened.locator("table.map td button").count() == len(found)
    view(opened, "latency")
    opened.wait_for_selector("main figure svg")
    assert opened.locator("table.rows tbody tr").count() == 100
    opened.close()
