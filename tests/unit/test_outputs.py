"""outputs: the next run and readers detect changes to the files that the aggregate wrote."""

import sys
from pathlib import Path

import pytest

from scripts.cli import export as export_records
from scripts.core import atomic
from scripts.results import results_file
from scripts.run import outputs
from scripts.stages import aggregate_results, check_expectations
from scripts.tools.report import failed, report_coverage

CSV, _, JSONL = outputs.FILES


@pytest.fixture
def aggregate(results, monkeypatch):
    """Aggregates a tree of results, as a run with the param `due` does."""
    results.write()

    def run(due: str) -> None:
        atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
        monkeypatch.setattr(sys, "argv", ["x", "--due", due])
        aggregate_results.main()

    return run


def cut(path: Path) -> None:
    """Remove the last row completely, so that the rest is well-formed."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


def test_check_compares_every_byte(aggregate, monkeypatch, capsys):
    aggregate("0")
    CSV.write_text(CSV.read_text().replace("conv", "conw", 1))
    monkeypatch.setattr(sys, "argv", ["x", "--files"])
    assert check_expectations.main() == 1
    said = capsys.readouterr().out
    assert (
        f"{CSV} is damaged: its {CSV.stat().st_size} bytes are not the ones that were made" in said
    )
    assert "; delete it, and the next run makes it again\n" in said


@pytest.mark.parametrize("path", [CSV, JSONL])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "bytes and was made with"),
        (lambda path: path.write_bytes(b""), "it has 0 bytes and was made with"),
    ],
)
def test_a_damaged_file_is_asked_for_again_once(aggregate, path, damage, said):
    assert outputs.due(outputs.FILES) == "0"
    aggregate("0")
    assert outputs.due(outputs.FILES) == "0"
    damage(path)
    assert said in outputs.difference(path)
    assert outputs.difference(path).startswith(f"{path} is damaged: ")
    due = outputs.due(outputs.FILES)
    assert due == "1"
    aggregate(due)
    assert outputs.due(outputs.FILES) == "1"
    assert not any(map(outputs.difference, outputs.FILES))


def test_without_a_record_files_are_taken_as_they_are(aggregate):
    aggregate("3")
    outputs.record_path(CSV).unlink()
    cut(CSV)
    assert (outputs.difference(CSV), outputs.due(outputs.FILES)) == ("", "0")


@pytest.mark.parametrize(
    "damaged",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: '{"due": "x"}',
        lambda text: '{"due": "3", "files": []}',
    ],
)
def test_a_damaged_record_is_written_again_with_the_files(aggregate, damaged):
    aggregate("3")
    kept = outputs.record_path(CSV)
    kept.write_text(damaged(kept.read_text()))
    due = outputs.due(outputs.FILES)
    assert due not in ("0", "3")
    assert outputs.due(outputs.FILES) == due
    aggregate(due)
    assert outputs.due(outputs.FILES) == due
    cut(CSV)
    assert outputs.difference(CSV)


def test_a_file_that_was_removed_is_missing_and_not_damaged(aggregate):
    aggregate("0")
    CSV.unlink()
    assert (outputs.difference(CSV), outputs.due(outputs.FILES)) == ("", "0")


READERS = [
    pytest.param(check_expectations, [], id="check"),
    pytest.param(report_coverage, ["--out-csv", "coverage.csv"], id="coverage"),
    pytest.param(export_records, ["--format", "google-benchmark"], id="export"),
]


def middle_of_a_line(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(("reader", "words"), READERS)
@pytest.mark.parametrize("damage", [cut, middle_of_a_line])
def test_readers_say_in_one_line_that_the_file_is_damaged(
    aggregate, monkeypatch, capsys, reader, words, damage
):
    aggregate("0")
    damage(JSONL)
    monkeypatch.setattr(sys, "argv", ["x", *words])
    with pytest.raises(SystemExit) as ended:
        reader.main()
    said = capsys.readouterr().err
    assert (ended.value.code > 0, said.count("\n")) == (True, 1)
    assert said.startswith("error: results/results.jsonl is damaged: it has ")
    assert "`vmfbench run` makes it again" in said


@pytest.mark.parametrize(("reader", "words"), READERS)
def test_a_copy_elsewhere_is_read_as_it_is_and_half_a_line_is_named(
    aggregate, monkeypatch, capsys, tmp_path, reader, words
):
    aggregate("0")
    copy = tmp_path / "kept.jsonl"
    copy.write_bytes(JSONL.read_bytes())
    cut(copy)
    assert len(results_file.read(copy)) == 5
    middle_of_a_line(copy)
    monkeypatch.setattr(sys, "argv", ["x", *words, "--results", str(copy)])
    with pytest.raises(SystemExit) as ended:
        reader.main()
    said = capsys.readouterr().err
    assert (ended.value.code > 0, said.count("\n")) == (True, 1)
    assert said.startswith(f"error: {copy}:5: not valid JSON")


def test_a_list_of_cells_that_cannot_be_read_is_one_line(aggregate, monkeypatch, capsys):
    aggregate("0")
    Path("results/logs/matrix.json").write_text('{"models": {')
    for reader in (failed, check_expectations):
        monkeypatch.setattr(sys, "argv", ["x"])
        with pytest.raises(SystemExit) as ended:
            reader.main()
        said = capsys.readouterr().err
        assert (ended.value.code > 0, said.count("\n")) == (True, 1)
        assert said.startswith("error: results/logs/matrix.json: not valid JSON")
