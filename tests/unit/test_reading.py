"""reading: a mistake in a configuration file is an error that names the file and the line."""

import math
import re

import pytest

from scripts.config import reading
from scripts.config.reading import ConfigError


@pytest.fixture
def read(tmp_path):
    """A function that reads a text as the file a.yaml."""

    def read_text(text: str) -> dict:
        file = tmp_path / "a.yaml"
        file.write_text(text, encoding="utf-8")
        return reading.read(file)

    return read_text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", ["line 3: found the key a again, it is in line 1 already"]),
        ("a: {b: 1, b: 1}\n", ["line 1: found the key a.b again, it is in line 1 already"]),
        (
            "targets:\n  x: {}\n  y: {}\n  'x': {}\ntargets: {}\n",
            ["line 4: found the key targets.x again, it is in line 2", "line 5: found the key targets again"],
        ),
        ("a:\n- {b: 1}\n- c: 1\n  c: 2\n", ["line 4: found the key a.1.c again"]),
        ("a: &x {b: 1, b: 2}\nc: *x\n", ["line 1: found the key a.b again"]),
        ('{"a": 1,\n "a": 2}', ["line 2: found the key a again, it is in line 1"]),
    ],
)  # fmt: skip
def test_a_key_that_stands_twice_is_refused_with_both_lines(read, text, said):
    with pytest.raises(ConfigError) as problem:
        read(text)
    lines = str(problem.value).splitlines()
    assert len(lines) == len(said)
    for line, wanted in zip(lines, said, strict=True):
        assert "a.yaml: " + wanted in line


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: 1}\nc: {b: 1}\n",
        "a: &x {b: 1}\nc: {<<: *x, b: 2}\n",
        "1: a\n'1': b\n",
        "a: [b, b]\n",
    ],
)
def test_the_same_word_elsewhere_is_no_second_key(read, text):
    read(text)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "expected ',' or ']'"),
        ("a: 1\nb: c: d\n", 2, "mapping values are not allowed here"),
        ("a:\n\tb: 1\n", 2, "cannot start any token"),
        ("a: 1\n\nb: \x07\n", 3, "special characters are not allowed"),
        ("a: 1\n---\nb: 2\n", 2, "but found another document"),
        ("a: *nowhere\n", 1, "found undefined alias"),
        ("a: 1\nb: !!python/object:x.Y {}\n", 2, "could not determine a constructor"),
        ("a: 1\nb: !!int x\n", 2, "does not fit its type"),
        ("a: 1\nb: !!timestamp x\n", 2, "does not fit its type"),
        (f"a: 1\nb: {'9' * 5000}\n", 2, "does not fit its type: Exceeds the limit"),
        ("a: 1\nb: &b {c: [*b]}\n", 2, "found an alias inside of what it stands for"),
        ("a: &a\n  b: *a\n", 2, "found an alias inside of what it stands for"),
        ("a: 1\nb: " + "[" * 100_000, 2, "found more than 100 brackets inside each other"),
        ("a: 1\nb:\n" + "- " * 200 + "c", 3, "nested more than 100 deep"),
        ("a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)), 19, "found 1,048,575 values"),
        ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200)), 100, "expected at most 1,000,000, 100 deep"),
    ],
)  # fmt: skip
def test_what_is_no_yaml_is_refused_with_its_line(read, text, line, said):
    with pytest.raises(ConfigError) as problem:
        read(text)
    assert re.search(rf"a\.yaml, line {line}\b.*{re.escape(said)}", str(problem.value))
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "found a list, expected `key: value` lines"),
        ("just words", "found a str, expected"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_file(read, text, said):
    with pytest.raises(ConfigError, match=re.escape(said)) as problem:
        read(text)
    assert "a.yaml: " in str(problem.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: "):
        reading.read(tmp_path / "none.yaml")
    for text, line in (("a: 1\nb: größe\n".encode("latin-1"), 2), ("a: 1\n".encode("utf-16"), 1)):
        (tmp_path / "bytes.yaml").write_bytes(text)
        with pytest.raises(ConfigError, match=rf"bytes\.yaml, line {line}: found the byte 0x.., which is no UTF-8; save the file as UTF-8"):  # fmt: skip
            reading.read(tmp_path / "bytes.yaml")


def test_an_empty_file_is_an_empty_mapping(read):
    assert read("") == read("# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-2", 0.01), ("1E3", 1000.0), ("-2.5e-3", -0.0025), ("+1e2", 100.0), (".5", 0.5), ("3.", 3.0),
        ("12", 12), ("1.5", 1.5), ("true", True), ("~", None), ("'1e-2'", "1e-2"), ("e5", "e5"),
        ("1e", "1e"), ("1.2.3", "1.2.3"), ("1-2", "1-2"), (".inf", math.inf), ("", None),
        ("010", 10), ("-08", -8), ("0o17", 15), ("0xff", 255), ("1:30", "1:30"), ("1_000", "1_000"), ("0b11", "0b11"),
        ("yes", "yes"), ("No", "No"), ("on", "on"), ("off", "off"), ("True", True), ("FALSE", False),
        ("2024-01-01", "2024-01-01"), ("2024-13-01", "2024-13-01"), ("=", "="),
    ],
)  # fmt: skip
def test_numbers_are_those_of_yaml_1_2(read, text, value):
    found = read(f"a: {text}\n")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("text", "value"), [("2", 2), ("1e-2", 0.01), ("false", False), ("", None), ("a: b", "a: b")])  # fmt: skip
def test_a_scalar_alone_is_what_it_would_be_in_a_file(text, value):
    found = reading.scalar(text)
    assert (found, type(found)) == (value, type(value))
