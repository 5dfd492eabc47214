"""Whether results are of the files at hand: what the aggregation writes down of the files that its rows depend on, and what of it
differs now.

Rows depend on the files of their models, the pins of their environments, the code that verifies and times, and the configuration. Other
files may differ from those of the commit, such as documentation. A row that was kept although its code is older is `stale` and counts
as one of the files at hand, because the last run has decided so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config.entries import Model
from scripts.config.reading import ConfigError
from scripts.config.rows import Matrix, compact
from scripts.core import atomic, checkout
from scripts.frontends.sources.registry import source_of
from scripts.frontends.sources.source import file_digest
from scripts.frontends.torch_model.errors import ModelFileError
from scripts.results.results_file import BadRecords
from scripts.run import environments, outputs
from scripts.run.plan import Aggregation, digest_of, parts_of

COMMAND_LINE = Path("logs/command_line.json")
"""In the results folder: the command line of the last run that was started, as far as it is about the configuration."""
SHOWN = 5
"""Differences that a message names."""


def made_from(matrix: Matrix, results: Path) -> dict[str, Any]:
    """What the rows of a matrix, which are aggregated now, are made from. `results`: their folder."""
    file = results / COMMAND_LINE
    return {
        "commit": checkout.commit(results.absolute()),
        "command_line": atomic.read_json(file) if file.is_file() else None,
        "configuration": _configuration(matrix),
        **_files(matrix),
    }


def _files(matrix: Matrix) -> dict[str, Any]:
    """Digests of the files that the rows of a matrix depend on."""
    known = environments.of_run(matrix.toolchains)
    envs = {matrix.reference_env}
    for entries in (matrix.frontends, matrix.targets, matrix.baselines):
        envs |= {entry.env for entry in entries.values()}
    return {
        "code": Aggregation.measuring_code(),
        "pins": {env: known.pins_digest(env) for env in sorted(envs)},
        "files": {
            model.name: {file: digest(file) for file in _of_model(model)}
            for model in matrix.models.values()
        },
    }


def _of_model(model: Model) -> Iterator[str]:
    """The file of a model, and further ones that it is made of."""
    yield model.file
    with contextlib.suppress(ModelFileError):  # it is gone, which its own digest says
        yield from parts_of(model)[0]


def commit(results: Path) -> str:
    """The commit of the repository of a results folder whose rows were just made, with `-dirty` if files that they depend on differ
    from it; "" if it is not known."""
    name = checkout.commit(results.absolute())
    clean = name.removesuffix("-dirty")
    known = outputs.made_from(results / outputs.JSONL.name)
    if clean == name or not known:
        return name
    of_models = [file for files in known["files"].values() for file in files]
    configfiles = (known["command_line"] or {}).get("files", [])
    needed = {Path(file).resolve() for file in (*of_models, *configfiles)}
    changed = checkout.changed_files(results.absolute())
    code = [checkout.ROOT / folder for folder in _CODE]
    is_needed = any(path in needed or any(map(path.is_relative_to, code)) for path in changed)
    return name if is_needed or not changed else clean


_CODE = ("Snakefile", "config.yaml", "envs", "models", "scripts", "workflow")
"""What of the checkout rows depend on."""


@functools.cache
def digest(file: str) -> str:
    """A hash of what a model's file, or another file that it is made of, makes of it; "" if it cannot be read."""
    path = Path(file).expanduser()
    try:
        source = source_of(file)
        return source.digest(path) if source.takes(path) else file_digest(path)
    except (ModelFileError, OSError):
        return ""


def _configuration(matrix: Matrix) -> str:
    """A hash of what a configuration says of rows: without what is expected of them."""
    return digest_of(dataclasses.replace(matrix, parts={}, expect={}).to_json())


@dataclass
class _CommandLine:
    """The command line of a run as far as it is about the configuration (matrix.settings.Asked)."""

    config: Mapping[str, Any] | None
    configfiles: Sequence[Path]
    replace_workflow_config: bool


def check(results: Path, records: Collection[Mapping[str, Any]]) -> None:
    """Raise BadRecords if the results of the working folder are not of the files that are there now.

    Results that are not in the working folder are what their user names, and nothing is checked. `results`: the folder.
    `records`: those of its rows that are used.
    """
    if results.resolve().parent != Path.cwd().resolve():
        return
    known = outputs.made_from(results / outputs.JSONL.name)
    models = dict.fromkeys(record["model"]["name"] for record in records)
    differing = list(dict.fromkeys(_of_made_from(known, models, results)))
    if not differing:
        return
    of, here = (
        known.get("commit") or "a commit that is not known",
        checkout.commit(results.absolute()),
    )
    shown = "; ".join(differing[:SHOWN])
    more = f"; and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
    file = f"{results.name}/{outputs.JSONL.name}"
    raise BadRecords(
        f"{file}: its rows were made at {of} and are not of the files at hand"
        + (f" ({here})" if here else "")
        + f": {shown}{more}. Run `{_run_command(known.get('command_line'))}` first, or pass the path {file} to use its rows as they are"
    )


def _run_command(command_line: Mapping[str, Any] | None) -> str:
    """The command that makes the rows again."""
    given = (command_line or {}).get("config", {}).items()
    words = [f"{key}={value if isinstance(value, str) else compact(value)}" for key, value in given]
    files = (command_line or {}).get("files")
    options = f"--configfile {shlex.join(files)}" if files else ""
    return checkout.run_command(str(outputs.CSV), shlex.join(words), options)


def _file(file: str, recorded: str) -> Iterator[str]:
    if (now := digest(file)) != recorded:
        yield f"{file} has changed" if now else f"{file} is gone or cannot be read"


def _of_made_from(known: Mapping[str, Any], models: Iterable[str], results: Path) -> Iterator[str]:
    """What differs of all that the aggregation has written down; nothing of one of an older version."""
    if not known:
        return
    for model in models:
        for file, recorded in known["files"].get(model, {}).items():
            if recorded:
                yield from _file(file, recorded)
    try:
        matrix = _matrix(known["command_line"], results)
    except ConfigError as error:
        yield f"the configuration cannot be used any more ({error})"
        return
    if _configuration(matrix) != known["configuration"]:
        files = [checkout.path("config.yaml"), *(known["command_line"] or {}).get("files", [])]
        yield f"the configuration has changed ({', '.join(files)})"
    now = _files(matrix)
    for env, recorded in known["pins"].items():
        if now["pins"].get(env, recorded) != recorded:
            yield f"the pins of the environment {env} have changed"
    if now["code"] != known["code"]:
        yield "the code of vmfbench that verifies and times has changed"


def _matrix(command_line: Mapping[str, Any] | None, results: Path) -> Matrix:
    """The matrix of a run with this command line, if it was started now. That of a Snakefile that imports this workflow is taken as
    its last run had it. Raises ConfigError."""
    if command_line is None:
        return Matrix.from_json(atomic.read_json(results / "logs" / "matrix.json"))
    # The environments of Snakemake's own jobs have no pydantic, and only aggregate.
    from scripts.config import settings
    from scripts.run import starting

    files = [Path(file).absolute() for file in command_line["files"]]
    line = _CommandLine(command_line["config"], files, command_line["replace"])
    folder = Path(command_line["folder"]).absolute()
    given = settings.read(line, checkout.path("config.yaml"), folder)
    return starting.of_configuration(*given, with_conda=False).matrix
