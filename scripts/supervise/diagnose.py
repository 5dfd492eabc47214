"""Derives status, reason and detail of a failure from a stage's exit code and output, and tells which failures are the same.

`reason` is a class to group failures by; `detail` is the one line that a compiler engineer would
quote. A new class is one entry in `_REASONS`.

Failures are the same if their details differ only in numbers, names, types and places: for pages, bisections and reductions.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass

from scripts.core import exits
from scripts.supervise import outcome

DETAIL_CHARS = 400
SOURCE_CHARS = 160
FROM_OUTSIDE = (
    "from outside: no limit was met, and the kernel did not kill it for memory; the next run makes "
    "it again"
)


@dataclass(frozen=True)
class Diagnosis:
    """Status, reason and quoted line of a failed stage."""

    status: str
    reason: str
    detail: str


MISSING_PACKAGE = "missing-package"
# (pattern over the quoted line, status, reason); the first that matches wins.
_REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), status, reason)
    for pattern, status, reason in (
        (r"ModuleNotFoundError: No module named", "error", MISSING_PACKAGE),
        (r"NONDETERMINISTIC_EAGER_RUN", "error", "nondeterministic-eager"),
        (r"BUFFER_MUTATION", "unsupported", "buffer-mutation"),
        (r"bad_alloc|MemoryError\b|\bout of memory\b|can(no|')t allocate memory|RESOURCE_EXHAUSTED", "oom", "out-of-memory"),
        # An operation of an input dialect without a lowering is unsupported; one of a code generator's own dialects is
        # a bug. numpy's tofile and IREE's archives do not include the system's message.
        (r"No space left on device|Disk quota exceeded|out of disk space|\d requested and \d+ written", "error", outcome.DISK_FULL),
        # A cut .pyc file, whose size no list has (environment_damage.py).
        (r"\bmarshal data\b|EOF read where (not|object) expected", "error", outcome.DAMAGED_ENVIRONMENT),
        (r"Too many open files|Resource temporarily unavailable|can't start new thread|\bCannot fork\b", "error", outcome.EXHAUSTED),
        # No shell could be started (system(3) of IREE's linker).
        (r"^Linking failed; .* exit code (-1|32512):", "error", outcome.EXHAUSTED),
        (r"failed to legalize .*'(torch|stablehlo|chlo|tm_tensor)\.", "unsupported", "legalization"),
        (r"failed to legalize", "error", "legalization"),
        (r"ops? (is )?not (capturable|supported)|unsupported (op|dtype|type)", "unsupported", "operator"),
        (r"unhandled function mode op|NotImplementedError", "unsupported", "not-implemented"),
        (r"torch\._dynamo\.exc|torch\.fx\.experimental|data.?dependent", "unsupported", "capture"),
        (r"stack allocation", "error", "stack-allocation-limit"),
        (r"shared memory|workgroup (local )?memory", "error", "shared-memory-limit"),
        (r"failed to distribute", "error", "distribution"),
        (r"DEVICE_LOST", "error", "device-lost"),
        (r"bufferiz", "error", "bufferization"),
        (r"missing GPU target|unknown target", "error", "unknown-target"),
        (r"unknown command line argument|unknown (flag|option)|invalid (flag|option)|for the -", "error", "bad-flag"),
        (r"no solution found|failed to (download|fetch|build)|not found in the package", "error", "installer"),
        (r"\.lock( is not of|: found)", "error", "stale-lock"),
        (r"could not be fetched", "error", "pretrained-weights"),
    )
)  # fmt: skip

_MLIR_ERROR = re.compile(r"(?:^|[\s:])error: (?P<message>.+)$")
_LOCATED = re.compile(r"^(?P<file>\S+?):(?P<line>\d+)(:\d+)?: error: ")
# iree/base/status.h as the tools print it: "c/runtime/src/….c:1329: INVALID_ARGUMENT; …".
_IREE_STATUS = re.compile(r"(?:^|\s)\S+\.(?:c|cc|h|cpp):\d+: (?P<message>[A-Z][A-Z_]+; .*)$")
_TOOL_SAYS = re.compile(r"^(?:\S*/)?(?:iree|torch-mlir)-[\w-]+: (?P<message>.+)$")
_STATUS_CODE = re.compile(r"^[A-Z][A-Z_]+(?=; )")
_EXCEPTION_NAME = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b")
_PYTHON_ERROR = re.compile(
    r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Unsupported|SymNode))(?:: (?P<message>.*))?$"
)
_ONLY_AN_ID = re.compile(r"^[\w.]+: <id>$")
_CAUSE = re.compile(r"^\s+(?:cause|Caused by): (?P<cause>.+)$")
_FATAL = re.compile(r"^(?:.*?)(?P<message>(?:LLVM ERROR:|Fatal Python error:|terminate called).*)$")
_ASSERTION = re.compile(r"Assertion [`'].*?' failed")
_PASS = re.compile(r"Running pass ['\"`](?P<name>[^'\"`]+)|(?P<op>mlir::\S+|iree_compiler::\S+)")
# A frame of LLVM's stack dump, the innermost first.
_PASS_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ .*?(?P<name>\w+)::runOnOperation\(\)")
_FAULT_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>\S+)')
# A frame in tracebacks and in torch's "from user code", with the line of code below it.
_FRAME = re.compile(r'^\s*File "(?P<file>/[^"\x00]+)", line (?P<line>\d+), in ')
_STATED = re.compile(r"^error\[(?P<reason>[a-z-]+)\]: (?P<message>\S.*)$")


def diagnose(returncode: int, log: str, model_file: str = "") -> Diagnosis:
    """Say how a stage that exited with `returncode` (negative: signal) failed.

    `log` is what it printed, `model_file` the file of the model that it loaded, if any: the detail of
    an exception ends with the line of that file, or of one beside it, that it came from. Reason and detail
    are never empty: if the log has nothing to quote, the detail says so and gives the exit code.
    """
    lines = log.splitlines()
    if returncode < 0:
        return _crash(-returncode, lines)
    if returncode not in exits.STATUS_OF and (stated := _stated(lines)):
        return stated
    quoted, source = _error_line(lines)
    if "(check above" in quoted and (passing := _passing_above(lines)):
        return passing
    users = "" if source else _users_line(lines, model_file)
    if not users and _ONLY_AN_ID.match(exits.without_addresses(quoted)):
        users = _line_of_traceback(lines)
    if cause := _cause(lines):
        users = f" {_clip(f'({cause})', DETAIL_CHARS // 2)}"
    if returncode in exits.STATUS_OF:
        quoted, source, users = _own_words(lines) or quoted, "", ""
    status, reason = _classify(quoted)
    if returncode in exits.STATUS_OF and reason != MISSING_PACKAGE:
        status = exits.STATUS_OF[returncode]
        reason = {
            exits.WRONG_RESULT: "wrong-result",
            exits.TOO_LARGE: "estimated",
            exits.UNAVAILABLE: "no-device",
        }.get(returncode, reason or "unsupported")
        if quoted.startswith("NONDETERMINISTIC"):
            reason = "nondeterministic-eager"
        elif returncode == exits.UNAVAILABLE and quoted.startswith(exits.LACKS_PROFILE):
            reason = "device-profile"
    elif status == "error" and not reason and _is_of_capture(lines):
        status, reason = "unsupported", "capture"
    elif status == "error" and not reason:
        reason = _unclassified(lines, quoted) or f"exit-{returncode}"
    if not quoted:
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if _classify(last)[1] == outcome.DISK_FULL:
            return Diagnosis("error", outcome.DISK_FULL, _clip(last))
        quoted = f"exit code {returncode}" + (f"; last line: {last}" if last else "; no output")
    return Diagnosis(status, reason, _clip(quoted + source, DETAIL_CHARS - len(users)) + users)


# What torch.export or a decomposition of its program raised, whether by itself or in the model.
_CAPTURING = re.compile(
    r'^\s*File "/[^"]*/torch/export/(__init__|exported_program)\.py", line \d+, in (export|run_decompositions)$'
)


def _is_of_capture(lines: list[str]) -> bool:
    """Whether the last exception was raised while a model was captured. The model has run eagerly before."""
    start = max((n for n, line in enumerate(lines) if line.startswith("Traceback ")), default=0)
    return any(_CAPTURING.match(line) for line in lines[start:])


def _passing_above(lines: list[str]) -> Diagnosis | None:
    """What the linker of a compiler says, if that is not about the cell."""
    if any(line.startswith("sh: ") and line.endswith(" not found") for line in lines):
        return None  # a file of the environment is missing
    for line in lines:
        status, reason = _classify(line)
        if reason in outcome.PASSING:
            return Diagnosis(status, reason, _clip(line))
    return None


def _crash(number: int, lines: list[str]) -> Diagnosis:
    """The diagnosis of a stage that a signal has ended."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if name in outcome.KILLED_BY:
        return Diagnosis("crashed", name, f"killed by {name} {FROM_OUTSIDE}")
    quoted = _crash_line(lines) or _error_line(lines)[0]
    status, reason = _classify(quoted)
    if reason in ("out-of-memory", *outcome.PASSING):
        return Diagnosis(status, reason, _clip(quoted))
    where = _crash_place(lines)
    parts = [f"killed by {name}", quoted, _cause(lines), f"in {where}" if where else ""]
    return Diagnosis("crashed", name, _clip("; ".join(p for p in parts if p)))


def _classify(line: str) -> tuple[str, str]:
    for pattern, status, reason in _REASONS:
        if pattern.search(line):
            return status, reason
    return "error", ""


def _unclassified(lines: list[str], quoted: str) -> str:
    """The type of an exception that was raised or is quoted, else the name of the tool, else ""."""
    if python := _python_error(lines):
        return python[0]
    if named := _STATUS_CODE.match(quoted) or _EXCEPTION_NAME.search(quoted):
        return named[0]
    if any(_LOCATED.match(line) for line in lines):
        return "compiler-error"
    return "stage-error" if quoted else ""


def _error_line(lines: list[str]) -> tuple[str, str]:
    """What to quote, and the source that it points at: the first compiler diagnostic, else
    what a tool said under its own name, else what the last Python exception said."""
    for number, line in enumerate(lines):
        if match := _MLIR_ERROR.search(line):
            return match["message"].strip() + _causes_of(lines, number), _source_of(lines, number)
    for line in lines:
        if match := _IREE_STATUS.search(line) or _TOOL_SAYS.match(line):
            return match["message"].strip(), ""
    python = _python_error(lines)
    return (python[1] if python else ""), ""


def _own_words(lines: list[str]) -> str:
    """The message of the stage itself: its last line from scripts/core/exits.fail."""
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return said[-1].strip() if said else ""


def _stated(lines: list[str]) -> Diagnosis | None:
    """The diagnosis of a stage that names its own reason (exits.fail), else None. An exception in a model may give a
    more specific one: memory or the disk was full, or an operation is missing."""
    for match in filter(None, map(_STATED.match, reversed(lines))):
        message = match["message"].strip()
        status, reason = _classify(message)
        if status == "error" and reason not in outcome.PASSING:
            reason = match["reason"]
        return Diagnosis(status, reason, _clip(message))
    return None


def _users_line(lines: list[str], model_file: str) -> str:
    """The innermost line of a traceback in the model file or in a file next to it."""
    if not model_file:
        return ""
    folder = os.path.dirname(os.path.realpath(os.path.expanduser(model_file)))
    return _line_of_traceback(lines, folder)


def _line_of_traceback(lines: list[str], folder: str = "") -> str:
    """The innermost line of a traceback that is of a file in a folder, or of any file."""
    for number in range(len(lines) - 2, -1, -1):
        frame = _FRAME.match(lines[number])
        if frame and (not folder or os.path.dirname(os.path.realpath(frame["file"])) == folder):
            where = f"{os.path.basename(frame['file'])}:{frame['line']}"
            return f" {_clip(f'({where}: {lines[number + 1].strip()})', DETAIL_CHARS // 2)}"
    return ""


def _source_of(lines: list[str], number: int) -> str:
    """The source line of a diagnostic, which MLIR prints below it: "failed to bufferize op" alone does not help."""
    located = _LOCATED.match(lines[number])
    below = "".join(lines[number + 1 : number + 2])
    if located is None or not below[:1].isspace():
        return ""
    file = os.path.basename(located["file"])
    return f" [{file}:{located['line']}: {below.strip()[:SOURCE_CHARS]}]"


def _causes_of(lines: list[str], number: int) -> str:
    """The causes that an installer (uv) prints on the lines below its error."""
    causes = ""
    for line in lines[number + 1 :]:
        if not (match := _CAUSE.match(line)):
            break
        causes += f": {match['cause']}"
    return causes


def _python_error(lines: list[str]) -> tuple[str, str] | None:
    for line in reversed(lines):
        if match := _PYTHON_ERROR.match(line):
            return match["type"].rsplit(".", 1)[-1], line.strip()
    return None


def _crash_line(lines: list[str]) -> str:
    """The message of a crash. Where it ends with a colon, the line after it belongs to it: LLVM puts the
    operation there."""
    for number, line in enumerate(lines):
        if match := _FATAL.match(line):
            message = match["message"].strip()
            after = next((line.strip() for line in lines[number + 1 :] if line.strip()), "")
            return f"{message} {after}" if message.endswith(":") and after else message
        if match := _ASSERTION.search(line):
            return match[0]
    return ""


def _cause(lines: list[str]) -> str:
    """What the stage has found out about the cause (exits.CAUSE); "" if nothing."""
    said = [line.removeprefix(exits.CAUSE) for line in lines if line.startswith(exits.CAUSE)]
    return said[-1] if said else ""


def _crash_place(lines: list[str]) -> str:
    for line in lines:
        if match := _FAULT_FRAME.match(line):
            return f"{match['name']} ({match['file']}:{match['line']})"
        if match := _PASS.search(line):
            return match["name"] or match["op"].split("(")[0]
    return ""


def pass_in_stack(log: str) -> str:
    """The pass of MLIR in which a compiler was that has printed its stack; "" if no stack has one."""
    return next((match["name"] for match in map(_PASS_FRAME.match, log.splitlines()) if match), "")


def _clip(text: str, chars: int = DETAIL_CHARS) -> str:
    text = exits.without_addresses(" ".join(text.split()))
    return text if len(text) <= chars else text[: chars - 1] + "…"


# Two folders or more: a single one, such as "/usr", is the same on every machine.
_ABSOLUTE = re.compile(r"(?<![\w./:>-])/(?:[^\s/'\"`:;,()\[\]<>|]+/){2,}")
_SOURCE_LINE = re.compile(r" \[\S+:\d+: .*$")  # diagnose.py quotes it
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PARAMETERS = re.compile(r"<(?:[^<>]|<>)*>")  # the innermost ones; `<>` is what is left of them
_PARTICULARS = (
    (re.compile(r"[\w$]*dispatch_\d\w*"), "dispatch"),
    (re.compile(r"(?<![A-Za-z_])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:x\d+)*"), "N"),  # not f32, conv2d
    (re.compile(r"([%@#])[\w$.#-]+"), r"\1"),  # an SSA value, a symbol, an attribute's alias
    (re.compile(r"function '\w+'"), "function"),
    (re.compile(r"[\w./-]+\.(?:mlir|py|so|irpa|npz)\b(?::N)*"), "file"),
)


def readable_detail(detail: str) -> str:
    """A detail on one line, without absolute folders, which differ between machines."""
    return _ABSOLUTE.sub("…/", " ".join(detail.split()))


def failure_signature(detail: str) -> str:
    """A detail without numbers, parameters of types, files, symbols and SSA values, and without the source line: equal for
    failures of one cause. Names of operations stay, because they are what failed."""
    kind = _SOURCE_LINE.sub("", readable_detail(_ADDRESS.sub("N", detail)))
    while (flatter := _PARAMETERS.sub("<>", kind)) != kind:
        kind = flatter
    for pattern, instead in _PARTICULARS:
        kind = pattern.sub(instead, kind)
    return kind
