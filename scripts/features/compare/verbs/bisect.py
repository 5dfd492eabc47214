"""Find the first release of IREE in which a cell behaves in another way.

Takes the program, the flags and the golden outputs from results/, and makes a temporary environment for each release
that it tries. If --good is newer than --bad, it finds the first release of an improvement, in the order from --good
to --bad.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from scripts.core import exits, temporary
from scripts.features.compare.bisection import question, result, trial
from scripts.features.compare.bisection.result import Result
from scripts.features.compare.bisection.trial import Candidate, NoCandidates, Subject, Trial
from scripts.features.compare.remeasuring import NotMeasured
from scripts.features.reproduce.case import NoCase
from scripts.features.reproduce.issue import ISSUE
from scripts.iree import compile_cache
from scripts.records.results_file import BadRecords
from scripts.supervise.job import Interrupted


def main() -> None:
    args = _arguments()
    os.environ.pop(compile_cache.FOLDER, None)  # a compilation is measured, not looked up
    wanted = question.QUESTIONS[args.question]
    try:
        subject = trial.subject(
            args.results, args.cell, args.timeout, wanted.runs, wanted.compilations, wanted.account
        )
        releases = (
            trial.releases_of_wheels(args.wheels, args.good, args.bad, wanted.runs)
            if args.wheels
            else trial.releases_of_index(args.good, args.bad, args.pre)
        )
        print(
            f"{len(releases)} releases: {', '.join(release.version for release in releases)}",
            flush=True,
        )
        with temporary.folder("bisect") as folder:
            answer = bisect(subject, releases, args.question, folder)
            out = (args.out or args.results / "bisect") / subject.case.name
            result.write(answer, out, args.results / "bundles" / subject.case.name)
    except (NoCandidates, NoCase, BadRecords, NotMeasured) as error:
        exits.fail(str(error))
    except Interrupted as error:
        exits.fail(f"stopped: {error}")
    print(f"{answer.sentence}\n{out}: {ISSUE}, {result.REPORT}, and a reproducer of each side")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", required=True, help="such as bert/torchmlir-torch/llvm-cpu")
    parser.add_argument("--good", metavar="VERSION", help="an end where it is as it should be")
    parser.add_argument("--bad", metavar="VERSION", help="an end where it is not")
    text = (
        "what is bad: it fails (broken, the default), has wrong results, fails for another reason, "
        "its module is larger, it takes more CPU time to compile, or it is slower"
    )
    choices = tuple(question.QUESTIONS)
    parser.add_argument("--if", dest="question", choices=choices, default="broken", help=text)
    parser.add_argument("--wheels", nargs="+", type=Path, help="own wheels instead of the index's")
    parser.add_argument("--pre", action="store_true", help="with pre-releases of the index")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a stage (600)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder")
    out = "folder for the folder of the cell; default: <results>/bisect"
    parser.add_argument("-o", "--out", type=Path, help=out)
    args = parser.parse_args()
    if not args.wheels and not (args.good and args.bad):
        exits.fail("give both ends, such as --good 3.9.0 --bad 3.13.0, or your own --wheels")
    return args


def bisect(subject: Subject, releases: Sequence[Candidate], name: str, folder: Path) -> Result:
    """Confirm that the ends differ as requested, and search between them. Exits if they do not. `name`: of the question."""
    wanted, trials = question.QUESTIONS[name], dict[int, Trial]()

    def tried(number: int) -> Trial:
        release = releases[number]
        ended = trials[number] = trial.run(subject, release, folder / release.version)
        print(f"  {release.version}: {ended.ended}", flush=True)
        return ended

    good, bad = tried(0), tried(len(releases) - 1)
    if unlike := wanted.unlike(good, bad):
        exits.fail(f"there is nothing to find: {unlike}")
    boundary = question.search(len(releases), lambda number: wanted.side(good, bad, tried(number)))
    return Result(
        subject,
        name,
        list(trials.values()),
        trials[boundary.last_good],
        trials[boundary.first_bad],
        tuple(releases[number].version for number in boundary.between),
    )
