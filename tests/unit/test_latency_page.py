"""latency_page: the same rows give the same results/latency.md."""

import random
from pathlib import Path

from scripts.results import latency_page, speedups
from scripts.results.results_table import Table
from scripts.results.row import Column
from tests.rows import RECORDS, real, record, steady

PAGE = RECORDS.with_name("latency.md")
EAGER, TORCH = Column("eager"), Column("torch", "cpu")


def test_the_page_of_real_rows_is_the_one_that_was_read_and_kept():
    """After a change, check the output of `pytest -k test_the_page_of_real_rows`, then store it."""
    assert latency_page.page(real()) == Path(PAGE).read_text(encoding="utf-8")


def test_the_same_rows_give_the_same_page_whatever_was_known_of_them_in_which_order():
    rows = [record(EAGER, steady(9)), record(TORCH, steady(5))]
    for one in rows:
        keys = list(one["versions"] | {"torch": "2.0", "iree": "3.0", "jax": "0.9"})
        random.Random(len(keys)).shuffle(keys)
        one["versions"] = dict.fromkeys(keys, "1.0")
    page = latency_page.page(Table.of_records(rows))
    for one in rows:
        one["versions"] = dict(reversed(one["versions"].items()))
    assert latency_page.page(Table.of_records(rows)) == page


def test_a_cell_is_a_latency_with_its_interval_or_a_reason_and_the_fastest_is_bold():
    rows = [
        record(EAGER, steady(9), model="a|b"),
        record(TORCH, steady(5), model="a|b", doubt="processes differ"),
        record(EAGER, reason="wrong-result", model="c"),
    ]
    lines = latency_page.page(Table.of_records(rows)).splitlines()
    assert "- a\\|b: torch on cpu: processes differ" in lines
    [measured] = [line for line in lines if line.startswith("| a\\|b | 9.00 (")]
    assert "| **†5.00 (" in measured
    assert "| c | wrong-result | – |" in lines


def test_without_intervals_the_page_says_so_and_marks_nothing():
    rows = [record(EAGER, [9.0, 9.0]), record(TORCH, [5.0, 5.0])]
    page = latency_page.page(Table.of_records(rows))
    assert "| m | 9.00 (?) | 5.00 (?) |" in page
    assert "There are no intervals (`?`), as no row was timed in 5 generations" in page
    assert "**" not in page


def test_a_page_of_a_busy_machine_says_so_once_and_has_no_ratio():
    rows = [record(EAGER, [5431.0], doubt="why"), record(TORCH, [27.3], doubt="why")]
    for row in rows:
        row["latency"] |= {"foreign": 0.95, "load": 25.4}
    speedups.add_speedups(rows)
    page = latency_page.page(Table.of_records(rows))
    assert "| m | 5,431 (?) | 27.3 (?) |" in page
    assert "\nThe ratios of all latencies are doubtful:\n\n- m: eager, torch on cpu: why\n" in page
    assert "†" not in page
    assert page.count("\nToo noisy: load 25; 1 of 1 ratios are not known to 50 %.\n") == 1
    assert "| torch on cpu | 1 of 1 | ? |" in page
    assert "199" not in page


def test_equal_doubts_are_one_line_that_names_the_rows():
    rows = [
        record(EAGER, steady(9), doubt="why"),
        record(TORCH, steady(5), doubt="why"),
        record(EAGER, steady(9), model="n", doubt="why"),
        record(TORCH, steady(5), model="n"),
        record(EAGER, steady(9), model="o", doubt="other"),
    ]
    page = latency_page.page(Table.of_records(rows))
    assert "\n- m: eager, torch on cpu; n: eager: why\n- o: eager: other\n" in page
    assert "\n†: the ratios of this latency are doubtful:\n" in page


def test_a_latency_with_too_wide_an_interval_is_unknown():
    wide = [15.2, 1466.0, 141_543.0, 1466.0, 1466.0, 1466.0]
    rows = [record(EAGER, wide, doubt="why"), record(TORCH, steady(5))]
    speedups.add_speedups(rows)
    table = Table.of_records(rows)
    page = latency_page.page(table)
    assert "| m | unknown | **5.00 (" in page or "| m | unknown | 5.00 (" in page
    assert "1,466" not in page
    assert "Too few or too unlike generations; 1 of 1 ratios are not known to 50 %." in page
    of = table.provenance
    assert (of.ratios, of.decided, of.unknown) == (1, 0, 1)


def test_rows_of_which_nothing_ran_still_give_a_page():
    page = latency_page.page(Table.of_records([record(TORCH)]))
    assert "0 of 1 rows measured" in page
    assert "Geometric" not in page


def test_a_row_whose_calls_leave_memory_behind_says_so():
    leaking = record(TORCH, steady(5))
    leaking["latency"]["leaked_bytes"] = 5000
    page = latency_page.page(Table.of_records([record(EAGER, steady(9)), leaking]))
    assert "## Leaks\n\n- m: torch on cpu: each call leaves 5,000 bytes\n" in page
    assert "Leaks" not in latency_page.page(Table.of_records([record(TORCH, steady(5))]))
