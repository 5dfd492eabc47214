"""submissions: a Slurm without accounting is found before anything is submitted, and nodes leave their marks."""

from types import SimpleNamespace

import pytest

from scripts.run.snakemake import apply


@pytest.fixture
def sacct(tmp_path, monkeypatch):
    """A function that installs a sacct."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(body: str) -> None:
        (tmp_path / "sacct").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "sacct").chmod(0o755)

    return install


def test_accounting_that_fails_where_it_is_used_is_quoted_with_what_to_do(sacct):
    sacct("echo 'Slurm accounting storage is disabled' >&2; exit 1")
    said = apply.accounting_problem(SimpleNamespace(status_command="sacct"))
    assert "exit code 1: Slurm accounting storage is disabled; " in said
    assert "slurm-status-command: squeue" in said
    for settings in ({"status_command": "squeue"}, {}):
        assert apply.accounting_problem(SimpleNamespace(**settings)) == ""
    sacct("echo 1")
    assert apply.accounting_problem(SimpleNamespace(status_command="sacct")) == ""
