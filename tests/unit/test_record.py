"""record: every cell has one record, which shows how far it came and which stage stopped it."""

import dataclasses
import json
from pathlib import Path

import pytest

from scripts.config.cell import Toolchain
from scripts.config.entries import Baseline, Override, TargetOverride, by_toolchain
from scripts.core import atomic
from scripts.measure.timing.calls import Run
from scripts.results import columns, record, results_file
from scripts.results.columns import FIELDS
from scripts.run import environments
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage


def valid(one: dict) -> bool:
    return not results_file.MODELS.problem(one)


TWICE = pytest.approx(2.0)

# How a stage ended, a cell that it decides, and the row of that cell.
ENDINGS = [
    ("verify conv/mlir/llvm-cpu ok", "conv/mlir/llvm-cpu", "verify", None, "PASS"),
    ("export conv/mlir unsupported", "conv/mlir/vulkan", "export", "export conv/mlir", "VERIFIER_DIDNT_RUN"),
    ("compile conv/mlir/vulkan error", "conv/mlir/vulkan", "compile", "compile conv/mlir/vulkan", "VERIFIER_DIDNT_RUN"),
    ("compile conv/mlir/vulkan timeout", "conv/mlir/vulkan", "compile", "compile conv/mlir/vulkan", "VERIFIER_DIDNT_RUN"),
    ("verify conv/mlir/vulkan unavailable", "conv/mlir/vulkan", "verify", None, "VERIFIER_DIDNT_RUN"),
    ("verify conv/mlir/vulkan crashed", "conv/mlir/vulkan", "verify", None, "EXCEPTION_RAISED"),
    ("verify conv/mlir/vulkan error wrong-result", "conv/mlir/vulkan", "verify", None, "FAIL"),
    ("verify conv/mlir/vulkan error", "conv/mlir/vulkan", "verify", None, "EXCEPTION_RAISED"),
    ("verify conv/mlir/vulkan timeout", "conv/mlir/vulkan", "verify", None, "VERIFIER_DIDNT_RUN"),
    ("baseline conv/eager/eval crashed", "conv/eager/eval", "baseline", None, "EXCEPTION_RAISED"),
    ("baseline conv/eager/eval oom", "conv/eager/eval", "baseline", None, "VERIFIER_DIDNT_RUN"),
    ("baseline conv/eager/eval error wrong-result", "conv/eager/eval", "baseline", None, "FAIL"),
    ("reference conv error", "conv/mlir/vulkan", "reference", "reference conv", "EAGER_FAILED"),
    ("reference conv error", "conv/eager/eval", "reference", "reference conv", "EAGER_FAILED"),
    ("reference conv error nondeterministic-eager", "conv/mlir/vulkan", "reference", "reference conv", "NONDETERMINISTIC_EAGER_RUN"),
    ("reference conv error nondeterministic-eager", "conv/eager/eval", "reference", "reference conv", "NONDETERMINISTIC_EAGER_RUN"),
    ("env torch-mlir error", "conv/mlir/vulkan", "env", "env torch-mlir", "VERIFIER_DIDNT_RUN"),
    ("env iree error", "conv/mlir/llvm-cpu", "env", "env iree", "VERIFIER_DIDNT_RUN"),
    ("time conv/cpu/eval timeout", "conv/mlir/llvm-cpu", "time", None, "PASS"),
    ("time conv/cpu/eval timeout", "conv/eager/eval", "time", None, "PASS"),
]  # fmt: skip


def rows(found: list[dict]) -> dict[str, dict]:
    """CSV rows by cell."""
    cells = {}
    for one in found:
        row = columns.as_row(one, FIELDS)
        baseline = (row["target"] or row["runtime"], row["test"])
        path = (row["frontend"], row["target"]) if row["runtime"] == "iree" else baseline
        cells["/".join([row["model"], *path])] = row
    return cells


@pytest.mark.parametrize(("ending", "cell", "stage", "blocked_by", "code"), ENDINGS)
def test_a_row_says_which_stage_decided_and_what_it_blocked(
    results, ended, ending, cell, stage, blocked_by, code
):
    at, of, status, *reason = ending.split()
    reason = None if status == "ok" else (reason or ["why"])[0]
    results.write(ended(status, at, of, reason or "", "what" if reason else ""))
    found = record.records(results.matrix)
    assert all(map(valid, found))
    row = rows(found)[cell]
    assert [row[k] for k in ("status", "stage", "reason")] == [status, stage, reason]
    assert [row[k] for k in ("blocked_by", "verification_code")] == [blocked_by, code]
    assert row["log"] == f"results/{at}/{of}/log.txt"
    assert row["detail"] == ("what" if reason else None)
    assert (row["latency_ms"] is None) == (row["speedup_vs_eager"] is None) == (status != "ok")
    assert code == "PASS" or of_cell(found)[cell]["runs"] is row["trace_s"] is None


def test_memory_of_a_run_is_the_timed_process_and_that_of_its_stage_stands_beside_it(
    results, ended
):
    results.write(ended("timeout", "verify", "conv/mlir/vulkan"))
    of_cell = {r["model"]["name"]: r["run"] for r in record.records(results.matrix) if r["experiment"].get("target") == "vulkan"}  # fmt: skip
    assert [of_cell["tiny"][k] for k in ("max_rss_mb", "stage_rss_mb")] == [200.0, 100.0]
    assert [of_cell["conv"][k] for k in ("max_rss_mb", "stage_rss_mb")] == [None, 100.0]


def test_versions_of_a_row_that_never_ran_are_the_pins(results, ended):
    results.write(ended("error", "env", "torch-mlir"))
    row = rows(record.records(results.matrix))["conv/mlir/vulkan"]
    pins = environments.pins("torch-mlir")
    assert (row["torch_version"], row["frontend_version"]) == (pins["torch"], pins["torch-mlir"])
    assert row["iree_version"] == environments.pins("iree")["iree-base-compiler"]


@pytest.mark.parametrize(
    ("cell", "ending", "python"),
    [
        ("conv/mlir/llvm-cpu", (), "3.12.1"),  # as the stage says that verified it
        ("conv/mlir/vulkan", ("error", "compile", "conv/mlir/vulkan"), "3.13.0"),
        ("conv/mlir/vulkan", ("error", "export", "conv/mlir"), "3.11.7"),
        ("conv/eager/eval", ("error", "baseline", "conv/eager/eval"), "3.11.7"),
    ],
)
def test_a_row_says_which_python_its_last_stage_had(results, ended, cell, ending, python):
    results.write(ended(*ending) if ending else {})
    if not ending:
        results.verify(
            Path(f"results/verify/{cell}/verification.json"), versions={"python": python}
        )
    for env, version in {"torch-mlir": "3.11.7", "iree": "3.13.0"}.items():
        said = Path(f"results/env/{env}/tools.json")
        said.parent.mkdir(parents=True, exist_ok=True)
        said.write_text(json.dumps({"python": version}))
    assert of_cell(record.records(results.matrix))[cell]["versions"]["python"] == python


def test_damaged_words_of_tools_are_left_out_and_the_environment_is_made_again(results, capsys):
    results.write()
    said = Path("results/env/iree/tools.json")
    said.parent.mkdir(parents=True, exist_ok=True)
    said.write_text(json.dumps({"iree-compile": SAID}))
    usage = Usage(1.0, 9.0, {said.name: atomic.digest_of(said)})
    outcome.write(said.with_name("status.json"), Outcome("ok", "env", "iree"), usage)
    said.write_text(said.read_text()[:-1])
    found = of_cell(record.records(results.matrix))["conv/mlir/llvm-cpu"]
    assert "iree_build" not in found["versions"]
    assert f"note: {said} is damaged: " in capsys.readouterr().err
    assert outcome.read(said.with_name("status.json")).status == "damaged"


def test_records_can_be_made_from_another_folder(results, ended, tmp_path, monkeypatch):
    results.write(ended("error", "env", "iree"))
    here = record.records(results.matrix)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert record.records(results.matrix, tmp_path) == here


@pytest.mark.parametrize(
    ("place", "section", "change"),
    [
        (0, "verification", {"code": "FAIL"}),
        (0, "outcome", {"status": "error", "reason": "r", "detail": "d"}),
        (0, "latency", None),
        *((1, "outcome", {key: ""}) for key in ("reason", "detail", "log")),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(results, ended, place, section, change):
    results.write(ended("error", "compile", "conv/mlir/vulkan"))
    one = record.records(results.matrix)[place]
    assert valid(one)
    one[section] = one[section] | change if change else change
    assert not valid(one)


def of_cell(found: list[dict]) -> dict[str, dict]:
    """Records by cell, named as `rows` names them."""
    return dict(zip(rows(found), found, strict=True))


def test_a_row_that_left_its_group_has_the_outcome_of_its_timing_and_no_latency(results, ended):
    results.write(ended("crashed", "time", "conv/mlir/llvm-cpu", "SIGSEGV"))
    found = of_cell(record.records(results.matrix))
    assert all(map(valid, found.values()))
    one = found["conv/mlir/llvm-cpu"]
    assert [one["outcome"][key] for key in ("status", "stage", "reason")] == ["crashed", "time", "SIGSEGV"]  # fmt: skip
    assert one["outcome"]["log"] == "results/time/conv/cpu/eval/members/conv_mlir_llvm-cpu.txt"
    assert (one["latency"], one["verification"]["code"]) == (None, "PASS")
    assert found["conv/eager/eval"]["latency"]["group"] == "conv/cpu/eval 0 1790000000.000"


def test_rows_of_a_group_have_its_anchor_and_those_without_eager_have_none(results, ended):
    results.write(ended("oom", "baseline", "tiny/eager/eval"))
    found = of_cell(record.records(results.matrix))
    one = found["conv/mlir/llvm-cpu"]["latency"]
    assert one["anchor"] == "eager/eval, PyTorch 2.0"
    assert one["anchor_ms"] == found["conv/eager/eval"]["latency"]["values_ms"]
    assert found["conv/mlir/vulkan"]["latency"]["anchor"] is None
    assert found["tiny/mlir/llvm-cpu"]["latency"]["anchor_ms"] == []
    assert found["tiny/mlir/llvm-cpu"]["latency"]["speedup_vs_eager"] is None
    assert one["speedup_vs_eager"] == TWICE


def test_the_runs_of_a_baseline_are_those_that_it_recorded_and_the_row_has_the_cold_one(results):
    results.write()
    runs = (Run(0.5, 2, 0.125, 0.25, 1, 0.0625, 2), Run(0.01, 2, 0.001, 0.0, 0, 0.002, 2))
    at = Path("results/baseline/conv/eager/eval/verification.json")
    results.verify(at, runs=runs, compile_s=0.25, device_memory_mb=64.5, profile={"operators": []})
    found = of_cell(record.records(results.matrix))["conv/eager/eval"]
    assert valid(found)
    assert found["runs"] == [dataclasses.asdict(run) for run in runs]
    row = columns.as_row(found, FIELDS)
    assert [row[f"{k}_s"] for k in ("trace", "compile", "execute")] == [0.125, 0.25, 0.0625]
    assert (row["device_memory_mb"], found["run"]["profile"]) == (64.5, {"operators": []})


SKIP = "skip.device.cpu of bench.yaml"


@pytest.mark.parametrize("cell", ["conv/mlir/vulkan", "conv/eager/eval"])
def test_a_cell_of_a_skip_list_is_skipped_by_nothing_but_the_list(results, cell):
    results.matrix = dataclasses.replace(results.matrix, overrides={cell: Override(SKIP)})
    results.write()
    found = of_cell(record.records(results.matrix))
    assert all(map(valid, found.values()))
    assert {name for name, one in found.items() if one["outcome"]["status"] == "skipped"} == {cell}
    row = columns.as_row(found[cell], FIELDS)
    assert (row["reason"], row["detail"], row["blocked_by"]) == ("skip-list", SKIP, None)
    assert row["stage"] == ("baseline" if "eager" in cell else "compile")
    assert found[cell]["verification"] == {"code": "VERIFIER_SKIPPED", "detail": SKIP}
    assert found[cell]["latency"] is found[cell]["runs"] is None
    assert found[cell]["run"]["stage_rss_mb"] is found[cell]["run"]["seconds"] is None


@pytest.mark.parametrize(
    ("stage", "above"), [("reference", "conv"), ("export", "conv/mlir"), ("env", "torch-mlir")]
)
def test_a_cell_of_a_skip_list_is_skipped_whatever_else_is_wrong_with_its_model(
    results, ended, stage, above
):
    cell = "conv/mlir/vulkan"
    results.matrix = dataclasses.replace(results.matrix, overrides={cell: Override(SKIP)})
    results.write(ended("crashed", stage, above))
    one = of_cell(record.records(results.matrix))[cell]
    assert (one["outcome"]["status"], one["outcome"]["reason"]) == ("skipped", "skip-list")
    assert one["outcome"]["blocked_by"] == ""
    assert one["verification"]["code"] == "VERIFIER_SKIPPED"


@pytest.mark.parametrize(
    ("stage", "status", "failing"),
    [
        ("gradients", "crashed", ["conv/eager/train"]),
        ("reference", "error", ["conv/mlir/llvm-cpu", "conv/mlir/vulkan", "conv/eager/eval", "conv/eager/train"]),
    ],
)  # fmt: skip
def test_gradients_that_could_not_be_made_fail_training_and_a_reference_fails_all(
    results, ended, stage, status, failing
):
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"))
    results.write(ended(status, stage, "conv"))
    found = record.records(results.matrix)
    assert all(map(valid, found))
    bad = {cell: row for cell, row in rows(found).items() if row["status"] != "ok"}
    assert list(bad) == failing
    row = bad["conv/eager/train"]
    assert [row[k] for k in ("status", "stage", "blocked_by", "verification_code", "log")] == [
        *(status, stage, f"{stage} conv", "EAGER_FAILED", f"results/{stage}/conv/log.txt"),
    ]


def test_a_baseline_says_its_precision_and_flags(results):
    flagged = Baseline("xla-odd", "xla", "cpu", "torch-xla", "amp-bf16", "--xla_a=1 --xla_b")
    cell = "conv/xla-odd/eval"
    results.matrix = dataclasses.replace(
        results.matrix,
        baselines={"eager": results.matrix.baselines["eager"], "xla-odd": flagged},
    )
    results.write()
    versions = {"torch": "2.9.0", "torch_xla": "2.9.1"}
    results.verify(Path(f"results/baseline/{cell}/verification.json"), versions=versions)
    found = of_cell(record.records(results.matrix))
    assert all(map(valid, found.values()))
    experiment = found[cell]["experiment"]
    assert (experiment["precision"], experiment["xla_flags"]) == ("amp-bf16", "--xla_a=1 --xla_b")
    assert found["conv/eager/eval"]["experiment"]["xla_flags"] is None
    row = columns.as_row(found[cell], FIELDS)
    assert (row["target"], row["runtime"]) == ("xla-odd", "xla")
    assert (row["torch_version"], row["torch_xla_version"]) == ("2.9.0", "2.9.1")


def test_torch_version_has_no_build_in_any_row_and_the_record_has_it_beside(results, ended):
    results.write(ended("error", "compile", "tiny/mlir/vulkan"))
    report = {"export_s": 0.5, "frontend_version": "1", "torch_version": "2.15.0+cu132"}
    Path("results/export/conv/mlir/report.json").write_text(json.dumps(report))
    measured = Path("results/baseline/conv/eager/eval/verification.json")
    results.verify(measured, versions={"torch": "2.15.0+cu132"})
    found = of_cell(record.records(results.matrix))
    assert all(map(valid, found.values()))
    for cell in ("conv/mlir/llvm-cpu", "conv/eager/eval"):
        versions = found[cell]["versions"]
        assert (versions["torch"], versions["torch_build"]) == ("2.15.0", "cu132")
        assert columns.as_row(found[cell], FIELDS)["torch_version"] == "2.15.0"
    assert found["conv/mlir/llvm-cpu"]["export"]["torch_version"] == "2.15.0+cu132"
    assert not any("+" in row["torch_version"] for row in rows(list(found.values())).values())
    assert "torch_build" not in found["tiny/eager/eval"]["versions"]


def test_a_baseline_that_never_ran_is_of_the_torch_that_is_pinned_for_it(results, ended):
    xla = Baseline("xla", "xla", "cpu", "torch-xla")
    results.matrix = dataclasses.replace(results.matrix, baselines={"xla": xla})
    results.write(ended("error", "reference", "conv"))
    row = rows(record.records(results.matrix))["conv/xla/eval"]
    pins = environments.pins("torch-xla")
    assert (row["torch_version"], row["torch_xla_version"]) == (pins["torch"], pins["torch_xla"])


@pytest.fixture
def of_programs(results):
    """A tree with a baseline that runs the programs of the frontend mlir."""
    on_xla = Baseline("xla-stablehlo", "xla_stablehlo", "cpu", "torch-mlir", program=("mlir",))
    results.matrix = dataclasses.replace(
        results.matrix,
        baselines=results.matrix.baselines | {"xla-stablehlo": on_xla},
        programs={"mlir": results.matrix.frontends["mlir"]},
    )
    return results


def test_the_row_of_a_baseline_that_ran_a_program_is_of_its_lowering_path(of_programs):
    of_programs.write()
    cell = "conv/xla-stablehlo/eval"
    versions = {"jax": "0.1", "jaxlib": "0.2"}
    of_programs.verify(Path(f"results/baseline/{cell}/verification.json"), versions=versions)
    report = {
        "export_s": 0.5,
        "frontend_version": "1",
        "torch_version": "2.9",
        "rewrites": ["tril", "avg_pool"],
    }
    Path("results/export/conv/mlir/report.json").write_text(json.dumps(report))
    found = of_cell(record.records(of_programs.matrix))[cell]
    valid(found)
    assert found["versions"] == versions | {
        "torch": "2.9", "frontend": "1", "torch_xla": None, "iree": None, "python": "3.11.7"
    }  # fmt: skip
    row = columns.as_row(found, FIELDS)
    assert (row["runtime"], row["frontend"], row["target"]) == ("xla-stablehlo", "mlir", None)
    assert (row["rewrites"], row["export_s"], row["status"]) == ("tril; avg_pool", 0.5, "ok")
    assert row["speedup_vs_eager"] is not None
    assert str(results_file.cell_of(found)) == cell


def test_a_program_that_was_not_exported_is_why_its_baseline_has_no_latency(of_programs, ended):
    of_programs.write(ended("unsupported", "export", "conv/mlir"))
    row = rows(record.records(of_programs.matrix))["conv/xla-stablehlo/eval"]
    assert (row["status"], row["stage"]) == ("unsupported", "export")
    assert row["blocked_by"] == "export conv/mlir"
    assert row["frontend"] == "mlir"


def test_a_row_has_the_level_and_the_flags_that_its_model_is_compiled_with(results):
    override = TargetOverride("con*", opt_level="O1", flags=("--y", "--z=1"))
    target = dataclasses.replace(results.matrix.targets["llvm-cpu"], overrides=(override,))
    results.matrix = dataclasses.replace(results.matrix, targets={"llvm-cpu": target})
    results.write()
    records = record.records(results.matrix)
    found = {cell: (row["opt_level"], row["flags"]) for cell, row in rows(records).items()}
    assert found["conv/mlir/llvm-cpu"] == ("O1", "--y; --z=1")
    assert found["tiny/mlir/llvm-cpu"] == ("O3", "--x")
    assert found["conv/eager/eval"] == (None, None)
    assert records[0]["experiment"]["flags"] == ["--y", "--z=1"]
    assert all(map(valid, records))


SAID = "IREE (https://iree.dev):\n  IREE compiler version 3.14.0.dev @ 89ece87b89852100c0a4ac3d515e14842d090967\n"


@pytest.mark.parametrize(
    ("changed", "version"),
    [
        ({"packages": {"iree-base-compiler": "3.12.0", "iree-base-runtime": "3.12.0"}}, "3.12.0"),
        ({"packages": {"iree-base-compiler": "/w/iree_base_compiler-3.14.1-cp311-linux.whl"}}, "3.14.1"),
        ({"builds": {"iree": "/a/build"}}, "3.14.0.dev"),
    ],
)  # fmt: skip
def test_a_row_of_a_toolchain_has_its_name_and_what_its_compiler_says(
    results, ended, changed, version
):
    toolchain = Toolchain("mine", envs=("iree",), **changed)
    chosen = {"pinned": Toolchain("pinned"), "mine": toolchain}
    results.matrix = dataclasses.replace(
        results.matrix, toolchains=chosen, targets=by_toolchain(results.matrix.targets, chosen)
    )
    results.write(ended("error", "compile", "conv/mlir/vulkan@mine", "program-version"))
    said = Path("results/env/iree@mine/tools.json")
    said.parent.mkdir(parents=True)
    said.write_text(json.dumps({"iree-compile": SAID}))
    found = rows(record.records(results.matrix))
    row = found["conv/mlir/vulkan@mine"]
    assert (row["toolchain"], row["reason"]) == ("mine", "program-version")
    assert (row["iree_version"], row["iree_build"]) == (version, "3.14.0.dev @ 89ece87b8985")
    pinned = found["conv/mlir/vulkan"]
    assert (pinned["toolchain"], pinned["iree_build"]) == ("pinned", None)
    assert found["conv/eager/eval"]["toolchain"] is None
    assert all(map(valid, record.records(results.matrix)))
