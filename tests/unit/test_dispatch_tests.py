"""dispatch_tests: the dispatches of a cell, timed in turns as two cells have compiled them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.measure.timing.ratios import SLOWER
from scripts.run.recorded import NoCase
from scripts.tools.reproduce import dispatch_tests, mismatch
from scripts.tools.reproduce.dispatch_tests import Side

LATER = 1e12


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """Two cells with three dispatches: the second cell takes `factor` times as long for each."""
    factors = {"matmul": 1.5, "tanh": 1.0}
    for name in ("matmul", "tanh", "convert"):
        (tmp_path / name).mkdir()
        mismatch.save(tmp_path / name, input=[np.zeros((2, 3), np.float32), np.zeros((), np.int64)])
    commands = []

    def take(members, rule):
        commands.append([member.command for member in members])
        name = members[0].log.name.removesuffix("-before.txt")
        own = (10.0, 10.01, 10.0, 10.02, 10.0)
        after = tuple(ms * factors[name] for ms in (10.0, 10.02, 10.01, 10.0, 10.0))
        values = {"before": MemberTiming(values_ms=own), "after": MemberTiming(values_ms=after)}
        part = PartTiming(5, tuple(range(5)), "before", (own, own))
        return GroupTiming(0.0, "{}", "", values, (part,))

    monkeypatch.setattr(dispatch_tests, "time_in_turns", take)
    request = SimpleNamespace(python="venv/bin/python")
    case = SimpleNamespace(
        root=tmp_path,
        cell="m/f/t",
        compilation=SimpleNamespace(request=request),
        device="local-task",
        threads=2,
    )
    other = SimpleNamespace(**vars(case) | {"cell": "m/f/t@old"})
    right, wrong = {"status": "right", "detail": ""}, {"status": "wrong", "detail": "by 2"}
    own = {name: right | {"functions": [name]} for name in ("matmul", "tanh", "convert")}
    others = {"matmul": right, "tanh": right, "convert": wrong}
    pair = tuple(Side(each, tests, tmp_path) for each, tests in ((case, own), (other, others)))
    return SimpleNamespace(folder=tmp_path, pair=pair, commands=commands)


def test_each_dispatch_is_timed_in_turns_and_decided(sides):
    timed, left = dispatch_tests.measure(sides.folder, sides.pair, LATER)
    assert [each.name for each in timed] == ["matmul", "tanh"]
    slower, same = (each.decision for each in timed)
    assert (slower.verdict, same.verdict) == (SLOWER, "same")
    assert slower.ratio == pytest.approx(1.5, rel=0.01)
    assert left == {"convert": "in the other cell it is wrong"}
    command = sides.commands[0][0]
    assert command[:3] == (f"{sides.folder}/venv/bin/python", "-m", "scripts.stages.time_module")
    assert f"--input=2x3xf32=@{sides.folder}/matmul-inputs/0.bin" in command
    assert f"--input=i64=@{sides.folder}/matmul-inputs/1.bin" in command


def test_what_the_time_does_not_reach_is_named(sides):
    timed, left = dispatch_tests.measure(sides.folder, sides.pair, 0.0)
    assert timed == []
    assert left["tanh"] == "the time was over (--budget)"


def test_the_table_has_the_slowest_first_and_what_is_wrong(sides):
    timed, left = dispatch_tests.measure(sides.folder, sides.pair, LATER)
    text = dispatch_tests.table(sides.pair, timed, left)
    assert "m/f/t → m/f/t@old: 3 right → 2 right, 1 wrong" in text
    assert text.index("`matmul`") < text.index("`tanh`")
    assert "wrong in m/f/t@old: `convert`: by 2" in text


def test_cells_of_different_programs_are_refused(tmp_path):
    programs = [tmp_path / name for name in ("one.mlir", "other.mlir")]
    for path in programs:
        path.write_text(path.name)
    pair = (SimpleNamespace(cell=path.name, files={"program.mlir": path}) for path in programs)
    with pytest.raises(NoCase, match="different programs"):
        dispatch_tests.compare(*pair, tmp_path / "out", 1.0, tmp_path)
