"""Tuning: the candidates, the files of a run, results/tuned.csv, and `tuned: auto`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import msgspec
import pytest

from scripts.config import compile_tables, expansion, settings
from scripts.config.cell import Cell, Kind, of_axes
from scripts.config.compile_tables import Variant
from scripts.config.rows import Matrix
from scripts.config.settings import ConfigError
from scripts.config.stages import STAGES
from scripts.core import atomic
from scripts.iree import compile_options
from scripts.run import outputs, starting
from scripts.run.outputs import Result
from scripts.run.plan import Plan
from scripts.stages import aggregate_results
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.variants import tuned_row_set, variants_plan
from scripts.tools.variants.candidates import Line, Report, Search, Timing
from scripts.tools.variants.variants_plan import Tuning

ROOT = Path(__file__).parents[2]
TUNED = of_axes(model="conv", frontend="tuned", target="llvm-cpu")


def shipped(selections: dict | None = None, **changes) -> Matrix:
    declared, found = settings.load(changes, [ROOT / "config.yaml"])
    return expansion.expand(declared, found | (selections or {}), ROOT)


# Candidates


def test_candidates_are_what_is_configured_then_all_combinations_each_once():
    one = {"does": "x", "backends": ("llvm-cpu",), "iree": (), "why": "y", "seen": "z"}
    table = compile_tables.FlagSetTable(
        properties={"big": ("x",), "odd": ("y",)},
        opt_levels={"llvm-cpu": ("O3", "O2")},
        flag_sets={
            "a": compile_tables.FlagSet(name="a", flags=("--a",), needs=("big",), **one),
            "gpu": compile_tables.FlagSet(
                name="gpu", flags=("--g",), **one | {"backends": ("cuda",)}
            ),
        },
        preprocessing={
            "p": compile_tables.FlagSet(name="p", flags=("--p",), avoid=("odd",), **one)
        },
    )
    found = variants_plan.combined("llvm-cpu", [Variant("f", "O2", ("--a",))], ["f", "g"], table)
    assert [(c.name, c.variant.flags) for c in found] == [
        ("f-as-configured", ("--a",)),
        ("f-O2", ()), ("g-O2", ()), ("g-O2-a", ("--a",)),
        ("f-O2-p", ("--p",)), ("g-O2-p", ("--p",)), ("f-O2-a-p", ("--a", "--p")), ("g-O2-a-p", ("--a", "--p")),
        ("f-O3", ()), ("g-O3", ()), ("f-O3-a", ("--a",)), ("g-O3-a", ("--a",)),
        ("f-O3-p", ("--p",)), ("g-O3-p", ("--p",)), ("f-O3-a-p", ("--a", "--p")), ("g-O3-a-p", ("--a", "--p")),
    ]  # fmt: skip
    last = found[-1]
    assert (last.needs, last.avoid, last.configured) == (("big",), ("odd",), False)
    assert [c.configured for c in found].count(True) == 1


def test_every_configured_path_of_the_shipped_target_is_a_candidate():
    matrix = shipped({"models": "bert"})
    found = variants_plan.candidates(matrix, "bert", "llvm-cpu")
    assert [c.variant for c in found if c.configured] == [
        matrix.parts["variants"].targets["llvm-cpu"].for_model(matrix.models["bert"]).asked(name)
        for name in matrix.frontends
    ]
    assert len({c.variant for c in found}) == len({c.name for c in found}) == len(found)


def test_targets_are_those_of_the_command_line_or_of_the_configuration():
    assert list(shipped().parts["variants"].targets) == ["llvm-cpu"]
    assert list(shipped({"targets": "cuda,rocm"}).parts["variants"].targets) == ["cuda", "rocm"]
    assert shipped(tune={"budget_s": 7}).parts["variants"].budget_s == 7


def test_a_frontend_cannot_have_the_name_of_a_row():
    entry = {"exporter": "torch_mlir", "env": "torch-mlir", "options": {"dialect": "torch", "rewrites": "all"}}  # fmt: skip
    with pytest.raises(ConfigError, match=r"frontends\.tuned: found the name of a row"):
        shipped(frontends={"tuned": entry})


# The files of a run


@pytest.fixture
def tree(results):
    """A results tree in which `conv` is tuned for llvm-cpu."""
    cpu = results.matrix.targets["llvm-cpu"]
    results.matrix = dataclasses.replace(
        results.matrix,
        models={"conv": results.matrix.models["conv"]},
        parts={"variants": Tuning({"llvm-cpu": cpu}, budget_s=50)},
    )
    return results


def test_a_tuned_row_is_verified_by_the_stages_of_models_and_timed_in_a_group_of_its_own(tree):
    plan = Plan(tree.matrix, frozenset(), with_conda=False)
    files = plan["variants"].results()
    for name in ("tuned", "default"):
        assert f"results/verify/conv/{name}/llvm-cpu/verification.json" in files
    assert "results/tune/conv/llvm-cpu/report.json" in files
    assert "results/time_tuned/conv/cpu/eval/timing.json" in files
    group = of_axes(model="conv", device="cpu", test="eval")
    timed = msgspec.json.decode(plan["variants"].groups.request(group))
    assert list(timed["members"]) == ["conv/tuned/llvm-cpu", "conv/default/llvm-cpu", "conv/eager/eval"]  # fmt: skip
    assert "results/time/conv/cpu/eval/timing.json" not in files
    assert not [file for file in files if "/compile/" in file or "/mlir/" in file]
    assert plan.modules.files(TUNED, "module.vmfb") == ["results/tune/conv/llvm-cpu/tuned.vmfb"]
    assert not set(plan.aggregation.results()) & {
        f for f in files if "/tune" in f or "/default/" in f
    }


def test_the_search_is_a_param_that_changes_with_what_it_consists_of(tree):
    plan = Plan(tree.matrix, frozenset(), with_conda=False)
    of = of_axes(model="conv", target="llvm-cpu")
    search = msgspec.json.decode(plan["variants"].search(of), type=Search)
    first = search.candidates[0]
    assert (first.name, first.flags, first.configured) == ("mlir-as-configured", ("--x",), True)
    assert first.program == "results/export/conv/mlir/program.mlir"
    assert first.target["flags"] == ["--x"]
    assert search.budget_s == 50
    assert set(search.properties) == set(compile_tables.flag_sets().properties)
    assert plan["variants"].exports("status.json", of) == ["results/export/conv/mlir/status.json"]


# results/tuned.csv


def line(name: str, ms: float, configured: bool = False, **changes) -> Line:
    of = Line(
        name=name, frontend="mlir", opt_level="O3", flags=("--x",) if configured else ("--y",),
        configured=configured, status="ok", step="time", reason="", detail="", log="log.txt", same_as="",
        timing=Timing(3, ms, ms, ms, 4 / ms, 3.9 / ms, 4.1 / ms), compile={"compile_s": 2.0, "vmfb_bytes": 10, "dispatch_count": 1, "max_rss_mb": 1.0},
    )  # fmt: skip
    return msgspec.structs.replace(of, **changes)


FAILED = line("bad", 1.0, status="crashed", reason="SIGSEGV", detail="it crashed", timing=None, step="compile", compile={})  # fmt: skip
LEFT_OUT = line("late", 1.0, status="skipped", reason="budget", detail="used up", timing=None, step="compile", compile={})  # fmt: skip


@pytest.fixture
def aggregate(tree, monkeypatch):
    """Aggregate; the rows of results/tuned.csv by frontend or runtime, and the result that was written."""

    def run(tuned_ms=2.0, default_ms=4.0, lines=None, ended="ok", left=()):
        tree.write()
        lines = lines or [
            line("as-configured", default_ms, True),
            line("other", tuned_ms),
            FAILED,
            LEFT_OUT,
        ]
        passed = [one for one in lines if one.timing]
        best = min(passed, key=lambda one: one.timing.ms, default=None)
        default = next((one for one in passed if one.configured), None)
        folder = Path("results/tune/conv/llvm-cpu")
        folder.mkdir(parents=True, exist_ok=True)
        report = Report(50, 20.0, 10.0, best and best.name, default and default.name, tuple(lines))
        atomic.write_json(folder / "report.json", msgspec.to_builtins(report))
        found = Outcome(ended, "tune", "conv/llvm-cpu", *(["why", "what"] if ended != "ok" else []), log="l")  # fmt: skip
        outcome.write(folder / "status.json", found, Usage(1, 1))
        for name, ms, noise in (("tuned", tuned_ms, 1.005), ("default", default_ms, 1 / 1.005)):
            _verify(tree, name, ended, has_module=bool(best if name == "tuned" else default))
            tree.values_ms[f"conv/{name}/llvm-cpu"] = (ms, ms * noise, ms / noise, ms, ms)
        [(group, rows)] = variants_plan.groups(tree.matrix).items()
        cells = {name: f"conv/{name}/llvm-cpu" for name in dict(left)}
        endings = {("time_tuned", of): Outcome(cell=of, stage="", **left[name]) for name, of in cells.items()}  # fmt: skip
        tree.time("time_tuned", group, rows, endings)
        atomic.write_json("results/logs/matrix.json", tree.matrix.to_json())
        monkeypatch.setattr(sys, "argv", ["x", "--set=tuned"])
        aggregate_results.main()
        table = outputs.rows(Path("results/tuned.csv"))
        rows = {row["frontend"] or row["runtime"]: row for row in table}
        return rows, outputs.read(outputs.path_of("conv", "llvm-cpu"))

    return run


def _verify(tree, name: str, ended: str, has_module: bool) -> None:
    """Write the verification of a row, or what is left where its tuning failed."""
    row = Cell.of_kind(Kind.IREE, model="conv", frontend=name, target="llvm-cpu")
    status = Path(STAGES["verify"].path(row, "status.json"))
    status.parent.mkdir(parents=True, exist_ok=True)
    done = Outcome("ok", "verify", row.name, log="l", fingerprint="c0de")
    if ended != "ok":
        done = dataclasses.replace(done, status="skipped", reason="why", detail="what", blocked_by="tune conv/llvm-cpu")  # fmt: skip
    elif not has_module:
        done = dataclasses.replace(done, status="error", reason="no-module", detail="empty")
    outcome.write(status, done, Usage(1, 1))
    if done.status == "ok":
        tree.verify(status.with_name("verification.json"))
    else:
        status.with_name("verification.json").write_text("")


def test_a_gain_beyond_its_interval_is_kept(aggregate):
    rows, result = aggregate(tuned_ms=2.0, default_ms=4.0)
    assert list(rows) == ["tuned", "default", "eager"]
    tuned = rows["tuned"]
    assert (tuned["status"], tuned["kept"], tuned["candidate"]) == ("ok", "True", "other")
    assert 1.6 < float(tuned["speedup_vs_default_low"]) < float(tuned["speedup_vs_default"]) < 2.3
    assert (tuned["flags"], tuned["frontend_used"]) == ("--y", "mlir")
    assert (rows["default"]["flags"], rows["default"]["kept"]) == ("--x", "")
    assert (tuned["candidates"], tuned["candidates_compiled"], tuned["modules_verified"], tuned["candidates_failed"], tuned["tuning_s"]) == ("4", "2", "2", "1", "30")  # fmt: skip
    assert float(tuned["speedup_vs_eager"]) > 1
    assert (result.kept, result.frontend, result.flags) == (True, "mlir", ("--y",))
    assert (result.device_name, result.threads) == ("A CPU", 4)
    assert result.default_ms == pytest.approx(4.0, rel=0.01)
    page = Path("results/tuned.md").read_text()
    assert "| bad |  |  |  | crashed (SIGSEGV): it crashed |" in page
    assert "- 1 not tried (budget): used up" in page
    rows = map(json.loads, Path("results/tuned.jsonl").read_text().splitlines())
    [shown] = tuned_row_set.found_rows(list(rows))
    shown = dict(zip(tuned_row_set.HEAD, shown, strict=True))
    assert (shown["default"], shown["tuned"], shown["candidate"]) == ("4.00", "2.00", "other")
    assert (shown["gain"].startswith("2.00 ("), shown["kept"]) == (True, "yes")


TIMEOUT = {"status": "timeout", "reason": "time-limit", "detail": "more than 300 s"}
KILLED = {"status": "crashed", "reason": "SIGKILL", "detail": "killed"}
FASTEST = [line("as-configured", 1.0, True), line("other", 2.0)]


@pytest.mark.parametrize(
    ("ended", "kept", "why"),
    [
        ({"tuned_ms": 3.99, "default_ms": 4.0}, False, "no gain beyond its interval"),
        ({"lines": FASTEST}, False, "what is configured was the fastest"),
        ({"lines": [line("other", 2.0)]}, True, "nothing that is configured has a verified latency"),
        ({"left": {"default": TIMEOUT}}, False, "no latency of the row default to compare with: timeout: more than 300 s"),
        ({"lines": [FAILED], "ended": "error"}, False, "no latency: error: what"),
    ],
)  # fmt: skip
def test_a_result_is_kept_or_not_and_says_why(aggregate, ended, kept, why):
    rows, result = aggregate(**ended)
    assert (result.kept, result.why) == (kept, why)
    if result.why != "no latency: error: what":
        assert rows["tuned"]["kept"] == str(kept)
        return
    for name in ("tuned", "default"):
        assert (rows[name]["status"], rows[name]["stage"]) == ("error", "tune")
        assert (rows[name]["reason"], rows[name]["detail"]) == ("why", "what")


@pytest.mark.parametrize("row", ["tuned", "default"])
def test_a_failure_that_passes_leaves_the_earlier_result(aggregate, row):
    _, before = aggregate()
    assert before.kept
    rows, after = aggregate(left={row: KILLED})
    assert rows[row]["reason"] == "SIGKILL"
    assert after == before


def test_the_limits_are_those_of_what_is_tuned_for(tree):
    other = dataclasses.replace(tree.matrix.targets["llvm-cpu"], name="gpu", backend="rocm")
    of = dataclasses.replace(tree.matrix, parts={"variants": Tuning({"gpu": other}, budget_s=50)})
    plan = Plan(of, frozenset(), with_conda=False)
    files = [one for one in plan["variants"].results() if "/machine_limits/" in one]
    assert files == ["results/machine_limits/rocm/limits.json"]
    assert plan.on_device(of_axes(device="rocm")) is other


def test_a_tuning_spec_that_the_user_names_is_an_input_and_must_exist(tree, tmp_path):
    named = dataclasses.replace(
        tree.matrix.targets["llvm-cpu"], flags=(f"{compile_options.SPEC_FLAG}=mine.mlir",)
    )
    of = dataclasses.replace(
        tree.matrix,
        targets={"llvm-cpu": named},
        parts={"variants": Tuning({"llvm-cpu": named})},
    )
    plan = Plan(of, frozenset(), with_conda=False)
    cell = of_axes(model="conv", frontend="mlir", target="llvm-cpu")
    assert plan.modules.specs(cell) == plan["variants"].specs(cell) == ["mine.mlir"]
    said = "targets.llvm-cpu.flags: the tuning spec mine.mlir does not exist"
    assert starting.flag_problems(of) == [said]


def test_a_rocm_target_is_shown_beside_pytorch_on_the_same_gpu():
    speedups = dict.fromkeys(f"speedup_vs_default{end}" for end in ("", "_low", "_high"))
    nothing = {**speedups, "kept": False, "why": "", "candidate": "", "candidates": None}

    def row(ms: float, **experiment: str | None) -> dict:
        return {"model": {"name": "m"}, "experiment": experiment, "latency": {"ms": ms}, "tuning": nothing}  # fmt: skip

    of = {"runtime": "iree", "target": "rocm", "device": "rocm", "backend": "rocm"}
    rows = [row(2.0, frontend=name, **of) for name in ("tuned", "default")]
    rows.append(row(5.0, frontend=None, runtime="eager", target="eager-cuda", device="cuda"))
    [shown] = tuned_row_set.found_rows(rows)
    assert shown[2:6] == ["5.00", "–", "2.00", "2.00"]


def test_without_a_report_the_other_rows_are_written(aggregate, monkeypatch):
    written = atomic.write_json

    def cut(path, values):
        written(path, values)
        if Path(path).name == "report.json":
            Path(path).write_text("")

    monkeypatch.setattr(atomic, "write_json", cut)
    rows, result = aggregate(ended="error")
    assert (rows["tuned"]["stage"], result.kept) == ("tune", False)


# tuned: auto


RESULT = Result(
    model="bert", target="llvm-cpu", options={"seq_len": 128}, kept=True, why="",
    frontend="torchxla-stablehlo", opt_level="O2", flags=("--z",), backend="llvm-cpu", arch="host",
    device="local-task", device_name="A CPU", threads=2,
)  # fmt: skip


@pytest.fixture
def auto(tmp_path, monkeypatch):
    """The shipped matrix with `tuned: auto`, and a result with changes; the matrix and the warnings."""
    monkeypatch.setattr(outputs, "cpu_name", lambda: "A CPU")
    matrix = shipped({"models": "bert,vit"}, targets={"llvm-cpu": {"tuned": "auto"}})
    matrix = dataclasses.replace(matrix, measure={"threads": 2})
    versions = outputs.kept_versions(matrix, "torchxla-stablehlo")

    def run(**changes):
        result = msgspec.structs.replace(RESULT, **{"versions": versions, **changes})
        path = outputs.path_of("bert", "llvm-cpu", tmp_path)
        atomic.write_json(path, msgspec.to_builtins(result))  # JSON is YAML
        return outputs.with_results(matrix, tmp_path)

    return run


def compiled(matrix: Matrix) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    return {
        (m.name, f.name): (t.opt_level, t.flags)
        for m, f, t in matrix.cells()
        if t.name == "llvm-cpu"
    }


def test_a_kept_result_sets_flags_and_level_of_its_path_alone(auto, tmp_path):
    matrix, notes = auto()
    before = compiled(auto(kept=False)[0])
    found = compiled(matrix)
    assert found.pop(("bert", "torchxla-stablehlo")) == ("O2", ("--z",))
    assert before.pop(("bert", "torchxla-stablehlo"))[0] == "O3"
    assert (found, notes) == (before, [])
    target = matrix.target("bert", "torchxla-stablehlo", "llvm-cpu")
    assert target.tuned_by == str(tmp_path / "bert/llvm-cpu.yaml")
    assert matrix.target("bert", "torchmlir-torch", "llvm-cpu").tuned_by == ""
    assert matrix.parts["variants"].targets["llvm-cpu"].choices == {}, (
        "tuning starts from the configuration"
    )
    assert Matrix.from_json(matrix.to_json()) == matrix
    plan = Plan(matrix, frozenset(), with_conda=False)
    of = of_axes(model="bert", frontend="torchxla-stablehlo", target="llvm-cpu")
    fields = json.loads(plan.requests.compile(of))
    assert (fields["opt_level"], fields["flags"]) == ("O2", ["--z"])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"options": {"seq_len": 64}}, "options of the model: {'seq_len': 64}; now: {'seq_len': 128}"),
        ({"device_name": "Another"}, "CPU: Another; now: A CPU"),
        ({"threads": 8}, "threads: 8; now: 2"),
        ({"arch": "znver4"}, "arch: znver4; now: host"),
        ({"versions": {"iree": "3.0.0"}}, "; now: "),
    ],
)  # fmt: skip
def test_a_result_of_something_else_is_not_used_and_a_warning_says_why(auto, changes, problem):
    matrix, [note] = auto(**changes)
    assert compiled(matrix) == compiled(auto(kept=False)[0])
    assert "bert/llvm-cpu.yaml is not used: " in note
    assert problem in note


def test_a_result_whose_tuning_spec_is_gone_is_not_used(auto, tmp_path):
    path = tmp_path / "mine.mlir"
    flags = (f"{compile_options.SPEC_FLAG}={path}",)
    _, [gone] = auto(flags=flags)
    assert f"its tuning spec {path} does not exist" in gone
    path.write_text("module {}\n")
    matrix, notes = auto(flags=flags)
    assert (notes, compiled(matrix)["bert", "torchxla-stablehlo"]) == ([], ("O2", flags))


def test_a_damaged_result_is_named(auto, tmp_path):
    auto()
    outputs.path_of("bert", "llvm-cpu", tmp_path).write_text("model: bert\n")
    with pytest.raises(ConfigError, match=r"llvm-cpu.yaml: .*delete it, or restore it"):
        outputs.read(outputs.path_of("bert", "llvm-cpu", tmp_path))


def test_results_are_not_used_unless_the_target_asks_for_them(tmp_path):
    atomic.write_json(outputs.path_of("bert", "llvm-cpu", tmp_path), {"not": "read"})
    matrix = shipped({"models": "bert"})
    assert outputs.with_results(matrix, tmp_path) == (matrix, [])


def test_a_submission_has_time_for_the_budget_and_a_last_step(tree):
    of = of_axes(model="conv", target="llvm-cpu")
    limits = {stage: {"timeout_s": 600} for stage in tree.matrix.limits}
    for budget_s, minutes in ((60, 12), (600, 21)):
        tuning_of = dataclasses.replace(tree.matrix.parts["variants"], budget_s=budget_s)
        matrix = dataclasses.replace(tree.matrix, limits=limits, parts={"variants": tuning_of})
        plan = Plan(matrix, frozenset(), with_conda=False)
        asked = plan.ask("tune", of, 3, plan["variants"].search_s)
        assert (asked.timeout_s, asked.runtime) == (600, minutes)
