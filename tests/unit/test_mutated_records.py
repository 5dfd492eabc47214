"""Mutated datasets, results and settings of others or of a damaged disk: the reader's own error comes out, which names the file.

A few dozen of each kind. 2,000 of each: python -m pytest tests/unit/test_mutated_records.py --hypothesis-profile=mutations
"""

import dataclasses
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.config import reading
from scripts.config.reading import ConfigError
from scripts.config.torchbench import TorchbenchFile
from scripts.results import imported, results_file
from scripts.results.results_file import BadRecords
from scripts.run import outputs
from scripts.stages import check_expectations
from scripts.supervise import outcome
from scripts.tools.operators.problems import sources
from scripts.tools.operators.problems.sources import SourceError
from scripts.tools.operators.report import backendbench
from tests import mutations
from tests.unit.test_operator_sources import EXCLUDED, ROW, TRACE
from tests.unit.test_torchbench import FILE

MOST_SECONDS = 10
DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]
ROWS = [json.loads(line) for line in (DATA / "rows/results.jsonl").read_text().splitlines()]
[MEASURED] = [row for row in ROWS if row["latency"] and row["experiment"]["runtime"] == "iree"][:1]
RECORD = {
    "format": 2,
    "name": "laptop",
    "system": "Linux",
    "cores": 8,
    "row": MEASURED,
    "fingerprint": "c0de",
    "returncode": 1,
    "log": "error: no",
    "verified": None,
    "timing": None,
}
ENDED = outcome.Outcome("error", "compile", "a/b/c", "legalization", "failed", log="log.txt")
USED = {"seconds": 1.0, "cpu_s": 1.0, "max_rss_mb": 5.0, "artifacts": {"a": {"bytes": 1, "crc32": "0"}}}  # fmt: skip
OPERATOR = {"experiment": {"runtime": "iree", "frontend": "a", "target": "b"}, "problem": {"name": "x"}}  # fmt: skip
KEPT = """\
model: bert
target: cpu
options: {seq_len: 8}
kept: true
why: faster
frontend: mlir
opt_level: O3
flags: [--x]
backend: llvm-cpu
arch: host
device: local-task
versions: {iree: 3.12}
latency_ms: 1.5
"""


def read_record(path: Path) -> None:
    try:
        imported.row(imported.load(path), str(path))
    except ValueError as error:  # callers put the name before it
        raise BadRecords(f"{path}: {error}") from error


def read_expectations(path: Path) -> None:
    check_expectations.parsed(path.read_bytes(), str(path))


def lines(*values) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


# The name of a file, its content, its reader, and what that may raise. A value is changed as JSON, too.
READERS = {
    "trace": ("bert.txt", TRACE.encode(), sources.read_trace, (SourceError,)),
    "dataset": ("p.json", [ROW, EXCLUDED], sources.read_dataset, (SourceError,)),
    "dataset as lines": ("p.jsonl", lines(ROW, EXCLUDED), sources.read_dataset, (SourceError,)),
    "torchbench": ("t.yaml", FILE.encode(), TorchbenchFile.read, (ConfigError,)),
    "results": ("results.jsonl", lines(*ROWS), results_file.read, (BadRecords,)),
    "a result": ("results.jsonl", MEASURED, results_file.read, (BadRecords,)),
    "record": ("record.json", RECORD, read_record, (BadRecords,)),
    "operators": ("operators.jsonl", OPERATOR, backendbench.read, (BadRecords,)),
    "status": ("status.json", dataclasses.asdict(ENDED), outcome.read, (ValueError,)),
    "usage": ("usage.json", USED, outcome.read_usage, (ValueError,)),
    "kept result": ("cpu.yaml", KEPT.encode(), outputs.read, (ConfigError,)),
    "settings": ("s.yaml", (ROOT / "config.yaml").read_bytes(), reading.read, (ConfigError,)),
    "expectations": ("e.yaml", b"expect:\n  '*': [ok, error]\n  a/*: {status: ok, at_most: {compile_s: 5}}\n", read_expectations, (BadRecords,)),
}  # fmt: skip


@pytest.mark.parametrize("kind", READERS)
@given(st.randoms(use_true_random=False))
def test_a_mutated_file_is_refused_with_its_name(tmp_path_factory, kind, random):
    name, content, read, errors = READERS[kind]
    path = tmp_path_factory.mktemp("m") / name
    changed = (
        mutations.of_bytes(random, content)
        if isinstance(content, bytes)
        else mutations.json_bytes(random, content)
    )
    path.write_bytes(changed)
    began = time.monotonic()
    refused = mutations.refusal(read, path, *errors)
    assert refused is None or str(path) in str(refused)
    assert time.monotonic() - began < MOST_SECONDS
