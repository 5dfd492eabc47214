"""The code of a compiled program: its host program and the assembly of every dispatch, without what differs between equal code.

Paths, lines, debug information, comments and the numbers of functions are left out, and data has its value in place of its
label. So two builds of a program, even by different releases of IREE, have the same code if their digests are equal.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.iree.inner_loop import Loop, innermost

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
    unordered = sorted(map(_without_places, filter(_is_instruction, (*lines, *called))))
    return Function(name, _digest([*lines, *called]), _digest(unordered), counted)


def _is_instruction(line: str) -> bool:
    return not line.endswith(":") and not line.startswith(".")


def _without_places(line: str) -> str:
    """An instruction without registers, labels and places on the stack."""
    return _REGISTER.sub("R", _ON_STACK.sub("", line))


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
