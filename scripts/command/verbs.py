"""The verbs of `vmfbench`, and how one is found and run."""

from __future__ import annotations

import difflib
import importlib
import sys
from dataclasses import dataclass

from scripts.core import commands


@dataclass(frozen=True)
class Verb:
    """A verb: the module whose `main()` runs it, imported when it is used, and what it does in one line."""

    name: str
    module: str
    does: str


FEATURES = "scripts.features"
VERBS = (
    Verb("failed", f"{FEATURES}.report.verbs.failed", "the stages that failed: reason, log, and a command that repeats each"),
    Verb("why", f"{FEATURES}.profile.verbs.why", "where the time of a CPU cell goes, by nn.Module and by dispatch"),
    Verb("compare", f"{FEATURES}.compare.verbs.compare", "what differs between two runs or toolchains, by intervals"),
    Verb("history", f"{FEATURES}.compare.verbs.history", "what changed in which run, from all results that were kept"),
    Verb("bisect", f"{FEATURES}.compare.verbs.bisect", "the release of IREE in which a cell changed"),
    Verb("bundle", f"{FEATURES}.reproduce.verbs.bundle", "a reproducer of a cell that needs IREE's wheels alone"),
    Verb("import", f"{FEATURES}.report.verbs.import_record", "add a row that was measured on another machine"),
    Verb("merge", f"{FEATURES}.report.verbs.merge", "the results of several folders as one"),
    Verb("export", f"{FEATURES}.report.verbs.export", "the rows in formats of other tools"),
    Verb("suites", f"{FEATURES}.suites.verbs.list_suites", "the models that packages have, by name"),
    Verb("operators", f"{FEATURES}.operators.verbs.list_operators", "operator problems of a dataset or of traces"),
    Verb("lock", "scripts.command.lock", "resolve the pins of environments again"),
    Verb("docs", "scripts.command.docs", "write the pages of docs/ that are made from declarations"),
)  # fmt: skip


def main() -> None:
    """Run the verb that the command line names. Exits with 2 for another word."""
    word, *rest = sys.argv[1:] or ["--help"]
    if word in ("-h", "--help"):
        commands.run(usage)
    named = {verb.name: verb for verb in VERBS}
    if word not in named:
        near = difflib.get_close_matches(word, named, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        sys.stderr.write(f"vmfbench: no verb {word!r}{hint} `vmfbench --help` lists them.\n")
        raise SystemExit(2)
    sys.argv = [f"vmfbench {word}", *rest]
    commands.run(importlib.import_module(named[word].module).main)


def usage() -> None:
    """Print the verbs."""
    width = max(len(verb.name) for verb in VERBS)
    print("vmfbench <verb> [options]; vmfbench <verb> --help\n")
    for verb in VERBS:
        print(f"  {verb.name:<{width}}  {verb.does}")
    print("\nRows are made by Snakemake: snakemake --cores 8 results/latency.csv")
