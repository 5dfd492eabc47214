"""screen: the results table on terminals of any width."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from scripts.results import screen, wording
from scripts.results.results_table import Table
from scripts.results.row import Column
from scripts.results.screen import Screen
from tests.rows import real, record, steady

EAGER, TORCH, HLO = Column("eager"), Column("torch", "cpu"), Column("stable-hlo", "cpu")


def shown(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(Screen(table))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 240])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(cell_len, shown(real(), width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120, 160])
def test_every_latency_with_its_interval_and_every_target_is_shown_at_the_usual_widths(width):
    table = real()
    text = shown(table, width)
    for row in table.rows:
        assert row.label in text
        for column in table.columns:
            if (entry := row.entries.get(column)) and entry.timing:
                assert wording.milliseconds(entry.timing.ms) in text
    intervals = sum(
        bool(e.timing and e.timing.ends_ms) for r in table.rows for e in r.entries.values()
    )
    assert text.count("±") == intervals + 2  # two more in the legend
    assert "no room" not in text


def test_a_wide_terminal_has_the_sizes_beside_the_models_and_a_narrow_one_leaves_them_out():
    assert "block, 2 layers" in shown(real(), 160)
    assert "block, 2 layers" not in shown(real(), 80)


def test_the_fastest_has_a_star_and_a_doubt_a_dagger():
    rows = [record(EAGER, steady(9)), record(TORCH, steady(5), doubt="why")]
    assert "9.00 " in (text := shown(Table.of_records(rows), 100))
    assert "*†5.00 " in text
    assert "*9.00" not in text


def test_a_failed_cell_shows_its_reason_which_breaks_at_hyphens_where_it_has_to():
    rows = [record(EAGER, steady(9)), record(TORCH, reason="shared-memory-limit")]
    rows += [record(Column(f"f{n}", "cpu"), steady(9)) for n in range(3)]
    assert "shared-memory-limit" in shown(Table.of_records(rows), 160)
    narrow = shown(Table.of_records(rows), 62)
    assert "shared-memory-limit" not in narrow
    assert all(part in narrow for part in ("shared-", "memory-", "limit"))


def test_a_terminal_too_narrow_for_all_columns_names_those_that_it_leaves_out():
    rows = [record(Column(f"frontend{n}", "cpu"), steady(9)) for n in range(20)]
    text = shown(Table.of_records(rows), 80)
    assert "no room for" in text
    assert "frontend19 on cpu" in " ".join(text.split())
    assert max(map(cell_len, text.splitlines())) <= 80


@pytest.mark.parametrize(("width", "count"), [(80, 40), (50, 20)])
def test_a_run_of_many_models_shows_forty_lines_of_them_and_says_where_the_rest_is(width, count):
    columns = [Column(f"front{n}", "cpu") for n in range(4)]
    rows = [record(c, steady(9), model=f"model-{n:04}") for n in range(300) for c in columns]
    text = shown(Table.of_records(rows), width)
    assert text.count("model-") == count
    assert f"{300 - count} more models: {screen.PAGE}" in text
    assert len(text.splitlines()) < 70


def test_without_intervals_nothing_is_marked_and_the_legend_says_why():
    rows = [record(EAGER, [9.0, 9.0]), record(TORCH, [5.0, 5.0])]
    text = shown(Table.of_records(rows), 100)
    assert "±" not in text
    assert "*" not in text
    assert "?: no interval, which needs 5 generations" in text
    assert "9.00 ?" in text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.000123, "0.000123"), (0.2301, "0.230"), (1.034, "1.03"), (17.84, "17.8"), (99.98, "100"), (173.4, "173"),
     (23696.5, "23,696")],
)  # fmt: skip
def test_a_latency_has_three_digits_or_all_before_the_point(ms, text):
    assert wording.milliseconds(ms) == text


def test_latencies_with_and_without_an_interval_stand_under_each_other():
    rows = [
        *(record(c, steady(9), model="a") for c in (EAGER, TORCH)),
        record(EAGER, steady(9), model="b"),
        record(TORCH, [123.0, 123.0], model="b", group="another"),
    ]
    lines = shown(Table.of_records(rows), 100).splitlines()
    a, b = (next(line for line in lines if line.startswith(f"{name} ")) for name in "ab")
    assert a.rindex("9.00") + len("9.00") == b.rindex("123") + len("123")


def test_a_name_is_shown_as_it_is_whatever_it_looks_like():
    rows = [record(c, steady(9), model="[bold]m[/x]") for c in (EAGER, Column("[red]", "cpu"))]
    text = shown(Table.of_records(rows), 100)
    assert text.count("[red]") == 2  # also in the geometric means
    assert "[bold]m[/x]" in text


def test_the_head_counts_rows_and_decided_ratios_and_names_the_machine_and_the_versions():
    text = " ".join(shown(real(), 160).split())
    assert "22 of 38 rows measured and verified; 32 of 32 ratios decided" in text
    assert "cpu: AMD EPYC, 2 threads" in text
    assert "IREE 3.13.0" in text
