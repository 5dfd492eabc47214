"""reduction: few operations that show the same failure, whatever the failure needs."""

import re
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.iree.tools import Compiled, Compiler
from scripts.tools.reproduce import reduce_program
from scripts.tools.reproduce.reduce_program import Search

LATER = 1e9


def chain(size: int):
    """The neighbours of each operation in a program where each uses the one before it."""
    return lambda one: {other for other in (one - 1, one + 1) if 0 <= other < size}


def reduced(size, needed, named=(), neighbours=None, deadline=LATER):
    """What is found if a failure needs some operations; and the search."""
    found = Search(lambda part: set(needed) <= part, time.monotonic() + deadline)
    kept = reduce_program.reduce(range(size), named, neighbours or chain(size), found)
    return kept, found


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_exactly_the_operations_that_a_failure_needs_are_left(data):
    size = data.draw(st.integers(1, 60))
    positions = st.integers(0, size - 1)
    needed = data.draw(st.sets(positions, min_size=1, max_size=6))
    named = data.draw(st.sets(positions, max_size=3))
    kept, found = reduced(size, needed, named)
    assert kept == needed
    assert all(found.fails(kept) != found.fails(kept - {one}) for one in kept)


def test_what_is_close_to_the_named_operation_is_tried_before_the_whole_program():
    kept, found = reduced(10_000, {5000, 5002}, named={5000})
    assert kept == {5000, 5002}
    assert max(map(len, found.known)) < 20


def test_a_failure_far_from_the_named_operation_is_found_in_the_whole_program():
    kept, _ = reduced(500, {3, 490}, named={250})
    assert kept == {3, 490}


def test_a_failure_that_the_parts_do_not_show_is_said_to_be_none():
    found = Search(lambda part: False, time.monotonic() + LATER)
    assert reduce_program.reduce(range(9), {4}, chain(9), found) is None


def test_at_the_time_limit_the_smallest_part_so_far_is_kept():
    kept, found = reduced(100, {50}, named={50}, deadline=-1)
    assert kept is None
    assert found.is_over
    assert found.tests == 0


def test_no_part_is_tested_twice():
    tested = []

    def fails(part):
        tested.append(part)
        return {2, 17} <= part

    reduce_program.reduce(range(40), (), chain(40), Search(fails, time.monotonic() + LATER))
    assert len(tested) == len(set(tested))


def test_results_that_are_not_needed_are_left_out():
    assert reduce_program.fewer("abcde", lambda some: {"b", "d"} <= set(some)) == ["b", "d"]
    assert reduce_program.fewer("abc", lambda some: True) == ["c"]


def test_the_lines_that_a_compiler_names_are_those_of_the_program():
    log = "results/x/program.mlir:227:10: error: no\nprogram.mlir:104:3: note: called from\n  at f.cpp:12:3: x\n"
    assert reduce_program.lines(log) == {227, 104}


PROGRAM = """
func.func @main(%arg0: tensor<1x64x56x56xf32>, %x56: !torch.vtensor<[56,2],f32>) -> tensor<64xf32> {
  %0 = stablehlo.slice %arg0 [0:1, 0:64] : tensor<1x64x56x56xf32>
  %c = torch.constant.int 56
"""


def test_a_size_is_made_smaller_in_all_types():
    small = reduce_program.shrink(
        PROGRAM, lambda text: "tensor<64xf32>" in text and "<1x64x" in text
    )
    assert "tensor<1x64x1x1xf32>" in small
    assert "!torch.vtensor<[1,1],f32>" in small
    assert "%x56" in small
    assert "torch.constant.int 56" in small
    assert reduce_program.sizes(small) == [64]


def test_a_number_that_stands_by_itself_is_replaced_where_the_types_alone_do_not_do():
    def is_valid_and_large(text: str) -> bool:
        channels = re.search(r"tensor<1x(\d+)x", text)
        return channels is not None and f"0:{channels[1]}]" in text and int(channels[1]) >= 16

    small = reduce_program.shrink(PROGRAM, is_valid_and_large)
    assert "[0:1, 0:16] : tensor<1x16x1x1xf32>" in small


def test_an_operation_in_between_is_bypassed_if_the_ones_around_it_must_be_connected():
    """Of 0 → 1 → 2 → 3, the failure needs 0 and 3, and that 3 uses what 0 computes."""

    def stand_in(place):
        return (place - 1, 0) if place else None

    def fails(kept, instead):
        source = (2, 0)
        while source[0] in instead:
            source = instead[source[0]]
        return {0, 3} <= kept and source[0] in kept

    kept, instead = reduce_program.bypassed({0, 1, 2, 3}, stand_in, fails)
    assert (kept, instead) == ({0, 3}, {2: (1, 0), 1: (0, 0)})


def test_an_error_after_the_first_one_is_known_too():
    log = "program.mlir:3:1: error: failed to bufferize op\nprogram.mlir:9:1: error: failed to distribute\n"
    first, further = reduce_program.diagnoses(Compiled(1, log))
    assert (first.reason, further.reason) == ("bufferization", "distribution")
    assert [one.status for one in reduce_program.diagnoses(Compiled(-11, log))] == ["crashed"]
    assert not [*reduce_program.diagnoses(Compiled(0, log))]


def test_a_compilation_ends_with_its_code_and_output_or_at_the_time_limit(tmp_path, monkeypatch):
    tool = tmp_path / "iree-compile"
    tool.write_text('#!/bin/sh\nread text < program.mlir\necho "$text" "$1" "$4" >&2\n[ "$text" = slow ] && exec sleep 60\nexit 3\n')  # fmt: skip
    tool.chmod(0o755)
    monkeypatch.setattr("scripts.iree.tools.tool", lambda name: str(tmp_path / name))
    compiler = Compiler(("--x",), tmp_path)
    assert compiler.run("fast\n", 60, tmp_path / "m") == Compiled(3, f"fast --x {tmp_path / 'm'}\n")
    assert compiler.run("slow\n", 0.1) == Compiled(None, "iree-compile took more than 0 s")


@given(st.integers(1, 40), st.data())
def test_the_first_operation_that_shows_a_difference_ends_the_shortest_beginning(size, data):
    first = data.draw(st.integers(0, size))
    found = Search(lambda part: first in part, time.monotonic() + LATER)
    assert reduce_program.first_failing(range(size), found) == (first if first < size else None)
