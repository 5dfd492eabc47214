"""Run the workflow. Prints the snakemake command that it is, and runs it.

vmfbench run                              results/latency.csv of the whole matrix
vmfbench run ~/mine.py --quick            one model file, timed shortly
vmfbench run exported.pt2 resnet.onnx      an exported program, an ONNX file (docs/sources.md)
vmfbench run resnet 'gpt2*' --targets llvm-cpu --config tests=eval,train
vmfbench run results/tuned.csv resnet       another table, or any file below results/
vmfbench run --make dumps -- --profile workflow/profiles/slurm    a rule; options of Snakemake
vmfbench run --batches 10 --config suites='timm/*' -- --profile workflow/profiles/slurm

With --batches, the models are run in so many runs, one after the other (docs/scale.md). All rows are then in
results/batches/latency.csv and results.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.config import reading
from scripts.core import atomic, checkout, exits
from scripts.frontends.sources.registry import model_file

SELECTED = ("targets", "frontends", "baselines", "tests", "toolchains", "suites")
"""Keys of `--config` that are options here, of names or globs."""
FURTHER = {
    "filter": "regular expression of models",
    "exclude": "regular expression of models",
    "retry": "statuses of rows to repeat, with commas; all; stale",
    "stop_on": "statuses or codes that end the run",
}
"""Other keys of `--config` that are options here, with what they are."""
RESULTS = "results/"
MAIN = "results/latency.csv"
ROWS = (Path(MAIN), Path("results/results.jsonl"))
BATCHES = Path("results/batches")
"""The folder with the rows of each batch, and of all."""
ENDS = (".py", ".pt2", ".onnx", ".mlir", ".mlirbc", ".stablehlo")
"""Of the names of files that a model may be made of."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="file|model|results/…",
        help="files or folders of models, names or globs; results to make",
    )
    for key in SELECTED:
        parser.add_argument(f"--{key}", metavar="NAMES", help="names or globs, with commas")
    for key, meaning in FURTHER.items():
        parser.add_argument(f"--{key.replace('_', '-')}", metavar="TEXT", help=meaning)
    parser.add_argument(
        "--quick", action="store_true", help="one lowering path on the CPU and eager, timed shortly"
    )
    parser.add_argument("--cores", default="all", help="default: all")
    parser.add_argument(
        "--make", nargs="+", default=[], metavar="FILE|RULE", help=f"default: {MAIN}"
    )
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--batches", type=int, metavar="N", help="N runs, each of a part of the models"
    )
    parser.add_argument(
        "-n",
        "--dry-run",
        action="store_true",
        help="only show how many jobs of each rule would run",
    )
    own, further = _split(sys.argv[1:])
    args = parser.parse_args(own)
    named = [word for word in args.what if word.startswith(RESULTS)]
    args.what = [word for word in args.what if word not in named]
    args.make = [*named, *args.make] or [MAIN]
    if args.batches is None:
        snakemake([*words(args), *further])
    elif args.batches < 1 or args.make != [MAIN]:
        parser.error(f"--batches: expected a number above 0, and no --make: it makes {MAIN}")
    else:
        in_batches(args, further)


def clean() -> None:
    """Delete what a later run makes again: dumps, weights or environments (docs/disk.md)."""
    own, further = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=clean.__doc__)
    parser.add_argument("what", choices=("dumps", "weights", "envs"))
    snakemake(["--cores", "all", f"clean_{parser.parse_args(own).what}", *further])


def words(args: argparse.Namespace) -> list[str]:
    """The words after `snakemake` for the options of `vmfbench run`."""
    # A word that looks like a path is not taken for a model's name: the workflow says that the file is missing.
    files = [
        w for w in args.what if w.endswith(ENDS) or os.sep in w or os.path.isfile(model_file(w))
    ]
    models = [word for word in args.what if word not in files]
    config = {"file": ",".join(files), "models": ",".join(models)}
    config |= {key: getattr(args, key) for key in (*SELECTED, *FURTHER)}
    config["quick"] = "true" if args.quick else ""
    said = [*(f"{key}={value}" for key, value in config.items() if value), *args.config]
    return [
        *("--cores", args.cores),
        *args.make,
        *(("--dry-run", "--quiet=rules") if args.dry_run else ()),
        *(("--config", *said) if said else ()),
    ]


def in_batches(args: argparse.Namespace, further: list[str]) -> None:
    """Run all batches of the models. Ends with the exit code of the first run that fails: repeated, it goes on there."""
    given = [*args.config]
    for number in range(1, args.batches + 1):
        args.config = [*given, f"batch={number}/{args.batches}"]
        if code := subprocess.call(_command([*words(args), *further])):
            sys.exit(code)
        if not args.dry_run:
            for path in ROWS:
                atomic.copy(path, _of_batch(path, number))
    if not args.dry_run:
        print(f"{join_batches(args.batches)}: the rows of {args.batches} batches", file=sys.stderr)


def join_batches(count: int) -> Path:
    """Write the rows of all batches into two files, and return the CSV. All rows of a model are in one batch, so its speed-ups stay.
    The CSV has the columns of all batches: a batch without a baseline lacks its columns."""
    table, jsonl = (BATCHES / path.name for path in ROWS)
    parts = [_of_batch(path, number) for path in ROWS for number in range(1, count + 1)]
    headings: dict[str, None] = {}
    for part in parts[:count]:
        with part.open(newline="", encoding="utf-8") as file:
            headings |= dict.fromkeys(next(csv.reader(file)))

    def rows() -> Iterator[str]:
        line = io.StringIO()
        writer = csv.DictWriter(line, [*headings], lineterminator="\n")
        writer.writeheader()
        for part in parts[:count]:
            with part.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    writer.writerow(row)
                    yield line.getvalue()
                    line.seek(0)
                    line.truncate()

    def lines() -> Iterator[str]:
        for part in parts[count:]:
            with part.open(encoding="utf-8") as file:
                yield from file

    atomic.write_parts(table, rows())
    atomic.write_parts(jsonl, lines())
    return table


def _of_batch(path: Path, number: int) -> Path:
    return BATCHES / f"{number}{path.suffix}"


def snakemake(words: list[str]) -> None:
    """Print a command of Snakemake, and run it in this process's place."""
    command = _command(words)
    os.execv(command[0], command)


def _command(words: list[str]) -> list[str]:
    """The words of a command of Snakemake, which is printed as it is typed. Exits if a configuration file cannot be read: Snakemake
    would end with a traceback, or without the file and the line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", action="extend", default=[])
    for file in parser.parse_known_args(words)[0].configfile:
        try:
            reading.require_for_snakemake(file)
        except reading.ConfigError as problem:
            exits.fail(str(problem))
    elsewhere = not checkout.is_here()
    place = ["-s", str(checkout.ROOT / "Snakefile"), "--directory", os.curdir] if elsewhere else []
    print(f"workflow: {checkout.ROOT}", file=sys.stderr)
    print(shlex.join(["snakemake", *place, *words]), file=sys.stderr, flush=True)
    # -P, and not -m: otherwise the working folder comes first, and its own `scripts` would hide ours.
    start = "import sys; from snakemake.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", start, *place, *words]


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, and those after it, which are Snakemake's."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]
