"""compile_operators: the command of a batch's compilation."""

import sys
from pathlib import Path

from scripts.matrix.stages import status_path
from scripts.stages import compile_operators
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage

CELL = "0/mlir/llvm-cpu"


def test_without_an_environment_a_batch_is_skipped_and_does_not_end_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = status_path("env", "iree")
    outcome.write(env, Outcome("error", "env", "iree", "why", "what"), Usage(0, 0))
    Path("problems.jsonl").write_text("")
    status = status_path("operator_compile", CELL)
    artifact = Path(status).with_name("outcomes.jsonl")
    given = {
        "stage": "operator_compile",
        "cell": CELL,
        "status": status,
        "log": Path(status).with_name("log.txt"),
        "timeout": 1,
        "memory": 100,
        "problems": "problems.jsonl",
        "upstream": env,
        "artifact": artifact,
        "run": "scripts.stages.compile_operators",
        "python": str(tmp_path / ".venvs/iree/bin/python"),
        "request": '{"backend": "llvm-cpu"}',
        "version": 1,
    }
    options = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    monkeypatch.setattr(sys, "argv", ["compile_operators", *options])
    assert compile_operators.main() == 0
    ended = outcome.read(status)
    assert (ended.status, ended.reason, ended.blocked_by) == ("skipped", "why", "env iree")
    assert artifact.read_text() == ""
