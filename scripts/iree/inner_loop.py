"""The innermost loop of a function in the assembly of a CPU (x86 in the syntax of AT&T, or AArch64), and the mix of its instructions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_OFTEN = 8
"""How many times as often as the loop around it a loop is taken to run, to choose the one with most work."""
_LABEL = re.compile(r"(\.L\w+):$")
_JUMP = re.compile(r"(?:j\w+|b|b\.\w+|[ct]bn?z) (?:.*, ?)?(\.L\w+)$")
_END = re.compile(r"(?:jmp|b|br|ret)q?\b(?!\.)")
"""Behind it nothing goes on: a jump without a condition, or the end of the function."""
_FUSED = re.compile(
    r"vf(?:n?m(?:add|sub)|maddsub|msubadd)\d|vpdp|vdpbf16"  # x86
    r"|f(?:ml[as]|n?m(?:add|sub))\b|ml[as] v|(?:bf|[su]s?)(?:dot|mmla)\b"  # AArch64
)
_COMPUTING = re.compile(
    rf"{_FUSED.pattern}|vp(?:add|sub|mul|madd|max|min)"
    r"|v?(?:add|sub|mul|div|max|min|sqrt|r?sqrt14|rcp14|rndscale|round|scalef)(?:[ps][sdh]|bf16)\b"
    r"|f(?:add|sub|mul|div|max|min|maxnm|minnm|sqrt|rint\w)\b|(?:add|sub|mul|[su]max|[su]min) v"
)
_ONE_VALUE = re.compile(r"v(?!p|broadcast)\w*s(?P<x86>[sdh]) |f\w+ (?P<arm>[sdh])\d")
_REGISTER = re.compile(r"%(?P<x86>[xyz])mm|\b(?P<arm>[qdsh])\d+\b|\bv\d+\.(?P<lanes>\d+)(?P<lane>[bhsd])\b")  # fmt: skip
_BITS = {"z": 512, "y": 256, "x": 128, "q": 128, "d": 64, "s": 32, "h": 16, "b": 8}
_GATHERED = re.compile(r"vp?(?:gather|scatter)")
_SINGLE = re.compile(
    r"v?(?:mov[sdqw][sdh]?|insertps|pinsr[bwdq]|extractps|pextr[bwdq]) (?=.*\()(?=.*%xmm)"
    r"|(?:ld|st)1r? \{[^}]*\}\[|(?:ld|st)u?r [bhsd]\d"
)
"""A load or store of one value, which may go to a lane of a vector."""
_SHUFFLED = re.compile(
    r"v?(?:p?shuf|perm|p?unpck|punpck|p?align|p?blend|insert[fi]|extract[fi]|p?broadcast\w+ (?!.*\()|movs[hl]dup|movddup)"
    r"|(?:zip|uzp|trn)[12]\b|(?:tbl|ext|rev\d*|dup)\b|mov v\d+\.[bhsd]\["
)
_ON_STACK = re.compile(
    r"(?!lea|p(?:refetch|rfm|ush|op)).*(?:(?<![\w,(])-?\d*\(%r[sb]p\)|\[(?:sp|x29)\b(?:, #-?\d+)?\])"
)
_CALL = re.compile(r"(?:callq?|bl) (\w+)")


@dataclass(frozen=True)
class Loop:
    """A loop, or a function that has none. `depth`: how many loops it is in, itself among them. `instructions`: of it. `arithmetic`: how many of them compute
    with floats or vectors, by bits of a register; those with one value have its bits, at most 64. `fused`: how many of these multiply and
    add. Of the others, `stack`: loads and stores of a fixed place on the stack, which are spills in most cases; `single`: those of one value in a vector register; `gathers`:
    gathers and scatters; `shuffles`: moves between lanes or registers of vectors. `calls`: the functions that it calls. `bits`: of most of its
    arithmetic, or without any of its widest register; 0 if it has no vectors. `text`: its lines."""

    depth: int
    instructions: int
    arithmetic: dict[int, int]
    fused: int
    stack: int
    single: int
    gathers: int
    shuffles: int
    calls: list[str]
    bits: int
    text: list[str]


def innermost(lines: Sequence[str]) -> Loop:
    """The loop of a function that has most arithmetic (without any, most instructions) of those that have no loop inside. `lines`: of its body, without comments,
    each instruction followed by one space and its operands."""
    blocks = list(_blocks(lines))
    loops = _loops(blocks)
    inner = [loop for loop in loops if not any(other < loop for other in loops)]
    mixes = [
        _mix((line for at in sorted(loop) for line in blocks[at]), sum(loop <= other for other in loops))
        for loop in inner
    ]  # fmt: skip
    return max(mixes or [_mix(lines, 0)], key=_work)


def _work(loop: Loop) -> tuple[int, int]:
    often = _OFTEN**loop.depth
    return often * sum(bits * count for bits, count in loop.arithmetic.items()), often * loop.instructions  # fmt: skip


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """The basic blocks: each begins with a label or behind a jump."""
    block: list[str] = []
    for line in lines:
        if block and (_LABEL.match(line) or _JUMP.match(block[-1]) or _END.match(block[-1])):
            yield block
            block = []
        block.append(line)
    yield block


def _loops(blocks: Sequence[Sequence[str]]) -> list[set[int]]:
    """The places of the blocks of each natural loop (Aho et al., Compilers, 2006, section 9.6.6): of a jump back to a block without which it is not reached, all blocks from which
    that jump is reached without passing it. Jumps to the same block are one loop."""
    labels = {match[1]: at for at, block in enumerate(blocks) if (match := _LABEL.match(block[0]))}
    after = [set[int]() for _ in blocks]
    before = [set[int]() for _ in blocks]
    for at, block in enumerate(blocks):
        jump = _JUMP.match(block[-1])
        following = {labels[jump[1]]} if jump and jump[1] in labels else set()
        if not _END.match(block[-1]) and at + 1 < len(blocks):
            following.add(at + 1)
        after[at] = following
        for other in following:
            before[other].add(at)
    loops: dict[int, set[int]] = {}
    reachable = _reached(0, after)
    for header in reachable:
        for source in (before[header] & reachable) - _reached(0, after, header):
            loops.setdefault(header, {header}).update(_reached(source, before, header))
    return [*loops.values()]


def _reached(start: int, steps: Sequence[set[int]], barrier: int = -1) -> set[int]:
    """What is reached from a block without passing another one; itself too, unless it is that one."""
    reached, todo = set[int](), [start]
    while todo:
        at = todo.pop()
        if at != barrier and at not in reached:
            reached.add(at)
            todo += steps[at]
    return reached


def _mix(lines: Iterable[str], depth: int) -> Loop:
    text = [line for line in lines if not line.startswith(".p2align")]
    code = [line for line in text if not line.endswith(":")]
    computing = [line for line in code if _COMPUTING.match(line)]
    moving = [line for line in code if not _COMPUTING.match(line)]
    arithmetic = dict(Counter(map(_bits, computing)))
    calls = dict.fromkeys(match[1] for line in code if (match := _CALL.match(line)))
    return Loop(
        depth=depth,
        instructions=len(code),
        arithmetic=arithmetic,
        fused=_count(_FUSED, code),
        stack=_count(_ON_STACK, code),
        single=_count(_SINGLE, [line for line in code if not _ON_STACK.match(line)]),
        gathers=_count(_GATHERED, code),
        shuffles=_count(_SHUFFLED, moving),
        calls=[*calls],
        bits=max(arithmetic, key=lambda bits: (arithmetic[bits], bits), default=max(map(_bits, moving), default=0)),
        text=text,
    )  # fmt: skip


def _count(kind: re.Pattern[str], lines: Iterable[str]) -> int:
    return sum(bool(kind.match(line)) for line in lines)


def _bits(line: str) -> int:
    """The bits that an instruction works on at once: of one value, or of its widest register; 0 if it has no vector register."""
    if match := _ONE_VALUE.match(line):
        return _BITS[match["x86"] or match["arm"]]
    registers = _REGISTER.finditer(line)
    return max((int(m["lanes"] or 1) * _BITS[m["lane"] or m["x86"] or m["arm"]] for m in registers), default=0)  # fmt: skip
