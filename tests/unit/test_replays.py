"""Dispatches of one build in the recorded run of the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.core.requests import StageRequest
from scripts.results.results_file import cell_of
from scripts.run.recorded import Recorded
from scripts.tools.compare import formats, remeasuring
from scripts.tools.compare.code_changes import CHANGED, CodeChange, DispatchChange
from scripts.tools.compare.pairs import Pair
from scripts.tools.compare.remeasuring import NotMeasured
from tests.report_records import records

BERT = "bert/torchmlir-torch/llvm-cpu"
NAMES = ("d_0_matmul", "d_1_conv", "d_2_add")
MS = {"before": (4.0, 2.0, 1.0), "after": (8.0, 2.0, 1.0)}
"""Milliseconds of each dispatch in both builds."""
WORKGROUPS = {"before": (32, 8, 4), "after": (32, 8, 16)}


class Tools:
    """Stands in for IREE's tools: an executable is its name and its milliseconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put_in: list[list[str]] = []

    def record(self, name, row, folder, environment, scratch) -> Path:
        path = self.folder / f"{name}.ireereplay"
        path.write_text(
            "".join(f"{ms:<8}{own:<12}" for ms, own in zip(MS[name], NAMES, strict=True))
        )
        return path

    def run(self, command, folder) -> str:
        if command[0] == "iree-dump-replay":
            return "\n".join(map(json.dumps, self.dumped(Path(command[-1]).stem)))
        instead = [word.partition("=")[2] for word in command if "substitution" in word]
        self.put_in.append(instead)
        ms = list(MS["before"])
        for word in instead:
            number, _, path = word.partition("=")
            ms[int(number) - 4] = float(Path(path).read_text())
        out = next(word.partition("=")[2] for word in command if "_out=" in word)
        calls = int(next(word.partition("=")[2] for word in command if "repetitions" in word))
        noise = 1 + 0.001 * (len(self.put_in) % 5)
        rows = [
            {"name": "r", "run_name": "r", "run_type": "iteration", "repetition_index": n, "real_time": sum(ms) * noise, "time_unit": "ms"}
            for n in range(calls)
        ]  # fmt: skip
        Path(out).write_text(json.dumps({"benchmarks": rows}))
        return ""

    def dumped(self, build):
        for n, name in enumerate(NAMES):
            at = 20 * n
            about = {"offset": at + 8, "length": len(name)}
            payload = {"data_range": {"offset": at, "length": 8}, "metadata_range": about, "metadata_function_name_storage_length": len(name)}  # fmt: skip
            of = {"payload_type": "executable_prepare", "related_object_id": 4 + n}
            yield of | {"payload": payload}
            count = [WORKGROUPS[build][n], 1, 1]
            yield {"payload_type": "dispatch", "payload": {"executable_id": 4 + n, "function_ordinal": 0, "workgroup_count": count}}  # fmt: skip


@pytest.fixture
def tools(monkeypatch, tmp_path):
    made = Tools(tmp_path)
    monkeypatch.setattr(remeasuring, "_record", made.record)
    flags = ["--module=a.vmfb", "--device=local-task", "--input=1xf32=1"]
    monkeypatch.setattr(remeasuring, "_flags", lambda *_: flags)
    monkeypatch.setattr(remeasuring, "_run", made.run)
    monkeypatch.setattr(remeasuring, "_tool", lambda name, environment: name)
    compiled = Recorded(tmp_path, StageRequest("compile", "venv/bin/python", {}))
    monkeypatch.setattr(remeasuring, "recorded", lambda *_: compiled)
    monkeypatch.setattr(remeasuring, "REPLAY_S", 0.0)
    return made


@pytest.fixture
def code():
    changed = tuple(DispatchChange(CHANGED, name, (1, 2)) for name in NAMES)
    return CodeChange(BERT, changed=changed)


def pair(device="local-task") -> Pair:
    row = next(row for row in records() if str(cell_of(row)) == BERT)
    row["experiment"]["device_uri"] = device
    return Pair(BERT, row, row)


def test_a_slower_dispatch_makes_the_difference_alone(tools, code, tmp_path):
    replays = remeasuring.replay_executables(code, pair(), (tmp_path, tmp_path))
    found = {each.name: each for each in replays}
    slow, same = found["d_0_matmul"], found["d_1_conv"]
    assert slow.share == pytest.approx(4 / 7, rel=0.02)
    assert slow.low > 0.5
    for each in (same, found[remeasuring.CONTROL]):
        assert each.low < 0 < each.high
    assert found[remeasuring.ALL].share == pytest.approx(4 / 7, rel=0.02)
    assert found["d_2_add"].why == "it is called with other workgroups"
    assert not any("6=" in word for words in tools.put_in for word in words)
    *_, section = formats._code([CodeChange(code.cell, replays=replays)], False)
    shown = {name: share for _, name, share in section.rows}
    assert shown["d_0_matmul"].startswith(("+56.9", "+57"))


def test_other_devices_are_refused(tools, code, tmp_path):
    with pytest.raises(NotMeasured, match="on CPUs alone, not on cuda"):
        remeasuring.replay_executables(code, pair("cuda://0"), (tmp_path, tmp_path))
