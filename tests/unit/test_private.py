"""Secrets of the environment are in nothing that is written for others."""

from __future__ import annotations

import json
import os
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core import private

# Surrogates come from bytes that are no UTF-8, and NUL ends a value.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=6)
WORDS = st.sampled_from(["key", "apikey", "passphrase", "password", "pwd", "credential", "token", "secret", "auth", "dsn", "connection_string", "pat", "pass"])  # fmt: skip
NAMES = st.builds(lambda above, word, upper: (f"{above}_{word}").upper() if upper else f"{above}_{word}", st.sampled_from(["DB", "my", "AWS_S3"]), WORDS, st.booleans())  # fmt: skip


def masked(variables: dict[str, str], said: str) -> tuple[str, str]:
    """What is made of a text, and of a JSON value with it."""
    with mock.patch.dict(os.environ, variables, clear=True):
        private._replacing.cache_clear()
        try:
            return private.text(said), json.dumps(
                private.cleaned({"a": [said]}), ensure_ascii=False
            )
        finally:
            private._replacing.cache_clear()


@given(NAMES, TEXTS.filter(lambda value: value not in "a: before after ***"))
def test_a_secret_is_masked_by_the_name_of_its_variable(name, value):
    text, whole = masked({name: value}, f"before {value} after")
    assert value not in text
    assert json.dumps(value, ensure_ascii=False)[1:-1] not in whole


@given(NAMES, st.lists(st.text("abcdefXYZ0123456789+/=", min_size=8), min_size=2), st.sampled_from(["\n", "\r\n", " \n "]))  # fmt: skip
def test_each_line_of_a_secret_is_masked(name, lines, end):
    value = end.join(lines)
    for line in lines:
        text, whole = masked({name: value}, f"said: {line}!")
        assert (text, whole) == ("said: ***!", '{"a": ["said: ***!"]}')


@given(st.text("abcdefXYZ0123456789!$%*+~@", min_size=6))
def test_the_password_of_an_address_is_masked_alone_too(password):
    for variables in ({"HTTPS_PROXY": f"http://me:{password}@proxy.example:80"}, {"DATA": f"Server=x;Password={password};Port=1"}):  # fmt: skip
        text, whole = masked(variables, f"said {password} and https://me:{password}@b.example/x")
        assert (password in text, password in whole) == (False, False)
        assert text.endswith("b.example/x")


@pytest.mark.parametrize("name", ["APIKEY", "DB_PASSPHRASE", "apiKey", "SSHKEY", "DBPWD", "PGPASS_PASS", "SENTRY_DSN", "AZURE_CONNECTION_STRING", "ConnStr", "BASICAUTH", "OPENAI_KEY_2", "GH_PAT"])  # fmt: skip
def test_names_of_secrets(name):
    assert masked({name: "planted-value"}, "with planted-value")[0] == "with ***"


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "PATH", "KEYBOARD", "GIT_AUTHOR_NAME", "XAUTHORITY", "HOSTNAME"])  # fmt: skip
def test_names_of_others(name):
    assert masked({name: "planted-value"}, "with planted-value")[0] == "with planted-value"
