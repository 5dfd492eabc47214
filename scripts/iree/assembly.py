"""The code of a compiled program: its host program and the assembly of every dispatch, without what differs between equal code.

Paths, lines, debug information, comments and the numbers of functions are left out, and data has its value in place of its
label. So two builds of a program, even by different releases of IREE, have the same code if their digests are equal. Of code for a
CPU (x86 in the syntax of AT&T, or AArch64), the innermost loop of a dispatch and the mix of its instructions are known too.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

_OFTEN = 8
"""How many times as often as the loop around it a loop is taken to run, to choose the one with most work."""
_TARGET = re.compile(r"(\.L\w+):$")
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
_VECTOR = re.compile(r"%(?P<x86>[xyz])mm|\b(?P<arm>[qdsh])\d+\b|\bv\d+\.(?P<lanes>\d+)(?P<lane>[bhsd])\b")  # fmt: skip
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
_STACK = re.compile(
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
        if block and (_TARGET.match(line) or _JUMP.match(block[-1]) or _END.match(block[-1])):
            yield block
            block = []
        block.append(line)
    yield block


def _loops(blocks: Sequence[Sequence[str]]) -> list[set[int]]:
    """The places of the blocks of each natural loop (Aho et al., Compilers, 2006, section 9.6.6): of a jump back to a block without which it is not reached, all blocks from which
    that jump is reached without passing it. Jumps to the same block are one loop."""
    labels = {match[1]: at for at, block in enumerate(blocks) if (match := _TARGET.match(block[0]))}
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
        stack=_count(_STACK, code),
        single=_count(_SINGLE, [line for line in code if not _STACK.match(line)]),
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
    registers = _VECTOR.finditer(line)
    return max((int(m["lanes"] or 1) * _BITS[m["lane"] or m["x86"] or m["arm"]] for m in registers), default=0)  # fmt: skip


CPU, SPIRV = ".s", ".spirv.mlir"
SUFFIXES = (CPU, ".ptx", ".rocmasm", SPIRV)
"""The files with the code for llvm-cpu, CUDA, ROCm and Vulkan, as the flags --iree-hal-dump-executable-intermediates-to and
--iree-hal-dump-executable-binaries-to write them."""

_BEGIN = re.compile(
    r'\s*\.type\s+"?(?P<name>[^\s",]+)"?,@function|\.visible \.entry (?P<entry>[^\s(]+)\('
)
_LABEL = re.compile(r'"?(?P<label>[.\w$]+)"?:\s*$')
_PTX_DATA = re.compile(
    r"(?:\.visible |\.extern )?\.(?:global|const)\b.*?(?P<label>[\w$]+)\[\d+\] = (?P<data>\{.*\});"
)
_TOKEN = re.compile(r"\.?[\w$][\w$.]*")
_NUMBERED = re.compile(r"(\.L|\$L__)(BB|JTI|tmp)(\d+)_(\d+)")
_REGISTER = re.compile(
    r"%[\w.#]+"  # x86, PTX, and values of SPIR-V
    r"|\b[sva](?:\d+\b|\[\d+(?::\d+)?\])"  # AMDGPU
    r"|(?:\.L|\$L__)BB_?\d+"
)
_ON_STACK = re.compile(r"-?\b\d+(?=\(%r[sb]p)|\$-?\d+(?=, %rsp)")
"""The place of a value in the frame of an x86 function, and the size of the frame."""
_COMMENT = re.compile(r"\s*(#(?![\w-])|//|;).*$")
_DATA = (".long", ".quad", ".byte", ".short", ".zero", ".ascii", ".asciz", ".4byte", ".8byte")
_LEFT_OUT = (
    *(".loc", ".file", ".cfi_", ".prefalign", ".Ltmp", ".Lfunc_", ".size", ".type", ".ident", ".weak"),
    *(".section", ".globl", ".addrsig", ".set", "$L__func", "#APP", "#NO_APP", ".text", ".protected", ".hidden"),
)  # fmt: skip
"""Directives that make no code, or that name what has another name in each build."""


@dataclass(frozen=True)
class Function:
    """The code of a dispatch. `digest`: of its normalised text and of the functions that it calls. `unordered`: of the same
    instructions in any order, without registers and places on the stack, which another release of LLVM may choose in another way.
    `instructions`: its own lines that are neither labels nor directives. `loop`: its innermost one, of code for a CPU."""

    name: str
    digest: str
    unordered: str
    instructions: int
    loop: Loop | None = None


def functions(folder: Path, dispatches: Collection[str]) -> list[Function]:
    """The code of these dispatches from the files in a folder, in the order of the files and of the code.

    A linked file has more functions, of IREE's and of the C library, that only count where a dispatch calls them.
    """
    code: list[Function] = []
    for path, text in _files(folder):
        bodies = _normalised(path.name, text)
        loops = {name: innermost(bodies[name]) for name in bodies.keys() & set(dispatches) if path.name.endswith(CPU)}  # fmt: skip
        code += [replace(each, loop=loops.get(each.name)) for each in _parsed(bodies) if each.name in dispatches]  # fmt: skip
    return code


def text_of(folder: Path, function: str) -> list[str]:
    """The normalised lines of a function from the files in a folder; [] if none has it."""
    bodies = (_normalised(path.name, text) for path, text in _files(folder))
    return next((lines[function] for lines in bodies if function in lines), [])


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.iterdir()):
        if path.name.endswith(SUFFIXES):
            yield path, path.read_text(encoding="utf-8", errors="replace")


def parse(text: str) -> list[Function]:
    """The functions of a file of assembly: that of LLVM's CPU and AMDGPU backends, or PTX."""
    return _parsed(_normalised("", text))


def _normalised(file: str, text: str) -> dict[str, list[str]]:
    """The normalised lines of each function of a file, by its name."""
    if file.endswith(SPIRV):
        return _of_spirv(text)
    lines = text.splitlines()
    data = _data(lines)
    return {name: list(_normal(body, name, data)) for name, body in bodies(lines)}


def _parsed(bodies: Mapping[str, list[str]]) -> list[Function]:
    calls = {name: bodies.keys() & set(_TOKEN.findall("\n".join(body))) for name, body in bodies.items()}  # fmt: skip
    return [_function(name, body, _called(name, calls, bodies)) for name, body in bodies.items()]


def _called(name: str, calls: Mapping[str, Set[str]], bodies: Mapping[str, list[str]]) -> list[str]:
    """The lines of all functions that a function calls, and that these call."""
    reached, todo = {name}, [name]
    while todo:
        new = calls[todo.pop()] - reached
        reached |= new
        todo += new
    return [line for other in sorted(reached - {name}) for line in (f"{other}:", *bodies[other])]


def host(vmfb: Path, disassembly: str) -> str:
    """The digest of a module's host program. `disassembly`: what iree-dump-module prints of it.

    The executables in the module are replaced by their place. Messages of failures name the features of the CPU, of which
    releases have different lists.
    """
    with zipfile.ZipFile(vmfb) as archive:
        stored = [archive.read(name) for name in archive.namelist() if name != "module.fb"]
    executables = {data.hex().upper() for data in stored}
    lines = []
    for line in disassembly.splitlines():
        words = line.partition("  //")[0].strip()
        name, equals, value = words.partition(" = ")
        if words.startswith("vm.rodata") and value in executables:
            lines.append(f"{name}{equals}executable")
        elif words.startswith("vm.fail"):
            lines.append(words.partition(",")[0])
        elif not words.startswith("vm.module"):
            lines.append(words)
    return _digest(lines)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _function(name: str, lines: Sequence[str], called: Sequence[str] = ()) -> Function:
    counted = sum(map(_is_instruction, lines))
    instructions = filter(_is_instruction, (*lines, *called))
    # Without registers, labels and places on the stack.
    unordered = sorted(_REGISTER.sub("R", _ON_STACK.sub("", line)) for line in instructions)
    return Function(name, _digest([*lines, *called]), _digest(unordered), counted)


def _is_instruction(line: str) -> bool:
    return not line.endswith(":") and not line.startswith(".")


def bodies(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Each function's name and lines, from its header to its end."""
    name, body = "", list[str]()
    for line in lines:
        if match := _BEGIN.match(line):
            if name:
                yield name, body
            name, body = match["name"] or match["entry"], [line]
        elif name:
            body.append(line)
            words = line.split()
            if line == "}" or (words[:1] == [".size"] and words[1].strip('",') == name):
                yield name, body
                name, body = "", []
    if name:
        yield name, body


def _data(lines: Sequence[str]) -> Mapping[str, str]:
    """The data at each label that is not of code, such as constants and tables of jumps."""
    values: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        words = " ".join(_COMMENT.sub("", line).split())
        if match := _LABEL.match(words):
            current = values.setdefault(match["label"], [])
        elif current is not None and words.startswith(_DATA):
            current.append(_NUMBERED.sub(r"\1\2_\4", words))
        elif words and not words.startswith((".size", ".p2align")):
            current = None
    known = {label: "{" + "; ".join(data) + "}" for label, data in values.items() if data}
    return known | {m["label"]: m["data"] for line in lines if (m := _PTX_DATA.match(line))}


def _normal(body: Iterable[str], name: str, data: Mapping[str, str]) -> Iterator[str]:
    for line in body:
        words = " ".join(_COMMENT.sub("", line).split())
        if words and not words.startswith(_LEFT_OUT):
            words = _TOKEN.sub(lambda match: data.get(match[0], match[0]), words)
            yield _NUMBERED.sub(r"\1\2_\4", words).replace(name, "SELF")


def _of_spirv(text: str) -> dict[str, list[str]]:
    """The lines of the function of a module of MLIR's SPIR-V dialect."""
    entry = re.search(r'spirv\.EntryPoint "\w+" @"?(?P<name>[\w$.]+)', text)
    name = entry["name"] if entry else ""
    lines = (re.sub(r"\s*loc\(.*\)$", "", line).strip() for line in text.splitlines())
    kept = (line for line in lines if line and not line.startswith("#loc"))
    return {name: [line.replace(name, "SELF") if name else line for line in kept]}
