"""`vmfbench fuzz`: planted miscompiles are found, right results raise no alarm, and a call writes causes and goes on later."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import pytest

from tests.checkouts import ROOT, environment

FAULTS = 13
SMALL_BLOCK = "from scripts.tools.fuzz import fuzz; fuzz.BLOCK, fuzz.OF_BASELINE, fuzz.FASTEST = 4, 1, 0; fuzz.main()"
"""`vmfbench fuzz` with one small block: it ends long before its time is over."""


def in_torch(environments, *words: str):
    done = subprocess.run(
        [environments / "torch-mlir/bin/python", "tests/pipeline/fuzz_in_torch.py", *words],
        cwd=ROOT,
        env=environment() | {"PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_every_planted_miscompile_is_found(environments):
    assert len(in_torch(environments, "power", "9000")) == FAULTS


def test_arguments_are_found_for_every_operator(environments):
    assert in_torch(environments, "never_drawn", "20") == []


def test_eager_against_itself_raises_no_alarm(environments):
    assert in_torch(environments, "alarms", "500") == []


def test_a_graph_is_the_same_after_it_was_json(environments):
    assert in_torch(environments, "as_json", "1500") == []


def test_graphs_have_mutations_that_can_be_drawn_again(environments):
    counts = in_torch(environments, "mutations", "600")
    assert counts["mutated"] == counts["repeated"] == counts["operators"]
    assert counts["mutated"] > 500
    assert counts["sizes"] > 200


def test_layers_of_a_model_are_graphs_with_mutations(environments):
    made = in_torch(environments, "layers", "20")
    assert "conv2d.default" in made["operators"][0]
    assert 1 < len(made["operators"]) == len({tuple(each) for each in made["operators"]}) < 6
    assert set(made["results"]) == {1}
    assert made["computed"] > 15
    assert made["shapes"] > 15


def test_a_program_is_made_once_and_run_with_each_set_of_values(environments):
    made = in_torch(environments, "values", "3")
    assert made["exports"] == 3
    expected = ["wrong" if rule == "special" else "ok" for rule in made["rules"]]
    assert made["ends"] == expected * 3


def test_graphs_that_crash_or_hang_do_not_take_others_along(environments):
    made = in_torch(environments, "ends", "0")
    assert made["ends"] == [*["ok"] * 2, *["hangs"] * 4, *["crashed"] * 2, "ok", *["crashed"] * 3]
    assert made["timed"] == ["right", "crashes", "NaN"]
    assert made["forks"] == 1


def test_graphs_are_judged_and_reduced_by_what_they_compute_alone(environments):
    made = in_torch(environments, "rules", "500")
    assert made == {
        "infinities": "tie",
        "zero by infinity": "not finite",
        "infinity by itself": "not finite",
        "devices": ["cpu", "cpu"],
        "sum near 0": "decision",
        "small": "",
        "nothing": [False],
        "sizes": [True, False],
        "kinds": 1,
        "nodes": 3,
        "near": [False, True, True],
    }


def test_programs_in_one_function_keep_their_lines_and_their_names(environments):
    made = in_torch(environments, "merged", "2")
    assert "@main(%g0_arg0: t, %g1_arg0: t) -> (t, t)" in made["text"]
    assert "return %g0_0, %g1_0 : t, t" in made["text"]
    assert made["own"] == [[f"    %g{n}_0 = op %g{n}_arg0 : t"] for n in range(2)]
    assert made["alone"] == ["ok", "ok"]


@pytest.fixture(scope="module")
def folder(environments, tmp_path_factory):
    """The results of two calls, of which the second one goes on."""
    folder = tmp_path_factory.mktemp("fuzz")
    for _ in range(2):
        command = [sys.executable, "-c", SMALL_BLOCK, "--minutes", "10", "--cores", "1"]
        subprocess.run(
            [
                *command,
                "--results",
                folder,
                "--baselines",
                "onnxruntime",
                "--operators",
                "neg",
                "add",
                "cat",
                "slice*",
            ],
            cwd=ROOT,
            env=environment(),
            check=True,
        )
    return folder


def test_a_call_writes_rows_and_goes_on_where_it_stopped(folder):
    rows = list(csv.DictReader((folder / "fuzz.csv").open()))
    assert all(row["status"] for row in rows)
    assert "# Fuzzing" in (folder / "fuzz.md").read_text(encoding="utf-8")
    journals = [file.read_text(encoding="utf-8") for file in folder.glob("fuzz/*/0/journal.jsonl")]
    assert len(journals) == 2
    for text in journals:
        results = [json.loads(line)["result"] for line in text.splitlines()]
        tasks = [result["task"] for result in results if result.get("done")]
        firsts = [task["first"] for task in tasks if "first" in task and "origin" not in task]
        assert len(firsts) == len(set(firsts)) == 2
