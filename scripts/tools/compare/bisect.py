"""Find the release of IREE that changed the outcome of a cell, or of a script of IREE's tools.

vmfbench bisect --cell conv/torchmlir-torch/llvm-cpu --good 3.9.0 --bad 3.13.0
vmfbench bisect --script results/fuzz/<path>/<core>/causes/<graph>/run.sh --good 3.9.0 --bad 3.13.0

Makes a temporary environment for each release that it tries. A cell's program, flags and golden outputs are those in results/. A
release is bad for a script if the same tool fails as with --bad. If --good is newer than --bad, it finds the first release of an
improvement, in the order from --good to --bad.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from packaging.version import Version

from scripts.core import exits, temporary
from scripts.iree import compile_cache
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Interval
from scripts.measure.timing.turns import Rule
from scripts.results.results_file import BadRecords
from scripts.run.recorded import NoCase
from scripts.supervise import members
from scripts.supervise.diagnose import failure_signature
from scripts.supervise.job import Interrupted
from scripts.supervise.members import Member
from scripts.tools.compare import bisect_script, bisection, remeasuring
from scripts.tools.compare.bisection import (
    DISPATCHES,
    PASSES,
    Candidate,
    NoCandidates,
    Question,
    Result,
    Side,
    Subject,
    Trial,
)
from scripts.tools.compare.remeasuring import NotMeasured
from scripts.tools.reproduce.case import VERIFY, WRONG_RESULT
from scripts.tools.reproduce.issue import ISSUE


def main() -> None:
    args = _arguments()
    os.environ.pop(compile_cache.FOLDER, None)  # a compilation is measured, not looked up
    question = QUESTIONS[args.question]
    try:
        if args.script:
            print(of_script(args))
            return
        subject = bisection.subject(args.results, args.cell, args.timeout, question)
        releases = _releases(args, question.runs)
        with temporary.folder("bisect") as folder:
            answer = bisect(subject, releases, folder)
            out = args.results / "bisect" / subject.case.name
            bisection.write(answer, out, args.results / "bundles" / subject.case.name)
    except (NoCandidates, NoCase, BadRecords, NotMeasured) as error:
        exits.fail(str(error))
    except Interrupted as error:
        exits.fail(f"stopped: {error}")
    print(f"{answer.sentence}\n{out}: {ISSUE}, {bisection.REPORT}, and a reproducer of each side")


def _releases(args: argparse.Namespace, runs: bool) -> list[Candidate]:
    """The releases to choose from, which are printed. Raises NoCandidates."""
    releases = (
        bisection.releases_of_wheels(args.wheels, args.good, args.bad, runs)
        if args.wheels
        else bisection.releases_of_index(args.good, args.bad, args.pre)
    )
    print(f"{len(releases)} releases: {', '.join(r.version for r in releases)}", flush=True)
    return releases


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    subjects = parser.add_mutually_exclusive_group(required=True)
    subjects.add_argument("--cell", help="such as bert/torchmlir-torch/llvm-cpu")
    subjects.add_argument("--script", type=Path, metavar="FILE", help="a shell script with files beside it, such as run.sh of a cause of `vmfbench fuzz`")  # fmt: skip
    parser.add_argument("--good", metavar="VERSION", help="a release that is right")
    parser.add_argument("--bad", metavar="VERSION", help="a release that is not")
    text = (
        "what is bad: it fails (broken, the default), has wrong results, fails for another reason, "
        "its module is larger, it takes more CPU time to compile, or it is slower; on a GPU, it spills registers, or leaves "
        "the matrix units"
    )
    choices = tuple(QUESTIONS)
    parser.add_argument("--if", dest="question", choices=choices, default="broken", help=text)
    parser.add_argument(
        "--wheels", nargs="+", type=Path, help="local wheels, not those of the index"
    )
    parser.add_argument("--pre", action="store_true", help="with pre-releases of the index")
    parser.add_argument(
        "--timeout", type=float, default=600.0, help="seconds per stage, or of a script (600)"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder")
    args = parser.parse_args()
    if not args.wheels and not (args.good and args.bad):
        exits.fail("give both ends, such as --good 3.9.0 --bad 3.13.0, or your own --wheels")
    if args.script and (not args.script.is_file() or args.question != "broken"):
        exits.fail(f"--script {args.script}: expected a file, and no --if {args.question}" if args.script.is_file() else f"{args.script}: no such file")  # fmt: skip
    return args


def of_script(args: argparse.Namespace) -> str:
    """Search for the release that changed the outcome of a script. Return the answer. Exits if the ends do not differ. Raises NoCandidates."""
    releases, ended = _releases(args, runs=True), dict[int, bisect_script.Ended]()

    def tried(number: int) -> bisect_script.Ended:
        with temporary.folder("bisect") as folder:
            ended[number] = bisect_script.try_release(args.script, releases[number], folder, args.timeout)  # fmt: skip
        print(f"  {ended[number].version}: {ended[number].words}", flush=True)
        return ended[number]

    bisect_script.require_ends(tried(0), bad := tried(len(releases) - 1))
    last, first, between = search(len(releases), lambda number: bisect_script.side(bad, tried(number)))  # fmt: skip
    passed = "".join(f"; {releases[n].version} cannot be judged" for n in between)
    good, bad_release = releases[last].version, releases[first].version
    if Version(good) > Version(bad_release):
        return f"{good} is the first good release; {bad_release} is bad{passed}"
    return f"{bad_release} is the first bad release; {good} is good{passed}"


def bisect(subject: Subject, releases: Sequence[Candidate], folder: Path) -> Result:
    """Confirm that the ends differ as requested, and search between them. Exits if they do not."""
    question, trials = subject.question, dict[int, Trial]()

    def tried(number: int) -> Trial:
        release = releases[number]
        ended = trials[number] = bisection.try_release(subject, release, folder / release.version)
        print(f"  {release.version}: {ended.ended}", flush=True)
        return ended

    good, bad = tried(0), tried(len(releases) - 1)
    if why := unlike(question, good, bad):
        exits.fail(f"there is nothing to find: {why}")
    last_good, first_bad, between = search(
        len(releases), lambda number: question.side(good, bad, tried(number))
    )
    neither = tuple(releases[number].version for number in between)
    return Result(subject, [*trials.values()], trials[last_good], trials[first_bad], neither)


# What a release is, and the search.

LEAST_GROWTH = 1.01
"""The least ratio of the sizes of two modules that counts as larger."""
LEAST_CPU_TIME = 1.2
"""The least ratio of the CPU times of two compilations that counts as slower: other work on the machine changes it by some percent."""
LEAST_RATIO = 1.03
"""The least ratio of the latencies of the ends that can be bisected."""
RULES = (Rule(), Rule(budget_s=80.0, generations=48))
"""How long modules are timed; the second rule where the first does not decide."""


def search(count: int, side_of: Callable[[int], Side]) -> tuple[int, int, list[int]]:
    """Return where releases 0 (known to be good) to count - 1 (known to be bad) change from good to bad, as `git
    bisect` does: the last good one, the first bad one, and those between them that are neither.

    `side_of` is called at most once per release, and for about log2(count) of them. If the sides change several times,
    one of the changes from good to bad is found. A release that is neither is passed over, and the one next to it is
    tried.
    """
    good, bad, neither = 0, count - 1, set[int]()
    while untried := [number for number in range(good + 1, bad) if number not in neither]:
        middle = (good + bad) / 2
        tried = min(untried, key=lambda number: abs(number - middle))
        side = side_of(tried)
        if side is Side.GOOD:
            good = tried
        elif side is Side.BAD:
            bad = tried
        else:
            neither.add(tried)
    return good, bad, sorted(number for number in neither if good < number < bad)


def unlike(question: Question, good: Trial, bad: Trial) -> str:
    """Why two trials are not a good and a bad end; "" if they are."""
    if question.timed and good.is_ok and bad.is_ok:
        return _not_slower(good, bad)
    # What fails cannot be timed.
    sides = [] if question.timed else [question.side(good, bad, end) for end in (good, bad)]
    if sides == [Side.GOOD, Side.BAD]:
        return ""
    ends = [
        f"{end.version}, the {name} end: {end.ended}"
        for name, end in (("good", good), ("bad", bad))
    ]
    return "; ".join((*ends, question.wanted))


def _says_nothing(trial: Trial) -> bool:
    """Whether a failure says nothing about the program: no environment, a flag or target that the release does not
    know, a program that it cannot parse, or a kill from outside."""
    reasons = ("installer", "bad-flag", "unknown-target", "program-version")
    return trial.outcome.reason in reasons or trial.outcome.is_passing


def _broken(good: Trial, bad: Trial, trial: Trial) -> Side:
    if trial.is_ok:
        return Side.GOOD
    return Side.NEITHER if _says_nothing(trial) else Side.BAD


def _wrong(good: Trial, bad: Trial, trial: Trial) -> Side:
    if trial.is_ok:
        return Side.GOOD
    return Side.BAD if trial.outcome.reason == WRONG_RESULT else Side.NEITHER


def _failure(trial: Trial) -> Hashable:
    """What failures must have in common to be the same: status, stage, reason, and the message without names and
    numbers. None without a failure."""
    ended = trial.outcome
    failure = ended.status, ended.stage, ended.reason, failure_signature(ended.detail)
    return None if trial.is_ok else failure


def _another_reason(good: Trial, bad: Trial, trial: Trial) -> Side:
    known = {_failure(good): Side.GOOD, _failure(bad): Side.BAD}
    if None in known or len(known) == 1:
        return Side.NEITHER
    return known.get(_failure(trial), Side.NEITHER)


def _more_of(key: str, least: float) -> Callable[[Trial, Trial, Trial], Side]:
    """What a trial is by a value of its report, of which the bad end has at least `least` times as much as the good one."""

    def side(good: Trial, bad: Trial, trial: Trial) -> Side:
        before, after, own = (each.report.get(key) for each in (good, bad, trial))
        if not (before and after and own) or after / before < least:
            return Side.NEITHER
        # A value between those of the ends belongs to the end whose ratio to it is smaller.
        return Side.BAD if own > math.sqrt(before * after) else Side.GOOD

    return side


def _moved(key: str, sign: int) -> Callable[[Trial, Trial, Trial], Side]:
    """What a trial is by a value of its report that is larger (`sign` 1) or smaller (-1) at the bad end: the nearer end."""

    def side(good: Trial, bad: Trial, trial: Trial) -> Side:
        before, after, own = (each.report.get(key) for each in (good, bad, trial))
        if before is None or after is None or own is None or (after - before) * sign <= 0:
            return Side.NEITHER
        return Side.BAD if (own - (before + after) / 2) * sign > 0 else Side.GOOD

    return side


def _not_slower(good: Trial, bad: Trial) -> str:
    for rule in RULES:
        ratio, said = _timed(bad, (good,), good.version, rule)
        if ratio.low > 1 and ratio.ratio >= LEAST_RATIO:
            return ""
    return f"{said}; it must be at least {LEAST_RATIO:g} times"


def _slower(good: Trial, bad: Trial, trial: Trial) -> Side:
    """The end whose latency is nearer to that of a release, as a ratio; NEITHER if that is not certain."""
    middle = f"the geometric mean of {good.version} and {bad.version}"
    for rule in RULES if trial.is_ok else ():
        ratio, _ = _timed(trial, (good, bad), middle, rule)
        if ratio.low > 1 or ratio.high < 1:
            return Side.BAD if ratio.low > 1 else Side.GOOD
    return Side.NEITHER


def _timed(trial: Trial, ends: Sequence[Trial], base: str, rule: Rule) -> tuple[Interval, str]:
    """Time modules in turns, each with the runtime of its own release: the latency of a trial / the geometric mean of
    those of `ends`, which are called `base`, and that in words. The latency is added to its report.

    A module that cannot be timed ends the command, because the verification has just run it. Raises NotMeasured.
    """
    with temporary.folder("slower") as logs:
        timing = members.time_in_turns([_member(each, logs) for each in (trial, *ends)], rule)
    remeasuring.check_timing(timing)
    if why := members.unfit_control(timing):
        print(f"    in turns: {why}", flush=True)
    own, *others = (timing.members[each.version].values_ms for each in (trial, *ends))
    trial.report["latency_ms"] = math.exp(ratios.log_mean(own))
    means = [math.exp(ratios.log_mean(ms)) for ms in zip(*others, strict=True)]
    if (difference := ratios.paired(own, means)) is None:
        raise NotMeasured(
            f"{trial.version}: {len(own)} generations in the budget; an interval needs {ratios.LEAST}"
        )
    ratio = difference.interval()
    said = f"{trial.version} takes {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f}) times as long as {base}"
    print(f"    in turns: {said}", flush=True)
    return ratio, said


def _member(trial: Trial, logs: Path) -> Member:
    """The process that times the module of a trial. Raises NotMeasured if there is none."""
    if trial.vmfb is None:
        raise NotMeasured(f"{trial.version}: no module")
    log = logs / f"{trial.version}.txt"
    return Member.verified(trial.version, trial.vmfb.parent / VERIFY, log, forked=False)


_QUESTIONS = (
    Question(
        "broken",
        _broken,
        "the good one must work, and the bad one fail for a reason of the program",
    ),
    Question("wrong", _wrong, "the good one must be right, and the bad one wrong", runs=True),
    Question("other-reason", _another_reason, "both must fail, and not in the same way"),
    Question(
        "larger",
        _more_of("vmfb_bytes", LEAST_GROWTH),
        f"the bad one must be at least {LEAST_GROWTH:g} times as large",
    ),
    Question(
        "compiles-slower",
        _more_of("cpu_s", LEAST_CPU_TIME),
        f"the bad one must take at least {LEAST_CPU_TIME:g} times as much CPU time to compile",
        compilations=3,
        account=PASSES,
    ),
    Question(
        "spills",
        _moved("static_spills", 1),
        "both must compile for a GPU, and the bad one spill more",
    ),
    Question(
        "off-matrix-units",
        _moved("static_matrix_share", -1),
        "both must compile for a GPU, and the bad one have a smaller share of its products on matrix units",
    ),
    Question(
        "slower", _slower, "both must have a latency", runs=True, timed=True, account=DISPATCHES
    ),
)
QUESTIONS = {question.name: question for question in _QUESTIONS}
