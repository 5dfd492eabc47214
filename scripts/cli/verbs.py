"""The verbs of `vmfbench`, and how one is found and run."""

from __future__ import annotations

import difflib
import importlib
import sys
from dataclasses import dataclass

from scripts.core import commands
from scripts.core.version import VERSION
from scripts.tools import registry


@dataclass(frozen=True)
class Verb:
    """A verb of `vmfbench`: the module that is imported when it is used, what it does in one line, and the function of the
    module that runs it."""

    name: str
    module: str
    does: str
    function: str = "main"


VERBS = (
    Verb("run", "scripts.cli.run", "make rows: all, or those of a model file or of models by name"),
    Verb("doctor", "scripts.cli.doctor", "what this machine can do, and what to do about what it lacks"),
    Verb("check", "scripts.stages.check_expectations", "what differs from `expect:` of the configuration or of a file"),
    Verb("clean", "scripts.cli.run", "delete what a later run makes again", "clean"),
    Verb("lock", "scripts.cli.lock", "resolve the pins of environments again"),
    Verb("suites", "scripts.stages.list_suites", "the models that packages have, by name"),
    Verb("operators", "scripts.tools.operators.list_operators", "operator problems of a dataset or of traces"),
    Verb("fuzz", "scripts.tools.fuzz.fuzz", "random graphs of operators along lowering paths: miscompiles, crashes and refusals, by cause"),
    Verb("why", "scripts.tools.profile.why", "where the time of a CPU cell goes, by nn.Module and by dispatch, or that of its compilation"),
    Verb("compare", "scripts.tools.compare.compare", "what differs between two runs or toolchains, by intervals"),
    Verb("history", "scripts.tools.compare.history", "what changed in which run, from all results that were kept"),
    Verb("site", "scripts.tools.compare.site", "the report page over all runs that were kept, of any number of machines"),
    Verb("bisect", "scripts.tools.compare.bisect", "the release of IREE in which a cell changed"),
    Verb("bundle", "scripts.tools.reproduce.bundle", "a reproducer of a cell that needs IREE's wheels alone"),
    Verb("reduce", "scripts.tools.reproduce.bundle", "the same with a program of few operations that fails in the same way", "reduce"),
    Verb("failed", "scripts.tools.report.failed", "the stages that failed: reason, log, and a command that repeats each"),
    Verb("import", "scripts.tools.report.import_record", "add a row that was measured on another machine"),
    Verb("merge", "scripts.tools.report.merge", "the results of several folders as one"),
    Verb("export", "scripts.cli.export", "the rows in formats of other tools"),
    Verb("report", "scripts.tools.report.write_report", "results/report.html, the page with all rows of the last run"),
    Verb("docs", "scripts.cli.docs", "write the pages of docs/ that are made from declarations"),
)  # fmt: skip
"""The verbs, in the order of the help."""
BY_NAME = {verb.name: verb for verb in VERBS}


def main() -> None:
    """Run the verb that the command line names. Exits with 2 for another word."""
    word, *rest = sys.argv[1:] or ["--help"]
    if word in ("-h", "--help"):
        commands.run(usage)
    if word == "--version":
        print(f"vmfbench {VERSION}")
        return
    if word not in BY_NAME:
        near = difflib.get_close_matches(word, BY_NAME, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        sys.stderr.write(f"vmfbench: no verb {word!r}{hint} `vmfbench --help` lists them.\n")
        raise SystemExit(2)
    registry.load()
    verb = BY_NAME[word]
    sys.argv = [f"vmfbench {word}", *rest]
    commands.run(getattr(importlib.import_module(verb.module), verb.function))


def usage() -> None:
    """Print the verbs."""
    width = max(map(len, BY_NAME))
    print("vmfbench <verb> [options]; vmfbench <verb> --help; vmfbench --version\n")
    for verb in VERBS:
        print(f"  {verb.name:<{width}}  {verb.does}")
    print("\n`vmfbench run` prints the snakemake command that it runs.")
