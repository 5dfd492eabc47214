"""benchmarks.tutorial: which parts of an output a page shows, and what is taken from a new one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import tutorial
from benchmarks.tutorial import StepError, excerpt, rerun

PRINTED = "first\n[1/2] compile mine ok 3.2 s\nLatency in ms per call\n\nmodel  eager\n─────\nmine    *5.1 ± 3 %\n\nresults: here\n"
NAMES = st.text("abc", min_size=1, max_size=5)


def test_an_excerpt_begins_and_ends_where_the_page_does_with_new_numbers():
    shown = "…\nLatency in ms per call\nmodel\nmine  †unknown\n…\nresults: here\n"
    assert excerpt(PRINTED, shown) == (
        "…\nLatency in ms per call\n\nmodel  eager\n─────\nmine    *5.1 ± 3 %\n…\nresults: here\n"
    )


def test_a_line_may_go_on_in_another_way():
    assert excerpt(
        "now\nmine: ms per call: 3.4, limit 2\n", "…\nmine: ms per call: 5; load 3\n"
    ) == ("…\nmine: ms per call: 3.4, limit 2\n")


def test_a_page_that_shows_all_shows_all_again():
    assert excerpt(PRINTED, PRINTED) == PRINTED
    assert excerpt(PRINTED, "first\n") == PRINTED


@given(st.lists(st.tuples(NAMES, st.integers(0, 999)), min_size=1), st.integers(0, 999))
def test_any_excerpt_of_an_output_is_found_in_it_again_with_other_numbers(lines, number):
    printed = "".join(f"{at}{name} {value}\n" for at, (name, value) in enumerate(lines))
    other = "".join(f"{at}{name} {number}\n" for at, (name, _) in enumerate(lines))
    assert excerpt(printed, other) == printed
    assert excerpt(printed, f"…\n{other}") == f"…\n{printed}"


def test_a_line_that_is_not_there_is_named_with_the_output():
    with pytest.raises(
        StepError, match=r"no line that begins like 'Latency of a call'(.|\n)*results: here"
    ):
        excerpt(PRINTED, "…\nLatency of a call\n")


def test_steps_are_run_in_order_with_the_files_of_the_page(tmp_path):
    page = (
        "# Page\n\n```python\n# mine.py\nprint(7)\n```\n\n```sh\npython mine.py\n```\n\n```text\n3\n```\n\n"
        "```sh\nexit 5\n```\n\nNo output, so not run.\n\n```sh\necho then; cat mine.py\n```\n\n```text\n…\nprint(1)\n```\nend\n"
    )
    made = rerun(page, tmp_path)
    assert made == page.replace("\n3\n", "\n7\n").replace("print(1)", "print(7)")


def test_a_command_that_fails_is_an_error_with_what_it_said(tmp_path):
    page = "```sh\necho why >&2; false\n```\n\n```text\nwhy\n```\n"
    with pytest.raises(StepError, match=r"exit code 1 of\necho why(.|\n)*\nwhy"):
        rerun(page, tmp_path)


def test_the_readme_and_the_tutorial_have_steps():
    for name in tutorial.PAGES:
        text = (tutorial.checkout.ROOT / name).read_text(encoding="utf-8")
        shown = [block.language for block in tutorial.blocks(text)]
        assert ("sh", "text") in itertools.pairwise(shown)
