"""Write the names of the suites' models, models/suites/names/*.txt, from the installed packages.

Run it with the Python of the environment that makes references.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from pathlib import Path

from scripts.features.suites.suites import NAMES, RENAMED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=NAMES, help="folder of the files")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for suite, (package, lines) in listings().items():
        version = importlib.metadata.version(package)
        head = f"# Names of {package} {version}; written by vmfbench suites"
        text = "\n".join([head, *lines])
        (args.out / f"{suite}.txt").write_text(f"{text}\n", encoding="utf-8")


def listings() -> dict[str, tuple[str, list[str]]]:
    """For each suite, the package and the lines of its file.

    Those of hf are `<type> <task>=<class> …`; the first task is the one that the type alone stands for.
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
