"""`vmfbench bisect --script`: which release is the first bad one, and which end is none."""

from __future__ import annotations

import contextlib

import pytest

from scripts.tools.compare import bisect, bisection
from scripts.tools.compare.bisection import Candidate, CannotInstall, NoCandidates

SCRIPT = "#!/bin/sh\nset -ex\niree-compile --level=2 program.mlir\niree-run-module --input=1 --expected_output=nan\n"
RIGHT, WRONG, BLIND, NO_FLAG, NOT_COMPILED, NOT_INSTALLED = range(6)


@pytest.fixture
def bisected(tmp_path, monkeypatch, capsys):
    """A function that bisects releases that behave in such ways, and returns what is printed."""
    script = tmp_path / "cause/run.sh"
    script.parent.mkdir()
    script.write_text(SCRIPT, encoding="utf-8")
    (script.parent / "program.mlir").write_text("", encoding="utf-8")

    def run(*behaviour: int, newest_first: bool = False) -> str:
        releases = [Candidate(f"3.{n}.0", ()) for n in range(len(behaviour))]
        if newest_first:
            releases.reverse()
        monkeypatch.setattr(bisection, "releases_of_index", lambda *_: releases)

        def make_environment(candidate, folder):
            does = behaviour[releases.index(candidate)]
            if does == NOT_INSTALLED:
                raise CannotInstall("no wheel")
            compiler = {
                NO_FLAG: "echo 'iree-compile: Unknown command line argument --level' >&2; exit 1",
                NOT_COMPILED: "echo 'program.mlir:3:1: error: no lowering' >&2; exit 1",
            }
            # A wrong result is reported if it is compared with what is expected; not by a blind release.
            fails = "case \"$*\" in *expected*) echo '[FAILED] 0'; exit 1;; esac"
            runner = f"test -f module.vmfb || exit 1\necho 1xf32={'nan' if does == RIGHT else 0}\n{fails if does == WRONG else ''}"
            (folder / "bin").mkdir(parents=True)
            for name, text in (("iree-compile", "test -f program.mlir || exit 2\n" + compiler.get(does, "touch module.vmfb")), ("iree-run-module", runner)):  # fmt: skip
                tool = folder / "bin" / name
                tool.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
                tool.chmod(0o755)
            return folder / "bin/python", ""

        monkeypatch.setattr(bisection, "make_environment", make_environment)
        words = ["bisect", "--script", str(script), "--good", "3.0.0", "--bad", "3.9.0"]
        monkeypatch.setattr("sys.argv", words)
        with contextlib.suppress(SystemExit):  # what is wrong with an end
            bisect.main()
        return "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("behaviour", "answer"),
    [
        ((RIGHT, RIGHT, RIGHT, WRONG, WRONG), "3.3.0 is the first bad release; 3.2.0 is good"),
        ((RIGHT, BLIND, BLIND, WRONG), "3.1.0 is the first bad release; 3.0.0 is good"),
        ((RIGHT, NO_FLAG, NOT_COMPILED, WRONG), "3.3.0 is the first bad release; 3.0.0 is good; 3.1.0 cannot be judged; 3.2.0 cannot be judged"),
        ((RIGHT, NOT_COMPILED, NOT_COMPILED), "3.1.0 is the first bad release; 3.0.0 is good"),
        ((BLIND, RIGHT, WRONG), "--good 3.0.0 is bad, too: its results are those of --bad; give another release"),
        ((WRONG, WRONG), "--good 3.0.0 is bad, too: iree-run-module fails: [FAILED] 0"),
        ((RIGHT, RIGHT), "--bad 3.1.0 is ok; expected that a tool fails"),
        ((NOT_INSTALLED, WRONG), "--good 3.0.0 cannot be judged: no wheel; give another release"),
    ],
)  # fmt: skip
def test_the_first_bad_release_or_what_is_wrong_with_the_ends(bisected, behaviour, answer):
    assert answer in bisected(*behaviour)


def test_an_improvement_begins_with_a_good_release_and_an_unknown_flag_is_named(bisected):
    printed = bisected(RIGHT, NO_FLAG, WRONG, newest_first=True)
    assert "3.2.0 is the first good release; 3.0.0 is bad" in printed
    assert "3.1.0: cannot be judged: it does not know a flag: iree-compile: Unknown command line argument --level" in printed  # fmt: skip


@pytest.mark.parametrize("words", [["--script", "nowhere.sh"], ["--script", __file__, "--if", "slower"]])  # fmt: skip
def test_a_script_that_is_not_there_and_a_question_about_cells_are_refused(words, monkeypatch, capsys):  # fmt: skip
    monkeypatch.setattr("sys.argv", ["bisect", *words, "--good", "3.0.0", "--bad", "3.1.0"])
    with pytest.raises((SystemExit, NoCandidates)):
        bisect.main()
    assert words[-1] in "".join(capsys.readouterr())
