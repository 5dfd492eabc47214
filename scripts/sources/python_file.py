"""A Python file with get_model() and get_dummy_input()."""

from __future__ import annotations

from pathlib import Path

from scripts.sources.source import Facts, Options, Source
from scripts.torch_model import source


def _facts(path: Path, options: Options) -> Facts:
    given = options.get("batch_size")
    return Facts(
        source.default_batch_size(path) if given is None else int(given),
        options.get("dtype", "f32"),
    )


SOURCE = Source(
    name="python",
    kind="module",
    expected="a Python file (.py) with get_model() and get_dummy_input()",
    takes=lambda path: path.suffix == ".py",
    check=source.check_options,
    facts=_facts,
    parts=lambda path, _: source.own_imports(path),
    digest=source.code_digest,
    sizes_are_options=True,
    is_code=True,
)
