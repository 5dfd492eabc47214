"""docs/tutorial.md: its commands run in a copy of this checkout and print what the page shows, but for the numbers."""

import pytest

from benchmarks import tutorial
from tests.checkouts import ROOT, environment

pytestmark = pytest.mark.release


def test_the_commands_of_the_tutorial_print_what_it_shows(environments, tmp_path):
    tutorial.copy_checkout(tmp_path)
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    made = tutorial.rerun(page, tmp_path, environment())  # StepError: a command, or its output
    old, new = ([*tutorial.blocks(text)] for text in (page, made))
    assert [b.text for b in new if b.language != "text"] == [b.text for b in old if b.language != "text"]  # fmt: skip
    assert (tmp_path / "results/bundles/mine__torchmlir-torch__llvm-cpu/run.sh").exists()
