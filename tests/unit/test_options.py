"""Options of a command as fields of a dataclass: types, defaults, what is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.core import commands
from scripts.core.commands import option


@dataclass(frozen=True, kw_only=True)
class Options:
    part_size: int = 3
    settings: Mapping[str, Any] = option(factory=dict, help="JSON")
    level: str = option("low", choices=("low", "high"))
    ratio: float | None = None
    kinds: Sequence[str] = ("a",)
    files: Sequence[Path] = option((), type=Path, nargs="+")
    quick: bool = False
    out_file: Path


def test_fields_with_a_default_are_optional_and_have_it():
    found = commands.parse_options(Options, ["--out-file", "x"])
    assert found == Options(out_file=Path("x"))


def test_values_have_the_types_of_their_fields():
    words = '--part-size 5 --settings {"a":1} --ratio 0.5 --kinds ["b"] --files x y --quick'
    found = commands.parse_options(Options, [*words.split(), "--out-file=z", "--level=high"])
    assert found == Options(
        part_size=5,
        settings={"a": 1},
        level="high",
        ratio=0.5,
        kinds=["b"],
        files=[Path("x"), Path("y")],
        quick=True,
        out_file=Path("z"),
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: --out-file"),
        (["--out-file=x", "--level=middle"], "argument --level: invalid choice: 'middle'"),
        (["--out-file=x", "--part-size=big"], "argument --part-size: invalid int value: 'big'"),
        (["--out-file=x", "--kinds=b"], "argument --kinds: invalid"),
    ],
)
def test_wrong_words_are_refused_with_the_option(capsys, words, said):
    with pytest.raises(SystemExit) as stop:
        commands.parse_options(Options, words)
    assert stop.value.code == 2
    assert said in capsys.readouterr().err
