"""gate: the rows that end a run with `stop_on`, and how the scheduler is stopped."""

import csv
import logging
import os
import types
from pathlib import Path

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.config.settings import ConfigError
from scripts.config.stages import status_path
from scripts.results import columns, record
from scripts.results.columns import FIELDS
from scripts.run import outputs, starting
from scripts.run.snakemake.apply import stop_after
from scripts.run.snakemake.terminal import Jobs
from scripts.run.starting import Gate
from scripts.tools.operators.report.columns import COLUMNS as OPERATOR_COLUMNS

LAST = "conv/mlir/llvm-cpu"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (("error", "verify", LAST, "wrong-result"), "FAIL"),
        (("crashed", "verify", LAST), "EXCEPTION_RAISED"),
        (("timeout", "verify", LAST), "VERIFIER_DIDNT_RUN"),
        (("error", "compile", LAST), "VERIFIER_DIDNT_RUN"),
        (("error", "reference", "conv"), "EAGER_FAILED"),
    ],
)
def test_a_finished_stage_ends_a_run_by_what_its_row_will_have(results, ended, ending, code):
    results.write(ended(*ending))
    status, stage, cell, *_ = ending
    outputs = [f"results/{stage}/{cell}/verification.json", status_path(stage, cell)]
    [row] = [
        row
        for row in (columns.as_row(one, FIELDS) for one in record.records(results.matrix))
        if (row["model"], row["target"]) == ("conv", "llvm-cpu")
    ]
    assert (row["status"], row["verification_code"]) == (status, code)
    for wanted in (code, status, f"oom,{code}"):
        said = Gate(wanted).finished(outputs)
        assert said.startswith(f"{stage} {cell}: ")
        assert said.endswith(": what")
        assert Gate(wanted).of_rows([row]) == [
            f"conv/mlir/llvm-cpu: {code if code in wanted else status}"
        ]
    assert Gate("oom,NONDETERMINISTIC_EAGER_RUN").finished(outputs) == ""


def test_neither_what_is_blocked_nor_what_is_well_ends_a_run(results, ended):
    results.write(ended("error", "compile", LAST))
    everything = Gate(",".join(starting.KNOWN))
    assert everything.finished([status_path("verify", LAST)]) == ""  # compilation failed
    assert everything.finished([status_path("compile", "tiny/mlir/vulkan")]) == ""
    assert everything.finished(["results/latency.csv"]) == ""


def test_what_rows_never_have_is_refused():
    with pytest.raises(ConfigError, match="unknown stop_on 'FAILED'; did you mean 'FAIL'"):
        Gate("FAILED")
    with pytest.raises(ConfigError, match="unknown stop_on 'PASS'"):
        Gate("PASS")


def test_only_a_run_with_a_gate_makes_its_csv_again_to_be_asked():
    assert Gate(None).param() == ""
    assert Gate("FAIL").param() != Gate("FAIL").param() != ""


def test_the_csv_of_the_run_decides_its_end(results):
    results.write()
    one, other = Gate("FAIL"), Gate("oom")
    rows = [columns.as_row(record, FIELDS) for record in record.records(results.matrix)]
    rows[0]["verification_code"] = rows[1]["verification_code"] = "FAIL"
    Path("results").mkdir(exist_ok=True)
    with outputs.CSV.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    name = "/".join(rows[0][key] for key in ("model", "frontend", "target"))
    assert one.problem() == f"stop_on=FAIL: {name}: FAIL, and 1 more (see results/latency.csv)"
    os.utime(outputs.CSV, (0, 0))  # the clock was set back during the run
    assert one.problem().startswith("stop_on=FAIL")
    assert other.problem() == Gate(None).problem() == ""
    assert Gate("FAIL").problem() == "", "the CSV is from an earlier run"


def test_a_row_of_an_operator_problem_ends_a_run_too():
    of = {"problem": "aten.add.Tensor-01", "runtime": "iree", "frontend": "mlir"}
    row = of | {"target": "llvm-cpu", "status": "error", "verification_code": "FAIL"}
    assert Gate("FAIL").of_rows([row]) == ["aten.add.Tensor-01/mlir/llvm-cpu: FAIL"]
    assert row.keys() <= {one.column for one in OPERATOR_COLUMNS}


@pytest.fixture
def run():
    """The logger and scheduler of a run; each job makes the file with its number."""
    scheduler = types.SimpleNamespace(_user_kill=None)
    logger = logging.Logger("snakemake", logging.INFO)
    jobs = Jobs(logger, None)
    jobs.after_each(stop_after(scheduler, lambda outputs: "why" if "2" in outputs else ""))

    def finish(job: int) -> str | None:
        extra = {"jobid": job, "rule_name": "x", "output": [job]}
        logger.info("rule", extra={"event": LogEvent.JOB_INFO} | extra)
        logger.info("finished", extra={"event": LogEvent.JOB_FINISHED, "job_id": job})
        return scheduler._user_kill

    return finish


def test_no_job_starts_after_the_first_that_ends_the_run(run, capsys):
    assert run(1) is None
    assert run(2) == run(3) == run(2) == "graceful"
    said = capsys.readouterr().err
    assert said.count("stopping (stop_on): why") == 1
    assert "The same line goes on" in said
