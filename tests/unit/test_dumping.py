"""dumping: the files of a dump are listed in its artifact."""

import pytest

from scripts.core import exits
from scripts.tools.profile.dumping import clear, listing


@pytest.fixture
def dumped(tmp_path):
    """A folder with files of the bytes given, by path."""

    def write(**files: int):
        for name, size in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)
        return tmp_path

    return write


def test_files_of_every_repetition_and_the_tables_of_all_are_listed_with_their_bytes(dumped):
    files = {"profile.txt": 7, "0/ir.txt": 3, "0/phases/1.input.mlir": 5, "12/trace.json": 0}
    assert listing(dumped(**files)) == files


def test_the_list_is_in_the_order_of_the_paths(dumped):
    found = listing(dumped(**{"1/b": 1, "0/z": 1, "1/a/c": 1, "profile.txt": 1}))
    assert list(found) == ["0/z", "1/a/c", "1/b", "profile.txt"]


@pytest.mark.parametrize(
    "other", ["status.json", "log.txt", "files.json", ".scratch/0/x", "dump-a1/ir", "old/0/ir.txt"]
)
def test_what_the_stage_itself_keeps_there_is_no_dump(dumped, other):
    assert listing(dumped(**{"0/ir.txt": 3, other: 2})) == {"0/ir.txt": 3}


def test_a_dump_of_nothing_is_unsupported_and_says_why(dumped, capsys):
    folder = dumped(**{"log.txt": 9})
    (folder / "0").mkdir()
    with pytest.raises(SystemExit) as ended:
        listing(folder)
    assert ended.value.code == exits.UNSUPPORTED
    assert capsys.readouterr().err.startswith("error: none of the kinds of dump that are asked for")


def test_what_an_earlier_dump_left_is_cleared_and_nothing_else(dumped):
    folder = dumped(**{"0/ir.txt": 1, "7/ir.txt": 1, "profile.txt": 1, "log.txt": 1, "old/x": 1})
    clear(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "old"]
