"""Write the names of the suites' models, models/suites/names/*.txt, from the packages of the environment torch-mlir."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from scripts.config.choices import RENAMED, SUITE_NAMES
from scripts.core import checkout, exits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SUITE_NAMES, help="folder of the files")
    args = parser.parse_args()
    checkout.refuse_installed("vmfbench suites")
    if not importlib.util.find_spec("timm"):
        _run_in_environment()
    args.out.mkdir(parents=True, exist_ok=True)
    for suite, (package, lines) in listings().items():
        version = importlib.metadata.version(package)
        head = f"# Names of {package} {version}; written by vmfbench suites"
        text = "\n".join([head, *lines])
        (args.out / f"{suite}.txt").write_text(f"{text}\n", encoding="utf-8")


def _run_in_environment() -> None:
    """Run this command with the Python of the environment that has the packages, in place of this process."""
    from scripts.run import environments  # which the environment cannot import

    python = Path(environments.prefix("torch-mlir"), "bin/python")
    if not python.exists():
        exits.fail(f"no {python}; a run makes it: {checkout.run_command('results/latency.csv')}")
    variables = os.environ | {"PYTHONPATH": str(checkout.ROOT)}
    os.execve(python, [str(python), "-m", __spec__.name, *sys.argv[1:]], variables)


def listings() -> dict[str, tuple[str, list[str]]]:
    """For each suite, the package and the lines of its file.

    Those of hf are `<type> <task>=<class> …`; the first task is the one of the type without a task.
    """
    import timm
    from timm.models._registry import get_deprecated_models
    from torchvision import models
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    from models.suites import hf

    renamed = sorted(get_deprecated_models().items())
    types = {name: hf.tasks_of(name) for name in sorted(CONFIG_MAPPING_NAMES)}
    hf_lines = [
        " ".join([name, *(f"{task}={cls}" for task, cls in tasks.items())])
        for name, tasks in types.items()
        if tasks
    ]
    return {
        "timm": ("timm", sorted(timm.list_models()) + [f"{o}{RENAMED}{n}" for o, n in renamed]),
        "torchvision": ("torchvision", sorted(models.list_models())),
        "hf": ("transformers", hf_lines),
    }


if __name__ == "__main__":
    main()
