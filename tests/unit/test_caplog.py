"""caplog: head, tail and the diagnostics between, in a file of bounded size."""

import errno
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.supervise.watch import HEAD_BYTES, KEPT_DIAGNOSTICS, LINE_BYTES, TAIL_BYTES, CappedLog

BOUND = HEAD_BYTES + TAIL_BYTES + (KEPT_DIAGNOSTICS + 3) * (LINE_BYTES + 100)
MANY = b"".join(b"%d: nothing to see\n" % i for i in range(20_000))


@pytest.fixture
def logged(tmp_path: Path):
    """Feed pieces to a log and return what the file then holds."""

    def feed(*pieces: bytes) -> bytes:
        log = CappedLog(tmp_path / "log.txt")
        for piece in pieces:
            log.feed(piece)
        log.close()
        return log.path.read_bytes()

    return feed


lines = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from([b"", b"x.mlir:1:2: error: bad op", b"\n" * 500, MANY]),
        st.sampled_from([LINE_BYTES - 1, LINE_BYTES, LINE_BYTES + 1, 70_000]).map(lambda n: b"y" * n),
    ),
    max_size=8,
)  # fmt: skip


@given(lines, st.lists(st.integers(0, 500_000), max_size=6))
def test_the_file_does_not_depend_on_how_the_bytes_arrived(logged, lines, cuts):
    data = b"\n".join(lines)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert logged(*pieces) == logged(data)


@pytest.mark.parametrize("around", [-1, 0, 1])
def test_a_cut_at_the_longest_line_counts_the_same_bytes(logged, around):
    data = b"z" * (LINE_BYTES + 1) + b"tail\nnext"
    edge = LINE_BYTES + around
    assert logged(*(bytes([b]) for b in data)) == logged(data[:edge], data[edge:]) == logged(data)
    assert b"[... 5 bytes of this line left out]\nnext\n" in logged(data)


@pytest.mark.parametrize(
    "data",
    [
        b"w" * (8 << 20),
        (b"w" * 10_000 + b"\n") * 800,
        b"error: " + b"w" * (8 << 20),
        (b"a: error: " + b"w" * 9_000 + b"\n") * 900,
        MANY * 5,
        MANY + (b"w" * 10_000 + b"\n") * 800,
    ],
    ids=[
        "no newline",
        "long lines",
        "long diagnostic",
        "long diagnostics",
        "many",
        "short, then long",
    ],
)
def test_the_file_is_bounded_whatever_is_printed(logged, data):
    pieces = [data[i : i + 65536] for i in range(0, len(data), 65536)]
    assert len(logged(*pieces)) <= BOUND


def test_a_line_without_end_is_not_held_in_memory(logged):
    pieces = [b"w" * 65536] * 128
    tracemalloc.start()
    try:
        logged(*pieces)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=100), max_size=50).map(b"\n".join))
def test_a_short_log_is_kept_whole(logged, data):
    assert logged(data) == (data if data.endswith(b"\n") or not data else data + b"\n")


def test_a_log_that_just_fits_is_kept_whole(logged):
    line = b"v" * 63 + b"\n"
    data = line * ((HEAD_BYTES + TAIL_BYTES) // len(line))
    assert logged(data) == data
    assert b"[... 1 lines (64 bytes) left out ...]" in logged(data + line)


def test_a_capped_log_keeps_head_tail_and_diagnostics_in_between(logged):
    kept = logged(b"first\n" + MANY + b"a.mlir:3:4: error: lost op\n" + MANY + b"last\n")
    shown = kept.split(b"\n")
    assert (shown[0], shown[-2]) == (b"first", b"last")
    assert b"[left out, but a diagnostic] a.mlir:3:4: error: lost op" in shown
    assert kept.index(b" left out ...]") < kept.index(b"lost op") < kept.index(b"last\n")
    assert sum(b"nothing to see" in line for line in shown) < 10_000


def test_diagnostics_in_the_middle_are_counted_out_too(logged):
    kept = logged(MANY + b"a: error: again\n" * 10_000 + MANY)
    assert kept.count(b"error: again") == KEPT_DIAGNOSTICS


def test_what_the_supervisor_notes_stands_first(tmp_path):
    log = CappedLog(tmp_path / "made" / "log.txt")
    log.note("$ true")
    log.feed(b"printed")
    log.close()
    log.close()
    assert log.path.read_text() == "$ true\nprinted\n"


def test_what_cannot_be_written_is_lost_and_the_reason_is_known(tmp_path):
    log = CappedLog(tmp_path / "log.txt")
    log.feed(b"first\n")
    log._file.close()
    log._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 (the log closes it)
    log.feed(MANY)
    log.close()
    assert log.lost is not None
    assert log.lost.errno == errno.ENOSPC
    assert log.path.read_bytes() == b"first\n"


@pytest.mark.parametrize(
    ("pieces", "last"),
    [
        ([], ""),
        ([b"one\n  two  \n\n"], "two"),
        ([b"one\ntwo"], "two"),
        ([b"one\n", b"tw", b"o\n \n"], "two"),
        ([MANY, b"two\n"], "two"),
        ([b"y" * 9_000], "y" * LINE_BYTES),
    ],
)
def test_the_last_line_is_the_last_that_says_something(tmp_path, pieces, last):
    log = CappedLog(tmp_path / "log.txt")
    for piece in pieces:
        log.feed(piece)
    assert log.last_line == last
    log.insert("# here")
    log.close()
    assert log.path.read_text().endswith("\n# here\n" if last else "# here\n")
