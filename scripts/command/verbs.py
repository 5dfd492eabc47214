"""The verbs of `vmfbench`, and how one is found and run."""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys

from scripts.core import commands
from scripts.core.version import VERSION
from scripts.features import registry
from scripts.matrix import feature
from scripts.matrix.feature import Verb

VERBS = (
    Verb("run", "scripts.command.run", "make rows: all, or those of a model file or of models by name"),
    Verb("doctor", "scripts.command.doctor", "what this machine can do, and what to do about what it lacks"),
    Verb("check", "scripts.stages.check_expectations", "what differs from `expect:` of the configuration or of a file"),
    Verb("clean", "scripts.command.run", "delete what a later run makes again", "clean"),
    Verb("lock", "scripts.command.lock", "resolve the pins of environments again"),
    Verb("completion", "scripts.command.verbs", "completion for bash: eval \"$(vmfbench completion)\"", "completion"),
)  # fmt: skip
"""The verbs of the core."""


def all_verbs() -> dict[str, Verb]:
    """The verbs of the core and of the features, by name."""
    registry.load()
    own = (verb for declared in feature.LOADED.values() for verb in declared.verbs)
    return {verb.name: verb for verb in (*VERBS, *own)}


def main() -> None:
    """Run the verb that the command line names. Exits with 2 for another word."""
    word, *rest = sys.argv[1:] or ["--help"]
    if word in ("-h", "--help"):
        commands.run(usage)
    if word == "--version":
        print(f"vmfbench {VERSION}")
        return
    named = all_verbs()
    if word not in named:
        near = difflib.get_close_matches(word, named, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        sys.stderr.write(f"vmfbench: no verb {word!r}{hint} `vmfbench --help` lists them.\n")
        raise SystemExit(2)
    verb = named[word]
    sys.argv = [f"vmfbench {word}", *rest]
    commands.run(getattr(importlib.import_module(verb.module), verb.function))


def usage() -> None:
    """Print the verbs."""
    verbs = all_verbs().values()
    width = max(len(verb.name) for verb in verbs)
    print("vmfbench <verb> [options]; vmfbench <verb> --help; vmfbench --version\n")
    for verb in verbs:
        print(f"  {verb.name:<{width}}  {verb.does}")
    print("\n`vmfbench run` prints the snakemake command that it runs.")


COMPLETION = """\
_vmfbench() {
  local words="%s"
  if [ "$COMP_CWORD" -gt 1 ]; then
    words=$(vmfbench "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+')
  fi
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _vmfbench vmfbench
"""
"""The function of bash that completes verbs, their options, and file names."""


def completion() -> None:
    """Print the completion for bash."""
    argparse.ArgumentParser(description=completion.__doc__).parse_args()
    print(COMPLETION % " ".join(all_verbs()), end="")
