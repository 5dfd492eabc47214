"""benchmarks.latency_table: the tables of default runs on docs/performance.md, and their picture."""

import pytest

from benchmarks.latency_table import draw, speedups, with_table

PAGE = "before\n<!-- table: AMD -->\n| old |\n<!-- end of table -->\nafter\n"
TABLE = """
| model | eager | inductor | torchmlir-torch | torchxla-stablehlo | vulkan-ada | cuda |
| --- | --: | --: | --: | --: | --- | --- |
| conv | 0.238 (0.235 to 0.241) | 0.276 (0.271 to 0.281) | 0.332 (0.327 to 0.337) | **0.119 (0.112 to 0.126)** | compiles | compiles |
| llama | 1,200 (1,100 to 1,300) | 600 (580 to 620) | 1,500 (1,400 to 1,600) | ? | compiles | by remedy |
| eager-only | **3.23 (3.11 to 3.35)** | unknown | capture | unknown | compiles | compiles |
"""


def test_a_table_takes_the_place_of_that_of_its_machine():
    made = with_table(PAGE, "AMD", "| new |\n")
    assert made == PAGE.replace("old", "new")


def test_the_table_of_another_machine_comes_after_it():
    made = with_table(PAGE, "Intel", "| new |\n")
    second = "\n<!-- table: Intel -->\n| new |\n<!-- end of table -->\n"
    assert made == PAGE.replace("after\n", f"{second}after\n")


def test_a_page_without_tables_is_an_error(capsys):
    with pytest.raises(SystemExit):
        with_table("# Performance\n", "AMD", "")
    assert "found none" in capsys.readouterr().err


def test_speedups_are_of_the_fastest_path_over_the_faster_baseline():
    assert speedups(TABLE) == pytest.approx({"conv": 0.238 / 0.119, "llama": 600 / 1500})


def test_the_picture_has_a_panel_per_machine_and_is_the_same_each_time(tmp_path):
    ratios = {"AMD": {"conv": 2.0, "gat": 0.75}, "Intel": {"conv": 0.5, "gat": 1.25}}
    draw(ratios, tmp_path / "images/a.svg")
    draw(ratios, tmp_path / "images/b.svg")
    text = (tmp_path / "images/a.svg").read_text()
    assert text == (tmp_path / "images/b.svg").read_text()
    assert [name for name in ("AMD", "Intel", "conv", "0.75", "1.25") if name not in text] == []
