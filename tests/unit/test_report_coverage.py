"""report_coverage: how far every cell came, each counted once, and a page that no detail breaks."""

import copy
import csv
import dataclasses
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.config.choices import BASES
from scripts.config.entries import Frontend, Override
from scripts.results import record, wording
from scripts.results.results_file import BadRecords, Record
from scripts.supervise import outcome
from scripts.tools.report import report_coverage
from scripts.tools.report.report_coverage import ENDINGS, STAGES

CELL = "conv/mlir/vulkan"
OF_STAGE = {
    "reference": "conv",
    "export": "conv/mlir",
    "compile": CELL,
    "verify": CELL,
    "time": CELL,
}


@pytest.fixture
def cells_of(results):
    """The cells of a results tree whose stages ended as given, by name."""

    def make(endings: dict | None = None) -> dict[str, SimpleNamespace]:
        results.write(endings)
        cells = [
            SimpleNamespace(**c) for c in report_coverage.iree_cells(record.records(results.matrix))
        ]
        return {f"{c.model}/{c.frontend}/{c.target}": c for c in cells}

    return make


@pytest.mark.parametrize(
    ("stage", "status", "reason", "reached", "ending", "mark"),
    [
        ("reference", "error", "r", "nothing", "reference", "✗ reference"),
        ("reference", "oom", "r", "nothing", "reference", "✗ reference oom"),
        ("export", "unsupported", "r", "reference", "export", "✗ export unsupported"),
        ("export", "error", "r", "reference", "export", "✗ export"),
        ("compile", "crashed", "SIGSEGV", "export", "compile", "✗ compile crashed"),
        ("compile", "timeout", "r", "export", "compile", "✗ compile timeout"),
        ("verify", "unavailable", "no-device", "compile", "no-device", "compiled"),
        ("verify", "error", "wrong-result", "compile", "wrong", "✗ wrong"),
        ("verify", "error", "nondeterministic-eager", "compile", "undecided", "undecided"),
        ("verify", "crashed", "SIGABRT", "compile", "verify", "✗ verify crashed"),
        ("time", "crashed", "SIGABRT", "verify", "time", "✗ time crashed"),
        ("export", "unavailable", "no-device", "reference", "export", "✗ export unavailable"),
    ],
)
def test_a_cell_reached_the_stage_before_the_one_that_stopped_it(
    cells_of, ended, stage, status, reason, reached, ending, mark
):
    cell = cells_of(ended(status, stage, OF_STAGE[stage], reason))[CELL]
    assert (cell.reached, cell.stopped_at, cell.status) == (reached, stage, status)
    assert (cell.reason, cell.detail, cell.verified) == (reason, "what", False)
    assert (cell.ending, cell.mark) == (ending, mark)


def test_a_verified_cell_has_no_stage_that_stopped_it(cells_of):
    cell = cells_of()[CELL]
    assert (cell.reached, cell.stopped_at, cell.reason, cell.detail) == ("verified", "", "", "")
    assert (cell.ending, cell.mark, cell.suite) == ("verified", "✓", "vmfbench")


@pytest.mark.parametrize(
    ("environment", "reached"), [("torch-mlir", "nothing"), ("iree", "export")]
)
def test_a_cell_without_an_environment_reached_what_left_a_report(
    cells_of, ended, environment, reached
):
    cell = cells_of(ended("error", "env", environment))[CELL]
    assert (cell.reached, cell.stopped_at, cell.mark) == (reached, "env", "✗ env")


def test_where_one_lowering_path_had_no_environment_the_others_say_that_there_was_a_reference(
    results,
):
    results.write()
    rows = record.records(results.matrix)
    for row in rows[:3]:  # both of conv, and one of tiny
        row |= {"latency": None, "reference": {}, "export": {}, "compile": {}}
        row["outcome"] |= {"status": "error", "stage": "env", "reason": "installer", "detail": "d"}
    reached = [cell["reached"] for cell in report_coverage.iree_cells(rows[:4])]
    assert reached == ["nothing", "nothing", "reference", "verified"]
    with_baselines = [cell["reached"] for cell in report_coverage.iree_cells(rows)]
    assert with_baselines == ["reference", "reference", "reference", "verified"]
    rows[0]["reference"] = {"weights_bytes": 4}
    assert report_coverage.iree_cells(rows[:1])[0]["reached"] == "reference"


def test_a_cell_on_a_skip_list_reached_the_program_that_is_there(results, cells_of, ended):
    results.matrix = dataclasses.replace(
        results.matrix, overrides={CELL: Override(skip="skip.all of bench.yaml")}
    )
    cell = cells_of()[CELL]
    assert (cell.reached, cell.stopped_at, cell.mark) == ("export", "compile", "skipped")
    assert cells_of(ended("error", "export", "conv/mlir"))[CELL].reached == "reference"
    assert cells_of(ended("error", "reference", "conv"))[CELL].reached == "nothing"


def test_a_program_that_was_rewritten_is_starred_and_counted_once_a_frontend(results):
    results.write()
    report = Path("results/export/conv/mlir/report.json")
    report.write_text(json.dumps({"rewrites": ["erf to chlo", "a | b"]}))
    found = page_of(results)
    assert "| vmfbench | conv | ✓\\* | ✓\\* |\n" in found
    assert "| user | tiny | ✓ | ✓ |\n" in found
    assert "| mlir | a \\| b | 1 | conv |\n" in found
    assert found.count("| 1 | conv |") == 2


def page_of(results) -> str:
    rows = wrapped(record.records(results.matrix))
    return report_coverage.page(report_coverage.frame(rows), rows)


def wrapped(rows: list[dict]) -> list[Record]:
    return [Record(Path("r.jsonl"), line, row) for line, row in enumerate(rows, start=1)]


def two_lowering_paths(results) -> None:
    """A second frontend, so that a model has four cells; not the second by name."""
    other = Frontend("exp", "torch_xla", "torch-mlir", {})
    frontends = results.matrix.frontends | {"exp": other}
    results.matrix = dataclasses.replace(results.matrix, frontends=frontends)


@pytest.mark.parametrize(
    ("failing", "where"),
    [
        (["conv/mlir/vulkan"], "mlir/vulkan: conv"),
        (["conv/mlir/vulkan", "tiny/mlir/vulkan"], "mlir/vulkan: conv, tiny"),
        (["conv/mlir/vulkan", "tiny/exp/vulkan"], "mlir/vulkan: conv; exp/vulkan: tiny"),
        (["conv/exp/vulkan", "conv/mlir/vulkan"], r"\*/vulkan: conv"),
        (["conv/mlir/llvm-cpu", "conv/mlir/vulkan"], r"mlir/\*: conv"),
        (["conv/mlir/llvm-cpu", "conv/exp/vulkan"], "mlir/llvm-cpu, exp/vulkan: conv"),
    ],
)
def test_cells_of_one_reason_are_named_in_few_words(results, ended, failing, where):
    two_lowering_paths(results)
    endings = [ended("error", "compile", cell, "r", f"{n} of it") for n, cell in enumerate(failing)]
    results.write({stage: end for one in endings for stage, end in one.items()})
    line = f"| {len(failing)} | compile | error | r | `0 of it` | {where} |\n"
    if failing[0] == "conv/exp/vulkan":  # the matrix comes to the other frontend first
        line = line.replace("`0 of it`", "`1 of it`")
    assert line in page_of(results)


def test_a_model_that_fails_before_its_lowering_paths_part_fails_everywhere(results, ended):
    two_lowering_paths(results)
    results.write(ended("error", "reference", "conv"))
    found = page_of(results)
    assert "| 4 | reference | error | why | `what` | everywhere: conv |\n" in found
    assert "| vmfbench | 1 | 0 | 4 | 0 | 0 | 0 | 0 | 0 | 4 |\n" in found
    assert "| all | 2 | 1 | 8 | 4 | 0 | 0 | 0 | 0 | 4 |\n" in found
    assert "| verified |  | 1 of 2 | 1 of 2 | 1 of 2 | 1 of 2 |\n" in found


def test_the_page_has_counts_then_reasons_with_the_most_frequent_first_then_the_long_table(
    results, ended
):
    results.matrix = dataclasses.replace(results.matrix, baselines={})
    results.write(
        ended("error", "compile", "conv/mlir/llvm-cpu", "rare")
        | ended("error", "export", "tiny/mlir", "frequent")
    )
    page = page_of(results)
    titles = re.findall("^## (.*)", page, re.MULTILINE)
    assert titles == ["By suite", "Why cells stopped", "Compiled", "By model", "Measured with"]
    assert "| vmfbench | 1 | 1 | 2 | 1 | 0 | 0 | 1 | 0 | 0 |\n" in page
    assert "| user | 1 | 0 | 2 | 0 | 0 | 0 | 0 | 2 | 0 |\n" in page
    lines = page.partition("## Why cells stopped")[2].splitlines()
    assert [line.split(" | ")[3] for line in lines if " | error | " in line] == ["frequent", "rare"]


def test_a_cell_that_is_not_in_the_matrix_is_a_dash(results):
    only = dataclasses.replace(results.matrix.targets["vulkan"], frontends=("exp",))
    two_lowering_paths(results)
    targets = results.matrix.targets | {"vulkan": only}
    results.matrix = dataclasses.replace(results.matrix, targets=targets)
    results.write()
    found = page_of(results)
    head = "| suite | model | mlir/<br>llvm-cpu | exp/<br>llvm-cpu | exp/<br>vulkan |\n"
    assert head in found
    rows = wrapped(record.records(results.matrix))
    del rows[0]  # conv with mlir on llvm-cpu: now conv begins with another lowering path
    models = report_coverage.models(report_coverage.frame(rows))
    assert models.iloc[0].tolist() == ["vmfbench", "conv", "✓", "✓", "–"]
    assert [*models][2:] == ["exp/\nllvm-cpu", "exp/\nvulkan", "mlir/\nllvm-cpu"]


def test_models_of_the_same_name_in_two_suites_are_told_apart(results, ended):
    results.write(ended("error", "compile", CELL))
    rows = record.records(results.matrix)
    for row in rows:
        row["model"]["name"] = "conv"
    found = report_coverage.page(report_coverage.frame(wrapped(rows)), wrapped(rows))
    assert "| vmfbench | conv | ✓ | ✗ compile |\n" in found
    assert "| user | conv | ✓ | ✓ |\n" in found
    assert "mlir/vulkan: vmfbench/conv |\n" in found


def test_many_models_that_ended_alike_share_a_row(results):
    results.write()
    template = [row for row in record.records(results.matrix) if row["model"]["name"] == "conv"]
    rows = []
    for number in range(report_coverage.MANY):
        for row in copy.deepcopy(template):
            row["model"]["name"] = f"m{number}"
            row["model"]["suite"] = "timm" if number else "vmfbench"
            rows.append(row)
    few = report_coverage.models(report_coverage.frame(wrapped(rows)))
    assert len(few) == report_coverage.MANY + 1
    for row in rows:
        row["model"]["suite"] = "timm"
    shared = report_coverage.models(report_coverage.frame(wrapped(rows)))
    names = ", ".join(f"m{number}" for number in range(report_coverage.MANY))
    assert shared["model"].tolist() == [names, ""]
    assert shared.iloc[0, 2:].tolist() == few.iloc[0, 2:].tolist()


def test_versions_and_devices_are_those_of_the_rows(results, ended):
    results.write(ended("error", "compile", CELL))  # ran nowhere
    rows = record.records(results.matrix)
    rows[0]["versions"]["torch"] = rows[1]["versions"]["torch"] = "2.15.0"
    rows[2]["versions"]["torch"] = rows[3]["versions"]["torch"] = "2.15.1"
    found = report_coverage.page(report_coverage.frame(wrapped(rows)), wrapped(rows))
    measured_with = found.partition("## Measured with\n\n")[2]
    assert "- cpu: A CPU" in measured_with
    assert "- vulkan: A GPU" in measured_with
    assert "- PyTorch 2.0, 2.15.0, 2.15.1\n" in measured_with


def test_counts_and_reasons_come_before_the_long_table_and_empty_sections_are_left_out(results, ended):  # fmt: skip
    results.write(ended("error", "compile", CELL))
    titles = re.findall("^## (.*)", page_of(results), re.MULTILINE)
    assert titles[:4] == ["By suite", "Why cells stopped", "Compiled", "By model"]
    results.matrix = dataclasses.replace(results.matrix, baselines={})
    results.write()
    titles = re.findall("^## (.*)", page_of(results), re.MULTILINE)
    assert titles == ["By suite", "By model", "Measured with"]


def test_times_and_fingerprints_leave_the_page_as_it_is(results, ended):
    results.write(ended("error", "compile", CELL))
    before = page_of(results)
    assert "## Why cells stopped" in before
    rows = record.records(results.matrix)
    for row in rows:
        row["run"] |= {"seconds": 9.0, "load_ms": 7.0, "max_rss_mb": 5.0}
        row["outcome"] |= {"fingerprint": "other", "log": "other"}
        if row["latency"]:
            row["latency"] |= {"ms": 77.0, "doubt": "why", "values_ms": [77.0]}
        if row["export"]:
            row["export"]["export_s"] = 99.0
    assert report_coverage.page(report_coverage.frame(wrapped(rows)), wrapped(rows)) == before


STATUSES = st.sampled_from([s for s in outcome.STATUSES if s not in ("ok", "unavailable")])
REASONS = st.sampled_from(["a", "b", "wrong-result", "nondeterministic-eager"])
DETAILS = st.text(st.sampled_from("a1|`\\*<>[]_ \n\r\u2028%/~"), min_size=1, max_size=220)
NO_SPEEDUPS = {f"speedup_vs_{base}{end}": None for base in BASES for end in ("", "_low", "_high")}
NAMES = st.text(st.sampled_from("ab|*<[\\`~."), min_size=1, max_size=4)
STOPS = st.none() | st.tuples(st.sampled_from([*STAGES, "env"]), STATUSES, REASONS, DETAILS)


@st.composite
def some_rows(draw) -> list[dict]:
    """Rows of a few models and lowering paths with any outcome; some lowering paths are not in the matrix."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    paths = draw(st.lists(st.sampled_from([(f, t) for f in "fg" for t in "tu"]), min_size=1, unique=True))  # fmt: skip
    made = []
    for name in names:
        suite = draw(st.sampled_from(["s", "z|"]))
        for frontend, target in paths:
            stop = draw(STOPS)
            stage, status, reason, detail = stop or ("verify", "ok", "", "")
            made.append(
                {
                    "model": {"name": name, "suite": suite, "options": {}},
                    "experiment": {"runtime": "iree", "frontend": frontend, "target": target, "test": "eval", "device": "cpu", "exporter": "e", "backend": "b"},
                    "outcome": {"stage": stage, "status": status, "reason": reason, "detail": detail},
                    "latency": None if stop else {"ms": 1.0, "started": 0.0} | NO_SPEEDUPS,
                    "reference": {},
                    "export": draw(st.sampled_from([None, {}, {"rewrites": []}, {"rewrites": ["x|y", "z"]}])),
                    "run": {"device_name": None, "threads": None},
                    "versions": {},
                }
            )  # fmt: skip
    return made


@given(some_rows())
def test_every_cell_is_counted_once_and_every_other_one_has_a_reason(rows):
    records = wrapped(rows)
    cells = report_coverage.frame(records)
    assert set(cells["ending"]) <= set(ENDINGS)
    counts = report_coverage.suites(cells).set_index("suite")
    counts = counts.drop("all", errors="ignore")
    assert counts["cells"].sum() == len(rows)
    assert (counts[[c for c in counts if c in ENDINGS.values()]].sum(axis=1) == counts["cells"]).all()  # fmt: skip
    stopped = [row for row in rows if not row["latency"]]
    reasons = report_coverage.reasons(cells)
    assert reasons["cells"].sum() == len(stopped)
    marks = report_coverage.models(cells).iloc[:-1, 2:].to_numpy().ravel()
    assert sum(mark != "–" for mark in marks) == len(rows)
    assert sum(mark.startswith("✓") for mark in marks) == len(rows) - len(stopped)


@given(some_rows())
def test_no_detail_or_name_breaks_a_table(rows):
    records = wrapped(rows)
    page = report_coverage.page(report_coverage.frame(records), records)
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    for table in tables:
        lines = table.removesuffix("\n").split("\n")
        widths = {len(re.findall(r"(?:\\\\|\\\||[^|])*\|", line)) for line in lines}
        assert len(widths) == 1, table
    # Nothing was cut off its table: each heading's body ends with a whole line of it.
    named = [cells for cells in page.split("\n## ")[1:] if "| ---" in cells]
    assert len(tables) == len(named)


@given(some_rows())
def test_the_csv_holds_every_field_whole(rows):
    cells = report_coverage.frame(wrapped(rows))
    text = report_coverage.to_csv(cells)
    assert len(text.splitlines()) == 1 + len(rows)
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [tuple(line) for line in read] == [report_coverage.COLUMNS] * len(rows)
    details = [" ".join(row["outcome"]["detail"].split()) for row in rows]
    assert [line["detail"] for line in read] == details
    assert [line["verified"] for line in read] == [str(bool(row["latency"])) for row in rows]
    told = [line["rewrites"] for line in read]
    assert told == ["; ".join((row["export"] or {}).get("rewrites", [])) for row in rows]


def test_a_long_detail_is_cut_on_the_page_and_fenced_by_more_backticks_than_it_has():
    assert wording.code("a ``b`` | c\nd") == "``` a ``b`` \\| c d ```"
    assert wording.code("a\\|b") == "`a\\ \\|b`"  # a cell cannot contain both together
    cut = wording.code("x" * 999)
    assert cut == "`" + "x" * (wording.CODE_CHARS - 1) + "…`"


@pytest.fixture
def report(results, monkeypatch):
    """Run the command line over the rows of a results tree."""

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["report_coverage", *arguments])
        report_coverage.main()

    return run


def write(path: str, rows: list[dict]) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_one_page_of_several_runs_says_how_it_was_made(results, report, ended, capsys):
    results.write(ended("error", "compile", CELL))
    rows = record.records(results.matrix)
    a, b = write("a/r.jsonl", rows[:2]), write("b/r.jsonl", rows[2:])
    report("--results", a, b, "--out-md", "docs/c.md", "--out-csv", "c.csv")
    assert capsys.readouterr().out.splitlines()[-1] == "3 verified, 1 failed at compile"
    command = "python -m scripts.tools.report.report_coverage --results a/r.jsonl b/r.jsonl --out-md docs/c.md"
    found = Path("docs/c.md").read_text()
    assert found.startswith(f"# Coverage\n\nMade by `{command}`.\n\n## By suite\n")
    assert pd.read_csv("c.csv")["verified"].tolist() == [True, False, True, True]


def test_a_page_names_no_folder_of_the_machine(results, report, tmp_path):
    results.write()
    write("run/r.jsonl", record.records(results.matrix))
    (tmp_path / "here").mkdir()
    with pytest.MonkeyPatch.context() as moved:
        moved.chdir(tmp_path / "here")
        report("--results", str(tmp_path / "run/r.jsonl"), "--out-md", str(tmp_path / "here/c.md"))
    found = (tmp_path / "here/c.md").read_text()
    assert "--results run/r.jsonl --out-md c.md`" in found
    assert str(tmp_path) not in found


def test_what_cannot_be_a_page_is_an_error_that_says_where(results, report, capsys):
    results.write()
    rows = record.records(results.matrix)
    write("r.jsonl", rows)
    for words, problem in (
        (["nowhere.jsonl", "--out-md", "c.md"], "error: nowhere.jsonl: no such file"),
        (["r.jsonl"], "give --out-md, --out-csv or both"),
    ):
        with pytest.raises(SystemExit):
            report("--results", *words)
        assert problem in capsys.readouterr().err
    with pytest.raises(BadRecords, match=r"r.jsonl:1 and r.jsonl:1 are both conv/mlir/llvm-cpu"):
        report_coverage.load([Path("r.jsonl")] * 2)
    write("r.jsonl", [row for row in rows if row["experiment"]["runtime"] != "iree"])
    with pytest.raises(BadRecords, match=r"r.jsonl: found no row of an IREE cell"):
        report_coverage.load([Path("r.jsonl")])
    del rows[1]["outcome"]["stage"]
    write("r.jsonl", rows)
    with pytest.raises(BadRecords, match=r"r.jsonl:2: no outcome.stage"):
        report_coverage.load([Path("r.jsonl")])
    assert not Path("c.md").exists()
