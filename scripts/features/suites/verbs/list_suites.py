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
        head = (
            f"# Names of {package} {importlib.metadata.version(package)}; "
            "written by vmfbench suites"
        )
        text = "\n".join([head, *lines])
        (args.out / f"{suite}.txt").write_text(f"{text}\n", encoding="utf-8")


def listings() -> dict[str, tuple[str, list[str]]]:
    """For each suite, the package and the lines of its file."""
    return {
        "timm": ("timm", _timm()),
        "torchvision": ("torchvision", _torchvision()),
        "hf": ("transformers", _transformers()),
    }


def _timm() -> list[str]:
    import timm
    from timm.models._registry import get_deprecated_models

    renamed = sorted(get_deprecated_models().items())
    return sorted(timm.list_models()) + [f"{old}{RENAMED}{new}" for old, new in renamed]


def _torchvision() -> list[str]:
    from torchvision import models

    return sorted(models.list_models())


def _transformers() -> list[str]:
    """Lines `<type> <task>=<class> …`; the first task is the one that the type alone stands for."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    from models.suites import hf

    found = {name: hf.tasks_of(name) for name in sorted(CONFIG_MAPPING_NAMES)}
    return [
        " ".join([name, *(f"{task}={cls}" for task, cls in tasks.items())])
        for name, tasks in found.items()
        if tasks
    ]
