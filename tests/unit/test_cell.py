"""cell: names of cells are printed and parsed in one place, and an axis is declared in one."""

import argparse
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scripts.config import cell
from scripts.config.cell import Cell, EntryName, Kind, of_axes
from scripts.config.choices import TESTS
from scripts.core import commands

# What the configuration's schema and the suites let a name be.
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]*", fullmatch=True)
VARIED = st.one_of(NAMES, st.builds("{}@{}".format, NAMES, NAMES))
OF_TOOLCHAINS = ("env", "frontend", "target")


@st.composite
def cells(draw, kind: Kind) -> Cell:
    """Any cell of a kind."""
    values = {
        axis: draw(
            st.sampled_from(TESTS) if axis == "test" else VARIED if axis in OF_TOOLCHAINS else NAMES
        )
        for axis in cell.AXES[kind]
    }
    return Cell.of_kind(kind, **values)


@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        (Kind.ENV, {"env": "torch-mlir"}, "torch-mlir"),
        (Kind.DEVICE, {"device": "cpu"}, "cpu"),
        (Kind.MODEL, {"model": "gpt2-prefill"}, "gpt2-prefill"),
        (Kind.PROGRAM, {"model": "m", "frontend": "torchmlir-torch"}, "m/torchmlir-torch"),
        (Kind.IREE, {"model": "m.v2", "frontend": "f", "target": "llvm-cpu"}, "m.v2/f/llvm-cpu"),
        (Kind.IREE_DUMP, {"model": "m", "frontend": "f", "target": "t"}, "m/iree/f/t"),
        (Kind.IREE, {"model": "m", "frontend": "f", "target": "t@iree-3.12"}, "m/f/t@iree-3.12"),
        (Kind.PROGRAM, {"model": "m", "frontend": "f@nightly"}, "m/f@nightly"),
        (Kind.ENV, {"env": "iree@iree-3.12"}, "iree@iree-3.12"),
        (Kind.BASELINE, {"model": "m", "baseline": "eager", "test": "train"}, "m/eager/train"),
    ],
)
def test_the_names_of_cells_are_these(kind, values, name):
    assert str(Cell.of_kind(kind, **values)) == name
    assert Cell.parse(name, kind) == Cell.of_kind(kind, **values)
    assert cell.PATTERNS[kind].format(**values) == name


@pytest.mark.parametrize("kind", Kind)
@given(data=st.data())
def test_a_name_is_parsed_to_the_cell_that_it_is_of(kind, data):
    one = data.draw(cells(kind))
    assert Cell.parse(str(one), kind) == one
    assert Cell.of_kind(kind, **one.by_axis()) == one


@given(data=st.data())
def test_cells_of_one_kind_with_the_same_name_are_the_same(data):
    kind = data.draw(st.sampled_from(Kind))
    one, other = data.draw(cells(kind)), data.draw(cells(kind))
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize("kinds", [(Kind.IREE_DUMP, Kind.BASELINE), (Kind.ENV,), (Kind.PROGRAM,)])
@given(text=st.text(max_size=30))
def test_any_text_is_the_name_of_one_cell_or_is_refused_with_what_was_expected(kinds, text):
    try:
        one = Cell.parse(text, *kinds)
    except ValueError as error:
        problem = str(error)
    else:
        assert str(one) == text
        return
    assert all(expected in problem for expected in [repr(text), *map(cell.PATTERNS.get, kinds)])


@pytest.mark.parametrize(
    "text",
    [
        "m/f",
        "m/f/t/u",
        "m/eager/evil",
        "m//eval",
        "m@x/eager/eval",
        "m/eager@x/eval",
        "/f/t",
        "m/f/t\n",
    ],
)
def test_the_name_of_another_kind_of_cell_is_refused(text):
    with pytest.raises(ValueError, match="expected \\{model\\}/\\{baseline\\}/\\{test\\}"):
        Cell.parse(text, Kind.BASELINE)


@pytest.mark.parametrize("kind", Kind)
@given(data=st.data())
def test_the_constraints_of_wildcards_take_a_name_apart_as_the_parser_does(kind, data):
    """As Snakemake does it: each wildcard of a pattern is a group with its constraint."""
    one = data.draw(cells(kind))
    limits = cell.CONSTRAINTS
    pattern = re.sub(r"\{(\w+)\}", lambda w: f"(?P<{w[1]}>{limits[w[1]]})", cell.PATTERNS[kind])
    found = re.fullmatch(pattern, str(one))
    assert found
    assert Cell.of_kind(kind, **found.groupdict()) == one


def test_a_cell_without_one_of_its_axes_is_refused():
    with pytest.raises(ValueError, match=r"kind iree needs a 'target', found \{'model': 'm'"):
        Cell.of_kind(Kind.IREE, model="m", frontend="f")
    with pytest.raises(ValueError, match="a cell of kind baseline is of no frontend"):
        Cell.of_kind(Kind.BASELINE, model="m", baseline="b", test="eval").to(Kind.IREE)


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "sizes": st.from_regex(r"[1-9][0-9]*(-[1-9][0-9]*)?", fullmatch=True),
        "test": st.sampled_from(TESTS),
        "dynamic": st.booleans(),
        "threads": st.integers(1, 4096),
        "toolchain": NAMES,
    },
)


@given(NAMES, PARTS)
def test_a_name_of_an_entry_is_read_to_the_parts_of_which_it_is_made(entry, parts):
    assume(EntryName.read(entry) == EntryName(entry))  # the configuration allows no other ones
    name = EntryName(entry, **parts)
    assert EntryName.read(str(name)) == name
    assert name.without(*parts) == EntryName(entry)


@given(st.text(max_size=30))
def test_any_text_is_the_name_of_an_entry(text):
    assert str(EntryName.read(text)) == text.removesuffix("@pinned")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llvm-cpu", EntryName("llvm-cpu")),
        ("bert~16-8", EntryName("bert", sizes="16-8")),
        ("cpu+16-threads@iree-3.12", EntryName("cpu", threads=16, toolchain="iree-3.12")),
        ("mlir+train+dynamic@new", EntryName("mlir", "", "train", True, None, "new")),
        ("inductor+dynamic+2-threads", EntryName("inductor", dynamic=True, threads=2)),
        ("cpu+2-threadsafe", EntryName("cpu+2-threadsafe")),
        ("cpu+0-threads", EntryName("cpu+0-threads")),
        ("bert*~*", EntryName("bert*", sizes="*")),
    ],
)
def test_the_parts_of_a_name_are_these(text, name):
    assert EntryName.read(text) == name
    assert str(name) == text


def test_test_threads_and_toolchain_are_axes_that_are_parts_of_names():
    one = of_axes(model="m", frontend="f+train@new", target="t+2-threads@old")
    assert (one.test, one.threads, one.toolchain) == ("train", 2, "old")
    assert str(one.to(Kind.MODULE)) == "m/f+train@new/t@old"
    assert (one.to(Kind.MODULE).threads, one.to(Kind.PROGRAM).toolchain) == (None, "new")
    other = of_axes(model="m", baseline="eager+4-threads", test="eval")
    assert (other.test, other.threads, other.toolchain) == ("eval", 4, "pinned")
    assert of_axes(env="iree@old").toolchain == "old"
    assert of_axes(model="m", device="cpu+3-threads", test="train").threads == 3
    assert str(one.without("toolchain", "threads")) == "m/f+train/t"


@pytest.mark.parametrize("kind", Kind)
@given(data=st.data())
def test_a_job_is_of_the_cell_that_its_wildcards_name(kind, data):
    one = data.draw(cells(kind))
    assert cell.of_wildcards(one.by_axis()).by_axis() == one.by_axis()


def test_a_cell_stands_on_those_of_the_stages_before_and_its_dumps_are_of_its_row():
    one = Cell.of_kind(Kind.IREE, model="m", frontend="f", target="t")
    assert [str(one.to(kind)) for kind in (Kind.MODEL, Kind.PROGRAM)] == ["m", "m/f"]
    assert str(one.to(Kind.IREE_DUMP)) == "m/iree/f/t"
    assert one.to(Kind.IREE_DUMP).row == one


@pytest.mark.parametrize(
    ("globs", "chosen"),
    [
        ([], "abc"),
        (["m/*"], "ab"),
        (["*/t"], "a"),
        (["*/t", "n/*"], "ac"),
        (["!m/*"], "c"),
        (["m/*", "!*/eval"], "a"),
        (["zz"], ""),
    ],
)
def test_the_option_of_the_commands_selects_by_globs_of_names(globs, chosen):
    parser = argparse.ArgumentParser()
    commands.add_cell_option(parser)
    found = parser.parse_args([word for glob in globs for word in ("--cell", glob)]).cell
    named = {"a": "m/f/t", "b": "m/eager/eval", "c": "n/eager/eval"}
    assert "".join(key for key, name in named.items() if cell.selects(found, name)) == chosen
