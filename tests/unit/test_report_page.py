"""results/report.html: the data of each view, and that nothing in it can run as a script."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.features import registry
from scripts.features.compare import formats, page_views, pairs
from scripts.features.compare.comparing import Settings, compare
from scripts.features.kernels import page_view as kernels_view
from scripts.features.operators.report import page_view as operators_view
from scripts.features.operators.report import problem_record as operator_record
from scripts.features.profile import page_view as profile_view
from scripts.features.report.web import page, page_source, views
from scripts.features.report.web.page import packed, policy_hash
from scripts.features.report.web.page_source import Source
from scripts.features.report.web.views import of_rows
from scripts.matrix.stages import status_path
from scripts.records import latency_page, row_set, speedups
from scripts.records.clusters import clusters
from scripts.records.results_file import cell_of
from scripts.records.results_table import Table
from scripts.records.row import COMPILED, FAILED, NO_DEVICE, OTHER_PATH, VERIFIED
from scripts.supervise import outcome
from scripts.supervise.outcome import MemorySeries, Outcome, Usage
from scripts.timing import ratios
from tests import report_records
from tests.operator_results import MM, OPERATORS, Tree
from tests.report_records import HOSTILE, HOSTILE_LOG, PROFILE, unpacked
from tests.unit.conftest import MATRIX

ROOT = Path(__file__).parents[2]
WEB = ROOT / "scripts/features/report/web"


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
    text = page.page(source)
    assert "onerror=window" not in text
    assert "window.hacked" not in text
    assert unpacked(packed(HOSTILE)) == HOSTILE
    data = data_of(text)
    assert data["rows"]["values"]["model"][0] == HOSTILE
    assert data["details-0"][0]["log_end"] == HOSTILE_LOG


def test_only_the_scripts_of_the_page_may_run_and_no_network_is_allowed(source):
    text = page.page(source)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == len(page.LIBRARIES) + len(page.SCRIPTS) + len(views.loaded()) + 1
    assert all(policy_hash(script) in policy for script in scripts)
    assert policy.count("'sha256-") == len(scripts)
    assert "default-src 'none'" in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert not re.search(r"(?:src|href)=[\"']?https?:", text.partition("<script>")[0])


@pytest.mark.parametrize("file", sorted([*WEB.glob("assets/*.js"), *WEB.glob("views/*.js")]), ids=lambda file: file.name)  # fmt: skip
def test_no_script_of_the_page_parses_a_text_as_html_or_code(file):
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|fetch\("
    assert not re.search(forbidden, file.read_text(encoding="utf-8"))


def test_each_view_has_a_script_and_each_script_is_in_the_page():
    assert {view.name for view in views.loaded()} == {file.stem for file in WEB.glob("views/*.js")}
    assert {file.stem for file in WEB.glob("assets/*.js")} == {*page.SCRIPTS, "app"}


def test_the_page_has_the_views_of_the_features(source, monkeypatch):
    assert 'id="data-view-kernels"' in page.page(source)
    monkeypatch.setattr(registry, "VIEWS", ())
    alone = page.page(source)
    assert 'id="data-view-kernels"' not in alone
    assert 'id="data-view-latency"' in alone


def test_the_libraries_are_the_ones_that_their_page_names():
    readme = (WEB / "vendor/README.md").read_text(encoding="utf-8")
    for file in page.LIBRARIES:
        head = (WEB / file).read_text(encoding="utf-8")[:100]
        version = re.search(r"v(\d+\.\d+\.\d+)", head)[1]
        name = Path(file).name
        [line] = [line for line in readme.splitlines() if line.startswith(f"| `{name}`")]
        assert f" {version} " in line
        assert (WEB / "vendor" / name.replace(".min.js", ".LICENSE")).is_file()


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
    [block] = page_source.details_of_rows(source)
    one = block[0]
    stages = [(stage["stage"], stage["seconds"], stage["mb"]) for stage in one["stages"]]
    assert stages == [(stage, seconds, 100.0) for stage, _, seconds in ran]
    assert one["latency"]["values_ms"] == source.records[0]["latency"]["values_ms"]
    assert one["log_end"] == "the log\n"
    failed = block[2]
    assert failed["minimal"].startswith("iree-compile --iree-hal-target-")
    assert failed["minimal"].endswith("results/export/bert/torchmlir-stablehlo/program.mlir -o module.vmfb")  # fmt: skip


def test_the_end_of_a_log_is_whole_lines(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("".join(f"line {n} ä\n" for n in range(1000)))
    end = page_source.end_of(tmp_path, f"{tmp_path.name}/log.txt", 50)
    assert end.startswith("line 9")
    assert end.endswith("line 999 ä\n")
    assert len(end) <= 50
    assert page_source.end_of(tmp_path, f"{tmp_path.name}/none.txt", 50) == ""


def test_the_map_has_each_row_once_with_baselines_first(source):
    found = of_rows.overview(source)
    assert found["columns"][0] == ["eager", ""]
    targets = [target for _, target in found["columns"]]
    assert targets == sorted(targets, key=targets.index)
    assert sorted(index for _, _, index in found["cells"]) == list(range(len(source.records)))
    row, column, index = found["cells"][0]
    assert (found["rows"][row][0], found["columns"][column]) == ("bert", ["torchmlir-torch", "llvm-cpu"])  # fmt: skip
    assert source.records[index]["experiment"]["frontend"] == "torchmlir-torch"


def test_the_means_are_those_of_latency_md(source):
    found = of_rows.latency(source)
    text = latency_page.page(Table.of_records(source.records))
    for _, _, _, *over in found["means"]:
        assert all(one in text for one in over)
    quantiles = dict(found["quantiles"])
    assert quantiles[0] == pytest.approx(2.57583, abs=1e-4)
    assert quantiles[0.2] == pytest.approx(4.03214, abs=1e-4)  # five degrees of freedom


def test_clusters_have_their_cells_commands_remedies_and_what_they_alone_block(source):
    found = of_rows.failures(source)["clusters"]
    by_reason = {(one["stage"], one["reason"]): one for one in found}
    one = by_reason["compile", "shared-memory-limit"]
    assert [cell for cell, *_ in one["cells"]] == [
        "bert/torchmlir-stablehlo/rocm",
        "resnet/torchmlir-stablehlo/rocm",
    ]
    assert one["blocks"] == [["bert", "rocm", ""], ["resnet", "rocm", ""]]
    assert one["example"]["command"].startswith("iree-compile ")
    assert one["example"]["log_end"] == "the log\n"
    assert "pytorch-xla" in dict(one["remedies"])
    assert not one["made_good"]
    assert all(one["reason"] != "no-device" for one in found)


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
    found = of_rows.memory(source)["stages"]
    assert [(one["stage"], one["cell"]) for one in found] == [("reference", "bert"), ("verify", cell)]  # fmt: skip
    of_bert = [n for n, one in enumerate(source.records) if one["model"]["name"] == "bert"]
    assert found[0]["rows"] == of_bert
    assert found[1]["series"] == {"seconds": [0.1, 0.2], "mb": [50, 100], "marks": [(0.15, "timed calls")]}  # fmt: skip
    assert found[0]["series"] is None


def test_memory_of_programs_is_shown_by_purpose(source):
    compiled = next(row for row in source.records if row["compile"])
    compiled["compile"] |= {"constant_bytes": 40, "transient_bytes": 4096}
    compiled["reference"]["weights_bytes"] = 10**6
    shown = {
        source.records[one["row"]]["model"]["name"]: one["bytes"]
        for one in of_rows.memory(source)["planned"]
    }
    assert shown[compiled["model"]["name"]] == {
        "parameters": 10**6,
        "constants": 40,
        "intermediate results, packed weights": 4096,
    }


def test_profiles_are_shown_where_there_are_any(source):
    assert profile_view.why(source) is None
    path = source.results / "profile/bert/iree/torchmlir-torch/llvm-cpu/profile.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(PROFILE))
    [found] = profile_view.why(source)["cells"]
    assert found["cell"] == "bert/torchmlir-torch/llvm-cpu"
    assert [one["function"] for one in found["kernels"]] == ["d_0_matmul", "d_1_add"]
    assert found["first"]
    path.write_text("{")  # damaged
    assert profile_view.why(source) is None


def test_kernels_are_shown_where_there_are_any(source):
    assert kernels_view.kernels(source) is None
    one = source.records[0]
    one["kernel"] = {"name": "softmax", "shape": "4x8", "gb_per_s": 5.0, "machine_gb_per_s": 9.0}
    (source.results / "kernels.jsonl").write_text(json.dumps(one) + "\n")
    [found] = kernels_view.kernels(source)["rows"]
    assert (found["name"], found["gb_per_s"], found["ending"]) == ("softmax", 5.0, "verified")
    assert found["path"] == "torchmlir-torch on llvm-cpu"


def test_training_steps_are_shown_beside_their_forward_passes(source):
    assert of_rows.training(source) is None
    added = report_records.training()
    found = of_rows.training(Source(source.results, [*source.records, *added]))["rows"]
    assert {one["steps"] for one in found} == {None, "10/10", "1/10"}
    assert "torchmlir-torch on llvm-cpu" in {one["path"] for one in found}
    forward = {one["path"]: one["forward_ms"] for one in found}
    assert forward["eager"] > 0
    [wrong] = [one for one in found if one["ending"] == "wrong result"]
    assert all(one["latency_ms"] == one["forward_ms"] for one in found if one is not wrong)
    assert wrong["latency_ms"] is None
    assert wrong["losses"] == [0.5, 0.375, *[None] * 8]
    assert wrong["golden_losses"] == [0.5, *[0.25] * 9]


def test_threads_are_shown_where_rows_have_several_numbers(source):
    assert of_rows.threads(source) is None
    found = [*source.records, *report_records.by_threads(1, 2, 4)]
    lines = of_rows.threads(Source(source.results, found))["lines"]
    assert {one["model"] for one in lines} == {"scaled"}
    assert lines[0]["path"] == "torchmlir-torch on llvm-cpu"
    points = lines[0]["points"]
    assert [one["threads"] for one in points] == [1, 2, 4]
    assert [found[one["index"]]["run"]["threads"] for one in points] == [1, 2, 4]
    assert [one["efficiency"] for one in points] == pytest.approx([1, 1, 1])
    assert points[1]["efficiency_low"] < 1 < points[1]["efficiency_high"]
    assert points[1]["latency_low_ms"] < points[1]["latency_ms"] < points[1]["latency_high_ms"]
    [failed] = [one for line in lines for one in line["points"] if one["reason"]]
    assert (failed["threads"], failed["reason"], failed["latency_ms"]) == (4, "segfault", None)


def test_operators_are_shown_where_there_are_any(source, tmp_path, monkeypatch):
    assert operators_view.operators(source) is None
    monkeypatch.chdir(tmp_path)
    tree = Tree(dataclasses.replace(MATRIX, parts={"operators": OPERATORS}))
    tree.endings = {
        f"operator_compile 0/torch/llvm-cpu: {MM.name}": ("error", "legalization", "no")
    }
    tree.write()
    found = operator_record.of_batch(Path(), tree.matrix, "0", tree.problems)
    path = source.root / "results/operators/operators.jsonl"
    path.write_text("".join(row_set.lines(found)))
    data = operators_view.operators(source)
    cpu = next(one for one in data["targets"] if one["target"] == "llvm-cpu")
    rates = {op: rates for op, _, rates in cpu["operators"]}
    assert cpu["columns"] == ["torch", "xla"]
    assert rates["aten.mm.default"] == [[1, 2], [2, 2], [2, 2]]
    assert [(one["reason"], one["operators"]) for one in data["fixes"]] == [("legalization", ["aten.mm.default"])]  # fmt: skip


def test_the_command_writes_the_page_and_names_what_is_wrong(source, tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "scripts.stages.write_report", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    out = tmp_path / "report.html"
    results = source.results / "results.jsonl"
    assert run("--results", str(results), "--out", str(out)).returncode == 0
    data = data_of(out.read_text(encoding="utf-8"))
    assert {f"view-{view.name}" for view in views.loaded()} < set(data)
    results.write_text("{}\n")
    failed = run("--results", str(results), "--out", str(out))
    assert failed.returncode != 0
    assert "results.jsonl:1" in failed.stderr


def test_the_same_results_give_the_same_page(source):
    again = dataclasses.replace(source)
    assert page.page(source) == page.page(again)


def test_a_comparison_is_shown_where_there_is_one(source):
    assert page_views.comparison(source) is None
    rows = [one for one in source.records if one["latency"]]
    made = compare(pairs.of_files(rows, rows), "before", HOSTILE, Settings())
    (source.results / "comparison.json").write_text(formats.as_json(made, with_all=True))
    found = page_views.comparison(source)
    assert found["after"] == HOSTILE
    assert len(found["latencies"]) == len(rows)
    assert {"Latencies of which no change was found", "Means"} <= {one["title"] for one in found["tables"]}  # fmt: skip
    (source.results / "comparison.json").write_text("{}")  # of another version
    with pytest.raises(KeyError):
        page_views.comparison(source)
