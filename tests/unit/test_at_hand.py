"""Rows that are not of the files at hand are refused; other files may differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.core import atomic
from scripts.frontends.sources import source
from scripts.results import at_hand
from scripts.results.results_file import BadRecords, Record
from scripts.run import environments, outputs
from scripts.run.plan import Aggregation
from scripts.stages import check_expectations
from scripts.tools.compare import compare, history

RESULTS = Path("results")
MODEL = "import beside\ndef get_model(): return {}\ndef get_dummy_input(batch_size=1): pass\n"
CONFIG = """
models:
  net: {file: net.py}
  program: {file: program.mlir, parameters: weights.irpa}
targets:
  llvm-cpu: {opt_level: O3}
"""


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A run of two models in the working folder, and its rows."""
    monkeypatch.chdir(tmp_path)
    at_hand.digest.cache_clear()
    source.file_digest.cache_clear()
    for name, text in {"net.py": MODEL.format(1), "program.mlir": "func.func @f() { return }", "weights.irpa": "w", "beside.py": "", "gate.yaml": CONFIG, "doc.md": "d"}.items():  # fmt: skip
        Path(name).write_text(text)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "A"]):  # fmt: skip
        subprocess.run(["git", *words], check=True)
    command_line = {
        "config": {"models": "net,program"},
        "files": ["gate.yaml"],
        "replace": False,
        "folder": ".",
    }
    atomic.write_json(RESULTS / at_hand.COMMAND_LINE, command_line)
    rows = [
        {"model": {"name": name, "file": str(Path(file).absolute())}, "reference": {"digests": {"code": at_hand.digest(file)}}}
        for name, file in (("net", "net.py"), ("program", "program.mlir"))
    ]  # fmt: skip
    (RESULTS / "results.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    matrix = at_hand._matrix(command_line, RESULTS)
    outputs.record("0", [RESULTS / "results.jsonl"], at_hand.made_from(matrix, RESULTS))
    at_hand.digest.cache_clear()
    source.file_digest.cache_clear()
    return rows


def change_code(monkeypatch):
    monkeypatch.setattr(Aggregation, "measuring_code", lambda: "other")


def change_pins(monkeypatch):
    monkeypatch.setattr(environments, "pins_digest", lambda env: f"other {env}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: Path("net.py").write_text(MODEL.format(2)), "/net.py has changed. Run"),
        (lambda _: Path("net.py").unlink(), "/net.py is gone or cannot be read"),
        (lambda _: Path("weights.irpa").write_text("v"), "/weights.irpa has changed. Run"),
        (lambda _: Path("gate.yaml").write_text(CONFIG.replace("O3", "O1")), "the configuration has changed (config.yaml, gate.yaml)"),
        (lambda _: Path("gate.yaml").write_text("models: {net: {file: no.py}}"), "the configuration cannot be used any more ("),
        (change_pins, "the pins of the environment iree have changed; the pins of the environment torch-mlir"),
        (change_code, "the code of vmfbench that verifies and times has changed"),
    ],
)  # fmt: skip
def test_rows_of_other_files_are_refused_by_name(records, monkeypatch, change, said):
    change(monkeypatch)
    with pytest.raises(BadRecords) as refused:
        at_hand.check(RESULTS, records)
    message = str(refused.value)
    assert message.startswith("results/results.jsonl: its rows were made at ")
    assert said.replace("config.yaml,", f"{at_hand.checkout.path('config.yaml')},") in message
    assert message.endswith("models=net,program -- --configfile gate.yaml` first, or pass the path results/results.jsonl to use its rows as they are")  # fmt: skip


def test_files_that_rows_do_not_depend_on_may_differ(records):
    Path("doc.md").write_text("other")
    Path("net.py").write_text(f"# a comment\n{MODEL.format(1)}")
    Path("gate.yaml").write_text(f"{CONFIG}expect: {{'*': ok}}\n")
    at_hand.check(RESULTS, records)


def test_only_the_models_of_the_rows_count(records):
    Path("weights.irpa").write_text("v")
    at_hand.check(RESULTS, records[:1])


def test_results_of_another_folder_are_what_their_user_names(records, monkeypatch):
    Path("net.py").unlink()
    Path("below").mkdir()
    monkeypatch.chdir("below")
    at_hand.check(Path("../results"), records)


@pytest.mark.parametrize(
    ("verb", "words"),
    [(compare, ["--against", "latest"]), (compare, ["results/results.jsonl", "results"]), (check_expectations, []), (history, ["--keep"])],
)  # fmt: skip
def test_every_verb_that_compares_refuses_them(records, monkeypatch, capsys, verb, words):
    Path("net.py").write_text(MODEL.format(2))
    of_eager = {"runtime": "eager", "target": "eager", "test": "eval", "frontend": None}
    rows = [Record(RESULTS, 1, record | {"experiment": of_eager}) for record in records]
    for module in (compare, check_expectations, history):
        monkeypatch.setattr(module, "read", lambda path: rows)
    monkeypatch.setattr(sys, "argv", ["x", *words])
    with pytest.raises(SystemExit) as ended:
        verb.main()
    said = capsys.readouterr()
    assert (bool(ended.value.code), said.out) == (True, "")
    assert "are not of the files at hand" in said.err


@pytest.mark.parametrize(
    ("file", "is_dirty"),
    [("doc.md", False), ("net.py", True), ("beside.py", True), ("weights.irpa", True), ("gate.yaml", True)],
)  # fmt: skip
def test_a_run_is_of_its_commit_if_no_file_that_it_depends_on_differs(records, file, is_dirty):
    name = at_hand.commit(RESULTS)
    assert "dirty" not in name
    Path(file).write_text("other")
    assert at_hand.commit(RESULTS) == (f"{name}-dirty" if is_dirty else name)
