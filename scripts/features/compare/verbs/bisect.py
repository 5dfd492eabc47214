"""Find the first release of IREE in which a cell behaves in another way.

Takes the program, the flags and the golden outputs from results/, and makes a temporary environment for each release that it tries. If --good
is newer than --bad, it finds the first release of an improvement, in the order from --good to --bad.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.core import exits
from scripts.features.compare.bisection import (
    candidates,
    dispatches,
    question,
    result,
    search,
    trial,
)
from scripts.features.compare.bisection.candidates import Candidate, NoCandidates
from scripts.features.compare.bisection.search import Side
from scripts.features.compare.bisection.slower import NotTimed
from scripts.features.compare.bisection.trial import Limits, NoTrial, Subject, Trial
from scripts.features.reproduce import case as cases
from scripts.features.reproduce.case import NoCase
from scripts.records import results_file
from scripts.records.results_file import BadRecords
from scripts.run import resources
from scripts.supervise.job import Interrupted


def main() -> None:
    args = _parser().parse_args()
    if not args.wheels and not (args.good and args.bad):
        exits.fail("give both ends, such as --good 3.9.0 --bad 3.13.0, or your own --wheels")
    asked = question.QUESTIONS[args.question]
    limits = Limits(args.timeout, args.timeout, resources.memory_limit_mb({}))
    try:
        subject = _subject(args, asked)
        found = (
            candidates.of_wheels(args.wheels, args.good, args.bad, asked.runs)
            if args.wheels
            else candidates.of_index(args.good, args.bad, args.pre)
        )
        print(f"{len(found)} releases: {', '.join(one.version for one in found)}", flush=True)
        with tempfile.TemporaryDirectory(prefix="bisect-") as folder:
            trials = Trials(subject, found, Path(folder).absolute(), limits)
            made = bisect(trials, asked, args.question)
            out = (args.out or args.results / "bisect") / subject.case.name
            result.write(made, out, _dispatches(trials, made) if asked.timed else "")
    except (NoCandidates, NoCase, NoTrial, BadRecords, NotTimed) as error:
        exits.fail(str(error))
    except Interrupted as error:
        exits.fail(f"stopped: {error}")
    print(f"{made.sentence}\n{out}: {result.ISSUE}, {result.REPORT}, and a reproducer of each side")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", required=True, help="such as bert/torchmlir-torch/llvm-cpu")
    parser.add_argument("--good", metavar="VERSION", help="an end where it is as it should be")
    parser.add_argument("--bad", metavar="VERSION", help="an end where it is not")
    parser.add_argument(
        "--if",
        dest="question",
        choices=tuple(question.QUESTIONS),
        default="broken",
        help="what is bad: it fails (broken, the default), has wrong results, fails for another reason, its module is larger, or it is slower",
    )
    parser.add_argument("--wheels", nargs="+", type=Path, help="own wheels instead of the index's")
    parser.add_argument("--pre", action="store_true", help="with pre-releases of the index")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a stage (600)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        help="folder for the folder of the cell; default: <results>/bisect",
    )
    return parser


def _subject(args: argparse.Namespace, asked: question.Question) -> Subject:
    """The cell as it is in the results. Raises BadRecords, NoCase and NoTrial."""
    records = {one["cell"]: one for one in results_file.read(args.results / "results.jsonl")}
    if args.cell not in records:
        raise NoCase(f"no row {args.cell!r} in {args.results}/results.jsonl")
    record, root = records[args.cell], args.results.absolute().parent
    case, experiment = cases.of(root, record), record.data["experiment"]
    return trial.of_record(case, experiment, root, asked.runs, asked.timed)


class Trials:
    """Makes each trial once, by the number of its release."""

    def __init__(
        self, subject: Subject, found: Sequence[Candidate], folder: Path, limits: Limits
    ) -> None:
        self.subject, self.found, self.folder, self.limits = subject, found, folder, limits
        self.made: dict[int, Trial] = {}

    def __getitem__(self, number: int) -> Trial:
        if number not in self.made:
            candidate = self.found[number]
            one = trial.run(self.subject, candidate, self.folder / candidate.version, self.limits)
            self.made[number] = one
            detail = f": {one.outcome.detail[:200]}" if one.outcome.detail else ""
            print(f"  {candidate.version}: {one.words}{detail}", flush=True)
        return self.made[number]


def bisect(trials: Trials, asked: question.Question, name: str) -> result.Result:
    """Confirm that the ends differ as asked, and search between them. Exits if they do not."""
    last = len(trials.found) - 1
    good, bad = trials[0], trials[last]
    if unlike := asked.unlike(good, bad):
        exits.fail(f"there is nothing to find: {unlike}")

    def side_of(number: int) -> Side:
        return asked.side(good, bad, trials[number])

    boundary = search.search(len(trials.found), side_of)
    versions = [one.version for one in trials.found]
    return result.of(trials.subject.case, name, boundary, versions, trials.made)


def _dispatches(trials: Trials, made: result.Result) -> str:
    """What an issue says of the dispatches of both sides: a table, or why there is none."""
    sides = made.before, made.after
    try:
        found = dispatches.between(trials.subject, *sides, trials.limits)
    except dispatches.NoProfile as error:
        return f"There is no comparison of dispatches: {error}."
    return dispatches.markdown(found, *(one.candidate.version for one in sides))
