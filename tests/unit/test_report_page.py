"""results/report.html: the data of each view, and that nothing in it can run as a script."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import pytest

from scripts.config.stages import status_path
from scripts.measure.timing import ratios
from scripts.results import row_set, speedups
from scripts.results.results_file import cell_of
from scripts.results.row import COMPILED, FAILED, NO_DEVICE, OTHER_PATH, VERIFIED
from scripts.supervise import outcome
from scripts.supervise.outcome import MemorySeries, Outcome, Usage
from scripts.tools import registry
from scripts.tools.compare import formats, page_views, pairs
from scripts.tools.compare.comparing import Settings, compare
from scripts.tools.kernels import rows as kernels
from scripts.tools.operators.report import problem_record as operator_record
from scripts.tools.profile import page as profile_view
from scripts.tools.report import write_report
from scripts.tools.report.web import details, page_source, row_views
from scripts.tools.report.web.page_source import Source
from scripts.tools.report.web.row_views import clusters
from scripts.tools.report.write_report import packed, policy_hash
from tests import report_records
from tests.operator_results import MM, OPERATORS, Tree
from tests.report_records import (
    HOSTILE,
    HOSTILE_LOG,
    PROFILE,
    PROFILE_OF_EAGER,
    unpacked,
    write_profiles,
)
from tests.unit.conftest import MATRIX

ROOT = Path(__file__).parents[2]
WEB = ROOT / "scripts/tools/report/web"


@pytest.fixture
def source(tmp_path) -> Source:
    found = report_records.records()
    speedups.add_speedups(found)
    return report_records.write(tmp_path, found, log="the log\n")


def data_of(text: str) -> dict[str, object]:
    """Return the data of a page by element."""
    elements = re.findall(r'<script type="text/plain" id="data-([^"]+)">([^<]*)</script>', text)
    return {name: unpacked(value) for name, value in elements}


def test_data_is_compressed_and_has_no_character_of_html():
    value = {"a": HOSTILE_LOG, "ä": [1.5, None]}
    assert unpacked(packed(value)) == value
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed(value))
    assert packed(value) == packed(value)
    with pytest.raises(ValueError, match="Out of range"):
        packed(float("nan"))


def test_hostile_texts_are_only_in_compressed_data(tmp_path):
    source = report_records.write(tmp_path, report_records.hostile(), log=HOSTILE_LOG)
    text = write_report.page(source)
    assert "onerror=window" not in text
    assert "window.hacked" not in text
    assert unpacked(packed(HOSTILE)) == HOSTILE
    data = data_of(text)
    assert data["rows"]["values"]["model"][0] == HOSTILE
    assert HOSTILE_LOG in [section.get("text") for section in data["details-0"][0]]


def test_only_the_scripts_of_the_page_may_run_and_no_network_is_allowed(source):
    text = write_report.page(source)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == len(write_report.SCRIPTS)
    assert all(policy_hash(script) in policy for script in scripts)
    assert policy.count("'sha256-") == len(scripts)
    assert "default-src 'none'" in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert not re.search(r"(?:src|href)=[\"']?https?:", text.partition("<script>")[0])


@pytest.mark.parametrize("file", sorted(WEB.glob("assets/*.js")), ids=lambda file: file.name)  # fmt: skip
def test_no_script_of_the_page_parses_a_text_as_html_or_code(file):
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|fetch\("
    assert not re.search(forbidden, file.read_text(encoding="utf-8"))


def test_each_view_has_a_script_and_each_script_is_in_the_page():
    scripts = {file.stem for file in WEB.glob("assets/*.js")}
    assert {view.script for view in write_report.views()} <= scripts
    assert {f"assets/{name}.js" for name in scripts} == {
        name for name in write_report.SCRIPTS if name.startswith("assets")
    }


def test_the_page_has_the_views_of_the_features(source, monkeypatch):
    assert 'id="data-view-kernels"' in write_report.page(source)
    monkeypatch.setattr(registry, "VIEWS", ())
    alone = write_report.page(source)
    assert 'id="data-view-kernels"' not in alone
    assert 'id="data-view-latency"' in alone


def test_rows_have_the_columns_of_the_csv_and_how_they_ended(source):
    table = page_source.table_of_rows(source)
    names = [one["name"] for one in table["columns"]]
    assert names[:2] == ["cell", "path"]
    assert {"latency_ms", "status", "rewrites", "log"} <= set(names)
    assert all(len(values) == len(source.records) for values in table["values"].values())
    endings = dict(zip(table["values"]["cell"], table["values"]["ending"], strict=True))
    assert endings["bert/torchmlir-torch/llvm-cpu"] == VERIFIED
    assert endings["bert/torchmlir-stablehlo/cuda"] == FAILED
    assert endings["conv/torchmlir-stablehlo/cuda"] == COMPILED
    assert endings["conv/eager-cuda/eval"] == NO_DEVICE
    assert set(endings.values()) <= set(table["endings"])


def test_a_row_that_another_path_compiled_counts_as_failed_and_has_no_error(source):
    failed = next(one for one in source.records if one["outcome"]["status"] == "error")
    good = report_records.remedied(failed, "pytorch-xla", "torchxla-stablehlo")
    good["latency"] = source.records[0]["latency"]
    table = page_source.table_of_rows(Source(source.results, [good, *source.records]))
    assert table["values"]["ending"][:2] == [OTHER_PATH, VERIFIED]
    assert table["over"][0] == [None, None]


def test_rows_have_their_speed_ups_over_the_bases_with_errors(source):
    table = page_source.table_of_rows(source)
    by_cell = dict(zip(table["values"]["cell"], table["over"], strict=True))
    eager, iree = (
        next(one for one in source.records if str(cell_of(one)) == cell)["latency"]
        for cell in ("bert/eager/eval", "bert/torchmlir-torch/llvm-cpu")
    )
    of = ratios.paired(eager["values_ms"], iree["values_ms"])
    assert by_cell["bert/torchmlir-torch/llvm-cpu"][0] == [of.value, of.scale, of.df]
    assert by_cell["bert/eager/eval"] == [None, None]
    assert by_cell["bert/inductor/eval"][0]
    assert by_cell["bert/inductor/eval"][1] is None
    assert by_cell["conv/torchmlir-stablehlo/vulkan"] == [None, None]


def test_details_have_stages_generations_commands_and_the_end_of_the_log(source):
    cell = "bert/torchmlir-torch/llvm-cpu"
    ran = (
        ("export", "bert/torchmlir-torch", 3.0),
        ("verify", cell, 2.0),
        ("time", "bert/cpu/eval", 9.0),
    )
    for stage, of, seconds in ran:
        path = source.root / status_path(stage, of)
        path.parent.mkdir(parents=True, exist_ok=True)
        outcome.write(path, Outcome("ok", stage, of), Usage(seconds, 100.0))
    source.records[0]["run"] |= {"load_ms": 2.5, "first_call_ms": 30.0}
    [block] = details.of_rows(source)
    first, failed = ({section["title"]: section for section in block[row]} for row in (0, 2))
    expected = [[stage, "ok", f"{seconds:.2f} s", "100 MiB"] for stage, _, seconds in ran]
    assert first["Stages"]["rows"] == expected
    [latency, _] = first["Latency"]["charts"][0]["lines"]
    assert [ms for _, ms, *_ in latency["points"]] == source.records[0]["latency"]["values_ms"]
    facts = dict(first["Latency"]["rows"])
    assert re.fullmatch(r"[\d.]+ ms \([\d.]+ to [\d.]+\)", facts["latency, 99 % interval"])
    assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", facts["speed-up over eager"])
    assert (facts["load"], facts["first call"]) == ("2.50 ms", "30.0 ms")
    assert first["End of the log"]["text"] == "the log\n"
    shortest = failed["Commands"]["parts"][0]
    assert shortest["title"] == "Shortest command that shows the failure"
    assert shortest["command"].startswith("iree-compile --iree-hal-target-")
    assert shortest["command"].endswith("results/export/bert/torchmlir-stablehlo/program.mlir -o module.vmfb")  # fmt: skip


def test_the_end_of_a_log_is_whole_lines(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("".join(f"line {n} ä\n" for n in range(1000)))
    end = page_source.end_of(tmp_path, f"{tmp_path.name}/log.txt", 50)
    assert end.startswith("line 9")
    assert end.endswith("line 999 ä\n")
    assert len(end) <= 50
    assert page_source.end_of(tmp_path, f"{tmp_path.name}/none.txt", 50) == ""


def test_the_map_has_each_row_once_with_baselines_first(source):
    found = row_views.overview(source)
    assert found["columns"][0] == ["eager", ""]
    targets = [target for _, target in found["columns"]]
    assert targets == sorted(targets, key=targets.index)
    assert sorted(index for _, _, index in found["cells"]) == list(range(len(source.records)))
    row, column, index = found["cells"][0]
    assert (found["rows"][row][0], found["columns"][column]) == ("bert", ["torchmlir-torch", "llvm-cpu"])  # fmt: skip
    assert source.records[index]["experiment"]["frontend"] == "torchmlir-torch"


def test_the_quantiles_are_those_of_student(source):
    quantiles = dict(row_views.latency(source)["quantiles"])
    assert quantiles[0] == pytest.approx(2.57583, abs=1e-4)
    assert quantiles[0.2] == pytest.approx(4.03214, abs=1e-4)  # five degrees of freedom


def test_clusters_have_their_cells_commands_remedies_and_what_they_alone_block(source):
    [failed, good] = row_views.failures(source)
    assert good.is_empty
    [cluster] = [part for part in failed.parts if "compile: shared-memory-limit" in part.title]
    cells = ["bert/torchmlir-stablehlo/rocm", "resnet/torchmlir-stablehlo/rocm"]
    assert [cell for cell, _ in cluster.rows] == cells
    assert [str(source.rows[place].cell) for place in cluster.places] == cells
    assert cluster.title.startswith("2 rows: ")
    assert cluster.title.endswith("; alone blocks 2 models")
    remedies, blocked, example, log = cluster.parts
    assert "pytorch-xla" in dict(remedies.rows)
    assert blocked.lines == ["bert on rocm", "resnet on rocm"]
    assert example.command.startswith("iree-compile ")
    assert log.text == "the log\n"
    assert all("no-device" not in part.title for part in failed.parts)


def test_what_a_remedy_compiled_is_last_and_not_blocked_by_two_causes(source):
    failed = [one for one in source.records if one["outcome"]["reason"] == "shared-memory-limit"]
    good = [report_records.remedied(one, "pytorch-xla", "torchxla-stablehlo") for one in failed]
    others = [one for one in source.records if one not in failed]
    found = clusters([*good, *others])
    assert found[-1].is_made_good
    assert found[-1].reason == "shared-memory-limit"
    assert {one.remedy for one in found[-1].rows} == {"pytorch-xla"}
    assert found[-1].blocks == {("bert", "rocm"): "pytorch-xla", ("resnet", "rocm"): "pytorch-xla"}
    other = json.loads(json.dumps(failed[0]))
    other["experiment"]["frontend"] = "torchxla-stablehlo"
    other["outcome"] |= {"reason": "legalization", "detail": "another"}
    assert all(("bert", "rocm") not in one.blocks for one in clusters([*failed, other]))
    works = json.loads(json.dumps(other)) | {"latency": source.records[0]["latency"]}
    works["outcome"] |= {"status": "ok", "stage": "verify", "reason": ""}
    assert all(("bert", "rocm") not in one.blocks for one in clusters([*failed, works]))


def test_memory_has_each_stage_once_with_its_samples(source):
    cell = "bert/torchmlir-torch/llvm-cpu"
    shared = "bert"
    for stage, of in (("reference", shared), ("verify", cell)):
        path = source.root / status_path(stage, of)
        path.parent.mkdir(parents=True, exist_ok=True)
        outcome.write(path, Outcome("ok", stage, of), Usage(2.0, 100.0))
    series = MemorySeries([0.1, 0.2], [50, 100], [(0.15, "timed calls")])
    outcome.write_memory(source.root / status_path("verify", cell), series)
    [memory] = row_views.memory(source)
    bert = next(part for part in memory.parts if part.title == "bert")
    reference, verify = (part for part in bert.parts if not part.is_empty)
    of_bert = [n for n, one in enumerate(source.records) if one["model"]["name"] == "bert"]
    assert reference.places == [of_bert]
    assert (reference.title, reference.charts) == ("Reference (PyTorch)", [])
    assert verify.rows == [("torchmlir-torch on llvm-cpu", "ok", "2.00 s", "100 MiB")]
    [chart] = verify.charts
    assert chart.lines[0].points == [(0.0, 50.0, None, None), (pytest.approx(0.1), 100.0, None, None)]  # fmt: skip
    assert chart.marks == [(pytest.approx(0.05), "timed calls")]


def test_memory_of_programs_is_shown_by_purpose(source):
    compiled = next(row for row in source.records if row["compile"])
    compiled["compile"] |= {"constant_bytes": 40, "transient_bytes": 4096}
    compiled["reference"]["weights_bytes"] = 10**6
    path = source.root / status_path("reference", compiled["model"]["name"])
    path.parent.mkdir(parents=True, exist_ok=True)
    outcome.write(path, Outcome("ok", "reference", compiled["model"]["name"]), Usage(2.0, 100.0))
    [memory] = row_views.memory(source)
    planned = memory.parts[0].parts[-1]
    head = ("", "parameters", "constants", "intermediate results, packed weights")
    assert planned.head == head
    assert [cell.partition(" ")[0] for cell in planned.rows[0][1:]] == ["977", "40", "4.00"]


def test_profiles_are_shown_where_there_are_any(source):
    assert profile_view.why(source) is None
    row = "bert/torchmlir-torch/llvm-cpu"
    write_profiles(source.results, "bert/cpu/eval", {row: PROFILE})
    [cell] = profile_view.why(source)
    assert cell.title == "bert/torchmlir-torch/llvm-cpu"
    assert [row[5] for row in cell.parts[-1].rows] == ["d_0_matmul", "d_1_add"]
    path = write_profiles(source.results, "bert/cpu/eval", {row: PROFILE, "bert/eager/eval": PROFILE_OF_EAGER})  # fmt: skip
    charts, cell = profile_view.why(source)
    [chart] = charts.charts
    assert (chart.title, chart.ticks) == ("bert", ["torchmlir-torch/llvm-cpu", "eager"])
    wide = [sum(point[1] for line in chart.lines for point in line.points if point[0] == bar) for bar in range(2)]  # fmt: skip
    assert wide == pytest.approx([10.0, 5.0]), "each bar is a call"
    assert [part.title for part in cell.parts] == ["", "Look first at", "", "", ""]
    path.write_text("{")  # damaged
    assert profile_view.why(source) is None


def test_kernels_are_shown_where_there_are_any(source):
    assert kernels.VIEWS[0].select(source) is None
    one = source.records[0]
    one["kernel"] = {"name": "softmax", "shape": "4x8", "gb_per_s": 5.0, "gb_per_s_low": None, "gb_per_s_high": None, "machine_gb_per_s": 9.0, "bandwidth_share": 0.5}  # fmt: skip
    (source.results / "kernels.jsonl").write_text(json.dumps(one) + "\n")
    *_, rates = kernels.VIEWS[0].select(source)
    [softmax] = rates.parts
    assert softmax.title == "softmax"
    assert softmax.rows == [["4x8 f32", "5"]]
    [chart] = softmax.charts
    assert (chart.ticks, chart.rule) == (["4x8"], 9.0)
    assert chart.lines[0].name == "torchmlir-torch on llvm-cpu"
    assert chart.lines[0].points == [(0, 5.0, None, None)]


def test_training_steps_are_shown_beside_their_forward_passes(source):
    assert row_views.training(source) is None
    added = report_records.training()
    [training] = row_views.training(Source(source.results, [*source.records, *added]))
    steps = {row[0]: row for model in training.parts for row in model.rows}
    assert {row[5] for row in steps.values()} == {"–", "10/10", "1/10"}
    assert steps["eager"][2] == "100 %"
    [wrong] = [row for row in steps.values() if row[-1].startswith("wrong result")]
    assert wrong[1] == "–"
    [losses] = training.parts[0].parts
    assert losses.head[:2] == ("step", "eager")
    column = losses.head.index(wrong[0])
    assert [row[1] for row in losses.rows] == ["0.5000000", *["0.2500000"] * 9]
    assert [row[column] for row in losses.rows] == ["0.5000000", "0.3750000", *["not finite"] * 8]


def test_threads_are_shown_where_rows_have_several_numbers(source):
    assert row_views.threads(source) is None
    found = [*source.records, *report_records.by_threads(1, 2, 4)]
    [threads] = row_views.threads(Source(source.results, found))
    [model] = threads.parts
    assert model.title == "scaled"
    assert model.rows[0][:2] == ("torchmlir-torch on llvm-cpu", "1")
    numbers = {str(found[place]["run"]["threads"] or 4) for place in model.places}
    assert numbers == {row[1] for row in model.rows}
    assert [row[3].partition(" %")[0] for row in model.rows[:3]] == ["100"] * 3
    assert re.fullmatch(r"100 % \(\d+ % to \d+ %\)", model.rows[1][3])
    assert re.fullmatch(r"[\d.]+ ms \([\d.]+ to [\d.]+\)", model.rows[1][2])
    [failed] = [row for row in model.rows if not row[3]]
    assert failed[1:3] == ("4", "segfault")
    latency, efficiency = model.charts
    assert [x for x, *_ in latency.lines[0].points] == [0, 1, 2]
    assert [y for _, y, *_ in efficiency.lines[0].points] == pytest.approx([100] * 3)


def test_operators_are_shown_where_there_are_any(source, tmp_path, monkeypatch):
    assert operator_record.VIEWS[0].select(source) is None
    monkeypatch.chdir(tmp_path)
    tree = Tree(dataclasses.replace(MATRIX, parts={"operators": OPERATORS}))
    tree.endings = {
        f"operator_compile 0/torch/llvm-cpu: {MM.name}": ("error", "legalization", "no")
    }
    tree.write()
    found = operator_record.of_batch(Path(), tree.matrix, "0", tree.problems)
    path = source.root / "results/operators/operators.jsonl"
    path.write_text("".join(row_set.lines(found)))
    by_title = {section.title: section for section in operator_record.VIEWS[0].select(source)}
    cpu = next(part for part in by_title["Operators"].parts if part.title.startswith("llvm-cpu"))
    assert cpu.head[2:] == ["torch", "xla", "best path"]
    rates = {row[0]: row[2:] for row in cpu.rows}
    assert rates["aten.mm.default"] == ["1 of 2", "2 of 2", "2 of 2"]
    [fix] = by_title["What to fix first"].rows
    assert (fix[3], fix[7]) == ("aten.mm.default", "legalization")


def test_the_command_writes_the_page_with_all_views(source, tmp_path, monkeypatch):
    out, results = tmp_path / "report.html", source.results / "results.jsonl"
    monkeypatch.setattr(sys, "argv", ["x", "--results", str(results), "--out", str(out)])
    write_report.main()
    data = data_of(out.read_text(encoding="utf-8"))
    assert {f"view-{view.name}" for view in write_report.views()} < set(data)


def test_a_comparison_is_shown_where_there_is_one(source):
    assert page_views.comparison(source) is None
    rows = [one for one in source.records if one["latency"]]
    made = compare(pairs.of_files(rows, rows), "before", HOSTILE, Settings())
    (source.results / "comparison.json").write_text(formats.as_json(made, with_all=True))
    whole, *tables = page_views.comparison(source)
    assert whole.title == f"before → {HOSTILE}"
    assert len(whole.charts[0].lines) == len(rows)
    assert {"Latencies of which no change was found", "Means"} <= {table.title for table in tables}
    (source.results / "comparison.json").write_text("{}")  # of another version
    with pytest.raises(KeyError):
        page_views.comparison(source)
