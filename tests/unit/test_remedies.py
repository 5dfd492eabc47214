"""Remedies: the table, what a configuration makes of it, when they are due, and what rows say of them."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest

from scripts.config import compile_tables, expansion, settings
from scripts.config.cell import Kind, of_axes
from scripts.config.compile_tables import Hang, Remedy, Variant
from scripts.config.entries import Frontend
from scripts.config.rows import Matrix
from scripts.config.settings import ConfigError
from scripts.config.stages import STAGES, status_path
from scripts.core import atomic
from scripts.results import columns, record, screen
from scripts.results.columns import FIELDS
from scripts.results.results_file import Record
from scripts.results.results_table import Table
from scripts.results.wording import absent
from scripts.run import environments
from scripts.run.plan import Plan
from scripts.run.starting import Gate
from scripts.stages import check_expectations
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.report import failed, report_coverage
from scripts.tools.variants import document
from scripts.tools.variants import remedy_job as trying

ROOT = Path(__file__).parents[2]
CELL = "conv/mlir/vulkan"
OF = of_axes(model="conv", frontend="mlir", target="vulkan")
ASKED = Variant("f", "O2", ("--a", "--b"))


def remedy(name: str, **changes) -> Remedy:
    words = {"does": "x", "why": "y", "seen": "z", "versions": {}, "reasons": ("why",)}
    return Remedy(name=name, **(words | changes))


OTHER = remedy("other-path", frontend="xla")
LOWER = remedy("O1", opt_level="O1")


# The table


def test_the_page_has_the_tables_of_the_file():
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    assert document.PARTS[0].within(page) == page, "run vmfbench docs"
    made = document.of_remedies(compile_tables.remedies(), {"mine": ["O1", "O0"]})
    assert "| target `mine` | `O1`, `O0` |" in made


def test_every_remedy_is_tried_for_some_target_and_takes_a_frontend_that_is_shipped():
    table = compile_tables.remedies()
    declared, _ = settings.load({}, [ROOT / "config.yaml"])
    named = {name for names in table.order.values() for name in names}
    named |= {
        name for target in declared["targets"].values() for name in target.get("remedies", ())
    }
    assert named == set(table.remedies)
    taken = {one.frontend for one in table.remedies.values() if one.frontend}
    assert taken <= set(declared["frontends"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("order: {cuda: [a]}\nremedies: {}", "order.cuda: found 'a'"),
        ("order: {cud: []}\nremedies: {}", "Expected `str` matching regex '^(llvm-cpu|"),
        ("order: {}\nremedies: {a: {does: x}}", "missing required field"),
        ("order: {}\nremedies: {a: {does: x, why: y, seen: z, versions: {}, reasons: [r]}}", "remedies.a: changes nothing"),
        ("order: {}\nremedies: {a: {does: x, why: y, seen: z, versions: {}, reasons: [r], opt_level: O9}}", "opt_level`"),
        ("order: {}\nremedies: {a: {doess: x}}", "doess"),
        ("order: {}\nremedies: [a]", "'items'"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named(tmp_path, text, problem):
    (tmp_path / "table.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        compile_tables.remedies(tmp_path / "table.yaml")
    assert problem in str(error.value)
    assert "table.yaml" in str(error.value)


def test_attempts_differ_from_what_was_asked_and_from_each_other_and_take_known_frontends():
    every = [
        remedy("same", opt_level="O3"),  # the level is at most this one
        remedy("less", drop_flags=("--b", "--c"), add_flags=("--a", "--d")),
        OTHER,
        remedy("again", frontend="xla"),
        remedy("unknown", frontend="elsewhere"),
        LOWER,
    ]
    found = list(compile_tables.attempts(every, ASKED, ["xla", "f"]))
    assert [(one.name, one.variant) for one in found] == [
        ("less", Variant("f", "O2", ("--a", "--d"))),
        ("other-path", Variant("xla", "O2", ("--a", "--b"))),
        ("O1", Variant("f", "O1", ("--a", "--b"))),
    ]


def test_a_remedy_with_the_variant_of_an_earlier_one_adds_its_reasons_to_that():
    xla = remedy("xla", frontend="xla", reasons=("why", "other"))
    late = remedy("xla-O1", frontend="xla", opt_level="O1", reasons=("other", "late"))
    [both] = compile_tables.attempts((xla, late), Variant("f", "O1", ()), ["xla"])
    assert (both.name, both.reasons) == ("xla", ("why", "other", "late"))


def test_a_flag_is_dropped_with_any_value():
    less = remedy("less", drop_flags=("--b",), add_flags=("--b=false",))
    assert less.applied(Variant("f", "O2", ("--a", "--b=true"))).flags == ("--a", "--b=false")


# The configuration


def shipped(**changes) -> Matrix:
    declared, selections = settings.load(changes, [ROOT / "config.yaml"])
    return expansion.expand(declared, selections, ROOT)


def names(matrix: Matrix, model: str, frontend: str, target: str) -> list[str]:
    return [one.name for one in matrix.attempts(frontend, matrix.target(model, frontend, target))]


def test_targets_have_the_remedies_of_their_backend_unless_they_are_switched_off():
    usual = shipped()
    assert names(usual, "bert", "torchxla-stablehlo", "cuda") == [
        *("torch-dialect", "stablehlo", "O1", "O0"),
    ]
    assert names(shipped(remedies=False), "bert", "torchxla-stablehlo", "cuda") == []
    own = shipped(
        targets={"cuda": {"remedies": ["O0", "torch-dialect"]}, "rocm": {"remedies": False}}
    )
    assert names(own, "bert", "torchxla-stablehlo", "cuda") == ["O0", "torch-dialect"]
    assert names(own, "bert", "torchxla-stablehlo", "rocm") == []
    assert Matrix.from_json(json.loads(json.dumps(usual.to_json()))) == usual


def test_what_a_part_of_the_matrix_tries_is_what_the_whole_tries():
    part = shipped(models="bert", frontends="torchxla-stablehlo", targets="cuda", baselines="eager")
    assert names(part, "bert", "torchxla-stablehlo", "cuda") == names(shipped(), "bert", "torchxla-stablehlo", "cuda")  # fmt: skip
    programs = {str(one) for one in part.of_kind(Kind.PROGRAM)}
    assert programs == {f"bert/{f}" for f in ("torchxla-stablehlo", "torchmlir-torch", "torchmlir-stablehlo")}  # fmt: skip
    plan = Plan(part, frozenset(), with_conda=False)
    of = of_axes(model="bert", frontend="torchmlir-torch", target="cuda")
    options = json.loads(plan.requests.export(of))["exporter_options"]
    assert options == {"dialect": "torch", "rewrites": "all"}


def test_a_frontend_that_is_left_out_of_runs_is_not_used():
    declared, selections = settings.load(
        {"frontends": {"torchmlir-torch": {"default": False}}}, [ROOT / "config.yaml"]
    )
    found = expansion.expand(declared, selections, ROOT)
    assert "torch-dialect" not in names(found, "bert", "torchxla-stablehlo", "cuda")


def test_an_unknown_remedy_is_an_error_with_the_nearest_name():
    with pytest.raises(ConfigError) as error:
        shipped(targets={"cuda": {"remedies": ["torch-dialct"]}})
    assert "targets.cuda.remedies: unknown remedy 'torch-dialct'; did you mean 'torch-dialect'?" in str(error.value)  # fmt: skip


# The plan


@pytest.fixture
def tree(results):
    """A results tree whose target vulkan has remedies, and its plan."""
    vulkan = dataclasses.replace(results.matrix.targets["vulkan"], remedies=(OTHER, LOWER))
    return with_target(results, vulkan)


def with_target(results, vulkan):
    xla = Frontend("xla", "torch_xla", "torch-xla", {})
    results.matrix = dataclasses.replace(
        results.matrix,
        targets=results.matrix.targets | {"vulkan": vulkan},
        programs={"xla": xla, "new": dataclasses.replace(xla, name="new")},
        remedied_by=("xla", "new"),
    )
    return results


def plan_of(tree, **target) -> Plan:
    if target:
        with_target(tree, dataclasses.replace(tree.matrix.targets["vulkan"], **target))
    return Plan(tree.matrix, frozenset(), with_conda=False)


CODE = str(STAGES["remedy"].version)


def tried(plan: Plan, works: str | None, reason: str = "why") -> None:
    """Record that the compilation of CELL failed, and that its remedies were tried until one worked."""
    outcome.write(status_path("compile", CELL), Outcome("error", "compile", CELL, reason, "what", log="compile.txt"), Usage(1, 1))  # fmt: skip
    Path(STAGES["compile"].path(CELL, "report.json")).write_text("")
    attempts = compile_tables.wanted(plan.modules.attempts(OF), reason)
    found = []
    for one in attempts:
        ended = Outcome("ok" if one.name == works else "error", "remedy", CELL, "" if one.name == works else "bufferization", "")  # fmt: skip
        found.append(trying.Tried(one, ended, 1.0).to_json())
        if one.name == works:
            break
    frontends = list(dict.fromkeys(one.frontend for one in plan.modules.attempts(OF)))
    report = {
        "name": works,
        "tried": found,
        "limits": {"timeout": 1, "oom": 1},
        "frontends": frontends,
    }
    if works:
        report |= {key: found[-1][key] for key in ("frontend", "opt_level", "flags")}
        report["compile"] = {"compile_s": 3.0, "vmfb_bytes": 5, "dispatch_count": 2, "max_rss_mb": 1.0}  # fmt: skip
    path = Path(STAGES["remedy"].path(CELL, "report.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path, report)
    current = compile_tables.fingerprint(CODE, plan.modules.attempts(OF))
    by = "" if works else f"compile {CELL}"
    ended = Outcome("ok" if works else "skipped", "remedy", CELL, "" if works else reason, "" if works else "what", by, fingerprint=current, due=current)  # fmt: skip
    outcome.write(
        path.with_name("status.json"), ended, Usage(1, 1, {path.name: atomic.digest_of(path)})
    )


def test_a_cell_with_remedies_needs_the_programs_of_all_of_them_before_anything_is_known(tree):
    plan = plan_of(tree)
    assert plan.modules.exports(OF, "program.mlir") == [
        "results/export/conv/mlir/program.mlir",
        "results/export/conv/xla/program.mlir",
    ]
    assert plan.modules.files(OF, "module.vmfb") == [
        f"results/compile/{CELL}/module.vmfb",
        f"results/remedy/{CELL}/module.vmfb",
    ]
    cpu = of_axes(model="conv", frontend="mlir", target="llvm-cpu")
    assert plan.modules.files(cpu, "status.json") == [
        "results/compile/conv/mlir/llvm-cpu/status.json"
    ]
    assert f"results/remedy/{CELL}/report.json" in plan.aggregation.results()


def test_what_compiled_as_asked_depends_on_what_it_depended_on_whether_remedies_are_on_or_off(tree):
    tree.write()
    for plan in (plan_of(tree), plan_of(tree, remedies=())):
        assert len(plan.modules.files(OF, "module.vmfb")) == 1  # of a version without remedies
    outcome.write(status_path("remedy", CELL), Outcome("ok", "remedy", CELL), Usage(0, 0))
    for plan in (plan_of(tree), plan_of(tree, remedies=(OTHER,))):
        assert len(plan.modules.files(OF, "module.vmfb")) == 2


def test_remedies_do_not_stand_beside_a_module_that_was_compiled_after_them(tree):
    tree.write()
    plan, asked = plan_of(tree), status_path("compile", CELL)
    assert plan.modules.ignores_age(OF)  # there are none
    outcome.write(status_path("remedy", CELL), Outcome("ok", "remedy", CELL), Usage(0, 0))
    left = os.path.getmtime(status_path("remedy", CELL))
    os.utime(asked, (left - 9, left - 9))
    assert plan.modules.ignores_age(OF)
    # A run compiled it again, and was killed before the remedies and the measurement.
    os.utime(asked, (left + 9, left + 9))
    assert not plan.modules.ignores_age(OF)


def test_a_failure_without_remedies_takes_no_module_that_they_once_made(tree):
    tried(plan_of(tree), works="O1")
    assert len(plan_of(tree).modules.files(OF, "module.vmfb")) == 2
    assert len(plan_of(tree, remedies=()).modules.files(OF, "module.vmfb")) == 1


BEFORE, AFTER = remedy("before", add_flags=("--x",)), remedy("after", opt_level="O0")


@pytest.mark.parametrize(
    ("works", "changed", "is_due"),
    [
        ("other-path", (OTHER, LOWER), False),
        ("other-path", (OTHER,), False),  # what comes after it is not tried
        ("other-path", (OTHER, AFTER, LOWER), False),
        ("other-path", (BEFORE, OTHER, LOWER), True),
        ("other-path", (OTHER, remedy("third", frontend="new"), LOWER), False),
        ("O1", (LOWER,), True),
        ("O1", (remedy("other-path", frontend="xla", opt_level="O0"), LOWER), True),
        (None, (OTHER, LOWER), False),
        (None, (OTHER, LOWER, AFTER), True),
        (None, (OTHER,), True),
        (None, (OTHER, LOWER, remedy("n", opt_level="O0", reasons=("else",))), False),
    ],
)  # fmt: skip
def test_a_changed_table_repeats_what_it_concerns(tree, works, changed, is_due):
    plan = plan_of(tree)
    tried(plan, works)
    recorded = plan.due("remedy", OF)
    due = plan_of(tree, remedies=changed).due("remedy", OF)
    assert (due != recorded) == is_due
    before = plan.modules.exports(OF, "program.mlir")
    if not is_due:  # Snakemake runs a job again whose inputs are others
        assert plan_of(tree, remedies=changed).modules.exports(OF, "program.mlir") == before
    if is_due:
        tried(plan_of(tree, remedies=changed), None)
        assert plan_of(tree).due("remedy", OF) == due


def test_a_changed_table_does_not_concern_what_compiled_as_asked_or_was_blocked(tree, ended):
    for endings in (None, ended("error", "export", "conv/mlir")):
        tree.write(endings)
        plan = plan_of(tree, remedies=(OTHER, LOWER))
        current = compile_tables.fingerprint(CODE, plan.modules.attempts(OF))
        of = Outcome("ok" if endings is None else "skipped", "remedy", CELL, fingerprint=current, due=current)  # fmt: skip
        outcome.write(status_path("remedy", CELL), of, Usage(0, 0))
        assert plan_of(tree, remedies=(AFTER,)).due("remedy", OF) == current


def test_without_a_remedy_that_works_other_code_or_another_limit_try_again(tree, monkeypatch):
    plan = plan_of(tree)
    tried(plan, None)
    recorded = plan.due("remedy", OF)
    report = Path(STAGES["remedy"].path(CELL, "report.json"))
    found = atomic.read_json(report)
    found["tried"][0]["reason"] = "time-limit"
    atomic.write_json(report, found)
    assert plan.due("remedy", OF) == recorded
    atomic.write_json(report, found | {"limits": {"timeout": 9, "oom": 1}})
    assert plan.due("remedy", OF) == f"{recorded}+1"
    atomic.write_json(report, found)
    monkeypatch.setitem(STAGES, "remedy", dataclasses.replace(STAGES["remedy"], version=7))
    assert plan.due("remedy", OF).startswith("7~")


HANG = Hang(
    models=("conv*",),
    frontends=("mlir", "xla"),
    backends=("vulkan",),
    opt_levels=("O2",),
    iree=("3.0",),
    why="it takes an hour",
)


def test_a_known_hang_is_one_for_its_version_and_level_alone(tree, monkeypatch):
    monkeypatch.setattr(environments, "pins", lambda env: {"iree-base-compiler": "3.0"})
    plan = plan_of(tree, hangs=(HANG,))
    assert plan.modules.hang(OF) == "--hang 'it takes an hour (workflow/remedies.yaml, IREE 3.0)'"
    assert [bool(one.hang) for one in plan.modules.attempts(OF)] == [True, False]
    tiny = of_axes(model="tiny", frontend="mlir", target="vulkan")
    assert plan.modules.hang(tiny) == ""
    monkeypatch.setattr(environments, "pins", lambda env: {"iree-base-compiler": "3.1"})
    assert plan.modules.hang(OF) == ""


def test_a_run_that_stops_on_errors_waits_for_the_remedies(tree):
    plan = plan_of(tree)
    tried(plan, "O1")
    gate = Gate("error", plan.modules.may_make_good)
    assert gate.finished([status_path("compile", CELL)]) == ""
    assert gate.finished([status_path("remedy", CELL)]) == ""
    assert Gate("error").finished([status_path("compile", CELL)]) == f"compile {CELL}: error: what"
    tried(plan, None)
    assert gate.finished([status_path("remedy", CELL)]) == f"compile {CELL}: error: what"


# Rows


@pytest.fixture
def rows(tree, ended):
    """The rows of the tree, where a remedy (None: none) has compiled CELL, and it was measured or not."""

    def made(works: str | None, measured: Outcome | None = None) -> list[dict]:
        tree.write()
        tried(plan_of(tree), works)
        if works is None:
            blocked = Outcome("skipped", "verify", CELL, "why", "what", f"compile {CELL}", log="l")
            outcome.write(status_path("verify", CELL), blocked, Usage(0, 0))
        elif measured:
            outcome.write(status_path("verify", CELL), measured, Usage(0, 0))
            Path(f"results/verify/{CELL}/verification.json").write_text("")
        return record.records(tree.matrix)

    return made


NO_DEVICE = Outcome("unavailable", "verify", CELL, "no-device", "no device", log="l")


def of_cell(found: list[dict]) -> dict:
    return next(one for one in found if (one["model"]["name"], one["experiment"]["target"]) == ("conv", "vulkan"))  # fmt: skip


@pytest.mark.parametrize(
    ("works", "used", "tries"),
    [
        ("other-path", "xla", "other-path"),
        ("O1", "mlir", "other-path (bufferization), O1"),
    ],
)
def test_a_remedied_row_stands_for_what_was_asked_and_says_what_worked(rows, works, used, tries):
    row = columns.as_row(of_cell(rows(works)), FIELDS)
    assert (row["status"], row["stage"], row["verification_code"]) == ("ok", "verify", "PASS")
    assert (row["frontend"], row["opt_level"]) == ("mlir", "O2")
    assert (row["remedy"], row["frontend_used"], row["tried"]) == (works, used, tries)
    assert (row["first_error"], row["first_error_detail"]) == ("why", "what")
    assert (row["compile_s"], row["vmfb_bytes"]) == (3.0, 5)


def test_a_row_that_no_remedy_helped_is_that_of_the_failure(rows, tree):
    row = columns.as_row(of_cell(rows(None)), FIELDS)
    assert (row["status"], row["stage"], row["reason"]) == ("error", "compile", "why")
    assert (row["blocked_by"], row["remedy"], row["frontend_used"]) == (f"compile {CELL}", None, None)  # fmt: skip
    assert row["tried"] == "other-path (bufferization), O1 (bufferization)"
    with_target(tree, dataclasses.replace(tree.matrix.targets["vulkan"], remedies=()))
    off = columns.as_row(of_cell(record.records(tree.matrix)), FIELDS)
    assert (off["status"], off["stage"], off["tried"]) == ("error", "compile", None)


def test_a_row_that_compiled_as_asked_names_its_own_frontend_and_is_not_counted(tree):
    tree.write()
    found = record.records(tree.matrix)
    row = columns.as_row(of_cell(found), FIELDS)
    assert (row["remedy"], row["frontend_used"], row["first_error"]) == (None, "mlir", None)
    assert list(screen.compiled(Table.of_records(found))) == []


def test_another_path_counts_as_a_failure_of_this_one_and_another_level_does_not(rows):
    for works, mark, ending in (("other-path", "✗ compile†", "compile"), ("O1", "✓†", "verified")):
        found = rows(works)
        table = Table.of_records(found)
        entry = next(e for row in table.rows if row.model == "conv" for c, e in row.entries.items() if c.target == "vulkan")  # fmt: skip
        assert (entry.timing is None) == (works == "other-path")
        cell = next(c for c in report_coverage.iree_cells(found) if (c["model"], c["target"]) == ("conv", "vulkan"))  # fmt: skip
        assert (cell["mark"], cell["ending"], cell["remedy"]) == (mark, ending, works)
        assert cell["reached"] == ("export" if works == "other-path" else "verified")


def test_what_no_device_can_run_is_counted_by_path_too(rows, tree):
    [summed] = Table.of_records(rows("other-path", NO_DEVICE)).absent or [None]
    assert summed is None, "the other model was measured"
    tiny = Outcome("unavailable", "verify", "tiny/mlir/vulkan", "no-device", "no device", log="l")
    rows("other-path", NO_DEVICE)
    outcome.write(status_path("verify", tiny.cell), tiny, Usage(0, 0))
    Path("results/verify/tiny/mlir/vulkan/verification.json").write_text("")
    [summed] = Table.of_records(record.records(tree.matrix)).absent
    assert absent(summed) == (
        "vulkan: 1 of 2 compile, 1 fail (1 why), 1 of these compile by another lowering path, not "
        "measured: no device"
    )


def test_a_run_and_the_coverage_page_count_how_cells_were_compiled(rows):
    for works, counts in (("other-path", [1, 1, 0]), (None, [1, 0, 1])):
        found = rows(works)
        said = [line.plain for line in screen.compiled(Table.of_records(found))][:-1]
        assert said == [
            "compiled for llvm-cpu: 2 as asked, 0 by remedy, 0 not at all",
            "compiled for vulkan: {} as asked, {} by remedy, {} not at all".format(*counts),
        ]
        records = [Record(Path("r"), n, one) for n, one in enumerate(found)]
        page = report_coverage.page(report_coverage.frame(records), records)
        assert "| vulkan | {} | {} | {} |".format(*counts) in page
        listed = "| mlir | vulkan | why | other-path | xla | 1 | conv |"
        assert (listed in page) == ("## Remedies" in page) == (works is not None)


@pytest.mark.parametrize(
    ("expect", "line"),
    [
        ({"status": ["ok", "unavailable"]}, None),
        ({"status": ["ok", "unavailable"], "as_asked": True}, "ok by remedy: as asked, compile why: what"),
        ({"status": "ok", "as_asked": False}, None),
    ],
)  # fmt: skip
def test_an_expectation_may_demand_that_a_cell_compiles_as_asked(rows, expect, line):
    [checked] = check_expectations.check(rows("O1"), {CELL: expect})
    assert [f"{each.found}: {each.detail}" for each in checked.violations] == [line][: line is not None]  # fmt: skip


def test_a_violation_gives_each_cause_with_its_own_stage(rows):
    record = of_cell(rows("O1"))
    record["outcome"] |= {"status": "unavailable", "stage": "verify", "reason": "no-device", "detail": "no driver"}  # fmt: skip
    [checked] = check_expectations.check([record], {CELL: "ok"})
    assert [each.line for each in checked.violations] == [
        "expected ok, found unavailable verify no-device: no driver; as asked, compile why: what"
    ]


def test_first_errors_of_remedied_cells_are_listed_apart(rows, tree, monkeypatch, capsys):
    rows("other-path")
    atomic.write_json("results/logs/matrix.json", tree.matrix.to_json())
    one = Outcome("error", "remedy", CELL, "bufferization", "of an attempt")
    outcome.write(f"results/remedy/{CELL}/tries/O1/status.json", one, Usage(0, 0))
    tiny = Outcome("error", "compile", "tiny/mlir/llvm-cpu", "why", "what", log="l")
    outcome.write(status_path("compile", tiny.cell), tiny, Usage(0, 0))
    monkeypatch.setattr(sys, "argv", ["failed"])
    assert failed.main() == 0
    said = capsys.readouterr().out
    first, second = said.split("First errors of cells that a remedy has compiled:")
    assert "compile tiny/mlir/llvm-cpu: error (why)" in first
    assert f"compile {CELL}: error (why)" in second
    assert "remedies: other-path\n" in second
    assert said.splitlines()[-1] == "1 failed stages; 1 first errors of cells that a remedy has compiled"  # fmt: skip
    assert "of an attempt" not in said
    monkeypatch.setattr(sys, "argv", ["failed", "--json"])
    failed.main()
    assert [one["remedy"] for one in json.loads(capsys.readouterr().out)] == ["other-path", ""]
    kernels = dataclasses.replace(tree.matrix, models={}, parts={"kernels": tree.matrix})
    atomic.write_json("results/logs/matrix.json", kernels.to_json())
    failed.main()
    assert json.loads(capsys.readouterr().out)[0]["remedy"] == "other-path"
