"""Which growth of a process is a leak."""

import pytest

from scripts.measure.timing import worker
from scripts.measure.timing.worker import LEAST_BYTES, LEAST_SLICES, Held

MIB = 2**20


def left(*private_bytes: int, calls: int = 10) -> int | None:
    held = Held()
    for size in private_bytes:
        held.add(calls, size)
    return held.left_per_call()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([n * MIB for n in range(16)], MIB // 10),
        ([100 * MIB] * 16, 0),
        # What is made in the first calls, or once later, is no leak.
        ([n * 50 * MIB for n in range(4)] + [200 * MIB] * 12, 0),
        ([100 * MIB] * 9 + [200 * MIB] * 7, 0),
        # Pools that grow ever more slowly.
        ([100 * MIB + n * LEAST_BYTES for n in (0, 6, 8, 9, 10, 11, 11, *[12] * 5)], 0),
        # GPT-2 in eager mode: few calls, each of which takes long.
        ([n * MIB for n in (0, 15, 34, 43, 44)], None),
        ([n * MIB for n in range(LEAST_SLICES - 1)], None),
    ],
)
def test_only_memory_that_grows_throughout_is_left_behind(sizes, expected):
    found = left(*sizes)
    assert found == (pytest.approx(expected, rel=0.01) if expected else expected)


@pytest.mark.parametrize(
    ("processes", "expected"),
    [([500, 400, 600], 400), ([500, 0, 600], 0), ([500, None], None), ([], None), ([500, None, 500], 500)],
)  # fmt: skip
def test_a_program_leaks_if_each_of_its_processes_does(processes, expected):
    assert worker.leak_of_processes(processes) == expected
