"""Commands whose output is read by a program that stops reading."""

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.cli import verbs
from scripts.core import commands
from scripts.core.commands import UNREAD
from tests.checkouts import DRIVER, ROOT, run_module


def unread(*words: str, stderr: bool = False) -> subprocess.CompletedProcess[str]:
    """Run Python while nobody reads its output; of `stderr`, what it says of errors neither."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, *words],
            stdout=write,
            stderr=write if stderr else subprocess.PIPE,
            cwd=ROOT,
            text=True,
            check=False,
        )
    finally:
        os.close(write)


def command(body: str) -> tuple[str, str]:
    """A command with this body, as words for Python."""
    lines = body.replace("\n", "\n    ")
    return "-c", (
        f"import sys\nfrom scripts.core import commands\ndef main():\n    {lines}\ncommands.run(main)"
    )


@pytest.mark.parametrize("verb", verbs.VERBS, ids=lambda verb: verb.name)
def test_every_verb_says_what_it_does_and_takes_help(verb):
    done = run_module(DRIVER, "scripts.cli", verb.name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: vmfbench {verb.name} ")


def test_a_word_that_is_no_verb_is_wrong_use_and_names_the_nearest():
    command = [sys.executable, "-m", "scripts.cli", "biscet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = "vmfbench: no verb 'biscet'; did you mean bisect? `vmfbench --help` lists them.\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    "words", [["--help"], ["failed", "--results", "/nowhere"]], ids=lambda words: words[0]
)
def test_a_command_whose_output_is_not_read_ends_without_a_traceback(words):
    done = unread("-m", "scripts.cli", *words)
    assert (done.returncode, done.stderr) == (UNREAD, "")


def test_a_reader_that_stops_after_a_line_gets_that_line():
    words = command("for number in range(10**6):\n    print(number)")
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout.readline() == "0\n"
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == UNREAD


def test_a_message_that_is_not_read_ends_in_the_same_way():
    assert unread(*command("print('x', file=sys.stderr)"), stderr=True).returncode == UNREAD


@pytest.mark.parametrize(("body", "code"), [("return None", 0), ("print('x', end='')\nreturn 3", 3), ("raise SystemExit(4)", 4), ("sys.exit('why')", 1)])  # fmt: skip
def test_the_exit_code_is_that_of_the_command(body, code):
    done = subprocess.run(
        [sys.executable, *command(body)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stdout == ("x" if "print" in body else "")
    assert done.stderr == ("why\n" if "why" in body else "")


def test_an_error_that_is_not_of_the_output_is_shown():
    words = [sys.executable, *command("raise BrokenPipeError('of another process')")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "BrokenPipeError: of another process" in done.stderr


@given(st.text() | st.sampled_from("=+-@\t\n'").flatmap(lambda first: st.text().map(first.__add__)))
def test_no_cell_of_a_csv_is_a_formula_and_its_text_is_read_again(text):
    cell = commands.csv_cell(text)
    assert commands.csv_text(cell) == commands.shown(text)
    assert cell[:1] not in ("=", "@", "\t", "\n")
    assert cell[:1] not in ("+", "-") or float(cell) is not None
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", cell)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd|' /c calc'!A1", "'=cmd|' /c calc'!A1"),
        ("--iree-opt-level=O3", "'--iree-opt-level=O3"),
        ("'=1", "''=1"),
        ("'quoted'", "'quoted'"),
        ("-1.5e-3", "-1.5e-3"),
        (-1.5, -1.5),
        (None, None),
        ("a\x1b[31m\r", "a\\x1b[31m\\r"),
    ],
)
def test_a_cell_of_a_csv(value, cell):
    assert commands.csv_cell(value) == cell
