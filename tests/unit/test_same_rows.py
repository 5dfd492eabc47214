"""What a run writes of given outcomes stays the same while the code moves: latency.csv, latency.md and results.jsonl.

`VMFBENCH_UPDATE=1 python -m pytest tests/unit/test_same_rows.py` accepts the files as they are now. The commit that does
so says what has changed.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.core import atomic
from scripts.results import record
from scripts.stages import aggregate_results

DATA = Path(__file__).parent / "data/rows"
CSV, PAGE, JSONL = FILES = ("latency.csv", "latency.md", "results.jsonl")


@pytest.fixture
def written(results, ended, monkeypatch) -> Path:
    """The folder of the files of a run in which one program does not compile and another one computes wrong results."""
    does_not_compile = ended(
        "error", "compile", "conv/mlir/vulkan", "legalization", "failed to legalize 'x'"
    )
    is_wrong = ended(
        "error", "verify", "tiny/mlir/llvm-cpu", "wrong-result", "FAIL_ACCURACY: 'out'"
    )
    results.write(does_not_compile | is_wrong)
    atomic.write_json("matrix.json", results.matrix.to_json())
    monkeypatch.setattr(sys, "argv", ["x", "--matrix", "matrix.json", "--out", "."])
    monkeypatch.setattr(record, "VERSION", "0.1.0")  # a release changes no row
    aggregate_results.main()
    return Path.cwd()


def values(path: Path) -> Any:
    """The records of JSON lines, without the last digits, which depend on the libraries of the machine; the text of
    another file."""
    if path.name != JSONL:
        return path.read_text(encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        json.loads(line, parse_float=lambda text: float(f"{float(text):.9g}")) for line in lines
    ]


@pytest.mark.parametrize("name", FILES)
def test_every_value_of_every_row_is_what_it_was(written, name):
    if os.environ.get("VMFBENCH_UPDATE"):
        DATA.mkdir(parents=True, exist_ok=True)
        (DATA / name).write_bytes((written / name).read_bytes())
    assert values(written / name) == values(DATA / name)
