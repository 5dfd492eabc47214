"""Requests: decoded with the types of their fields, and refused with the name of the field."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.core import requests
from scripts.core.commands import option
from scripts.core.requests import StageRequest
from tests.checkouts import ROOT


@dataclass(frozen=True)
class Level:
    high: bool = False


@dataclass(frozen=True, kw_only=True)
class Model:
    name: str
    file: Path


@dataclass(frozen=True, kw_only=True)
class Work:
    model: Model
    level: Level = option(factory=Level, type=lambda text: Level(text == "high"))
    sizes: Sequence[Path] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    how: Mapping[str, Any] = option(factory=dict)
    share: float = 0.5
    test: str = option("eval", choices=("eval", "train"))
    number: int | None = None


LEAST = {"name": "m", "file": "m.py"}


def test_fields_have_the_types_that_are_declared_and_those_of_parts_are_beside_them():
    fields = {"level": "high", "sizes": ["a"], "pairs": [["x", 1]], "how": {"x": [1]}, "share": 1}
    assert requests.decode(Work, LEAST | fields) == Work(
        model=Model(name="m", file=Path("m.py")),
        level=Level(True),
        sizes=[Path("a")],
        pairs=(("x", 1),),
        how={"x": [1]},
        share=1.0,
    )
    assert requests.decode(Work, LEAST | {"number": None}).number is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file": 1}, "Model.file: 1 is no Path"),
        ({"sizes": "a"}, "Work.sizes: 'a' is no Sequence"),
        ({"sizes": [1]}, "Work.sizes: 1 is no Path"),
        ({"pairs": [["x"]]}, "Work.pairs: "),
        ({"share": True}, "Work.share: True is no float"),
        ({"number": "1"}, "Work.number: '1' is no int"),
        ({"test": "trian"}, "Work.test: 'trian' is not one of eval, train"),
        ({"hwo": {}}, "Work has no field hwo"),
    ],
)
def test_a_wrong_field_is_named(changes, said):
    with pytest.raises(ValueError, match=said):
        requests.decode(Work, LEAST | changes)


def test_a_missing_field_is_named():
    with pytest.raises(ValueError, match="Model needs the field file"):
        requests.decode(Work, {"name": "m"})


def test_what_is_written_is_read(tmp_path):
    request = StageRequest("stage", "python", {"a": 1}).replaced(b=Path("x"), c=[Path("y")])
    assert request.fields == {"a": 1, "b": "x", "c": ["y"]}
    request.write(tmp_path / "of")
    assert requests.read(tmp_path / "of") == request
    assert {*request.texts()} == {"x", "y"}
    (tmp_path / "of/request.json").write_text("{}")
    with pytest.raises(ValueError, match="not a request"):
        requests.read(tmp_path / "of")


def test_a_stage_says_what_is_wrong_with_its_request(tmp_path):
    fields = {"program": "p.mlir", "backend": "nothing"}
    request = StageRequest("scripts.stages.compile_iree", sys.executable, fields)
    request.write(tmp_path)
    done = subprocess.run(
        request.command(tmp_path), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "error[request]: " in done.stderr
    assert "CompileRequest.backend: 'nothing' is not one of" in done.stderr
