"""The digests of code: equal for equal code under other names, paths and places, and different for other instructions or data."""

from __future__ import annotations

import zipfile

import pytest

from scripts.iree import assembly

CPU = """\
	.file	"program_linked"
	.section	.rodata.cst4,"aM",@progbits,4
	.type	.LCPI{n}_0,@object
.LCPI{n}_0:
	.long	{constant}                      # float 1
	.size	.LCPI{n}_0, 4
	.section	".text.{name}","ax",@progbits
	.type	{name},@function
{name}:
.Lfunc_begin{n}:
	.file	1 "{folder}" "program.mlir"
	.loc	1 {line} 12 prologue_end
	.cfi_startproc
	pushq	%rbp
	{instruction}
.Ltmp{line}:
	vbroadcastss	.LCPI{n}_0(%rip), %ymm0   # comment
	jne	.LBB{n}_1
.LBB{n}_1:
	callq	helper
	retq
.Lfunc_end{n}:
	.size	{name}, .Lfunc_end{n}-{name}
	.type	helper,@function
helper:
	{helped}
	retq
	.size	helper, 4
"""
PLACE = {"n": 3, "name": "main$async_dispatch_3_conv_8x8", "folder": "/a", "line": 7}
CODE = {"instruction": "subq	$352, %rsp", "constant": "0x3f800000", "helped": "nop"}
ELSEWHERE = {"n": 14, "name": "main$async_dispatch_9_conv_8x8", "folder": "/other/b", "line": 81}

PTX = """\
.version 7.6
.global .align 4 .b8 table_{n}[4] = {{{table}}};
	// .globl	{name}
.visible .entry {name}(
	.param .u64 .ptr .global .align 16 {name}_param_0
)
.maxntid 32, 1, 1
{{
	.reg .b32 	%r<8>;
	@%p1 bra 	$L__BB{n}_2;
	{instruction}
	mov.b64 	%rd1, table_{n};
$L__BB{n}_2:
	ret;
}}
"""


def digest(template: str, **values: object) -> str:
    parsed = assembly.parse(template.format(**values))
    return next(f.digest for f in parsed if f.name == values["name"])


def test_code_elsewhere_in_a_program_has_the_same_digest():
    assert digest(CPU, **PLACE, **CODE) == digest(CPU, **ELSEWHERE, **CODE)


@pytest.mark.parametrize(
    "other",
    [
        {"instruction": "subq	$320, %rsp"},
        {"constant": "0x40000000"},
        {"helped": "ud2"},
    ],
)
def test_another_instruction_constant_or_callee_is_other_code(other):
    assert digest(CPU, **PLACE, **CODE) != digest(CPU, **PLACE, **CODE | other)


def test_instructions_are_lines_that_are_no_labels_and_no_directives():
    function, helper = assembly.parse(CPU.format(**PLACE, **CODE))
    assert (function.instructions, helper.instructions) == (6, 2)


def test_ptx_is_told_apart_by_its_instructions_and_tables():
    add, other = "add.s32 	%r3, %r2, -9;", "add.s32 	%r3, %r2, 9;"
    here = {"name": "main_dispatch_1_conv", "n": 1, "table": "1, 2"}
    there = {"name": "main_dispatch_22_conv", "n": 22, "table": "1, 2"}
    assert digest(PTX, **here, instruction=add) == digest(PTX, **there, instruction=add)
    assert digest(PTX, **here, instruction=add) != digest(PTX, **here, instruction=other)
    changed = here | {"table": "1, 3"}
    assert digest(PTX, **here, instruction=add) != digest(PTX, **changed, instruction=add)


def test_only_dispatches_are_listed(tmp_path):
    (tmp_path / "program.s").write_text(CPU.format(**PLACE, **CODE))
    (tmp_path / "program.ll").write_text("define void @helper()")
    listed = assembly.functions(tmp_path, {PLACE["name"]})
    assert [function.name for function in listed] == [PLACE["name"]]


def test_the_host_program_is_the_same_with_other_executables_and_messages(tmp_path):
    text = (
        "vm.module @{name} version 0\n"
        "vm.rodata[0] = {rodata}\n"
        "vm.rodata[1] = {executable}  // {size}b\n"
        '  vm.fail %i1, "no device {name}"\n'
        "  vm.call @hal.command_buffer.dispatch({ordinal})\n"
    )

    def host(executable: bytes, **values: object) -> str:
        vmfb = tmp_path / "m.vmfb"
        with zipfile.ZipFile(vmfb, "w") as archive:
            archive.writestr("module.fb", b"host")
            archive.writestr("program.so", executable)
        said = {"name": "a", "rodata": "0A", "ordinal": 1} | values
        return assembly.host(
            vmfb, text.format(executable=executable.hex().upper(), size=len(executable), **said)
        )

    assert host(b"\x7fELF1") == host(b"\x7fELF22", name="b")
    assert host(b"\x7fELF1") != host(b"\x7fELF1", rodata="0B")
    assert host(b"\x7fELF1") != host(b"\x7fELF1", ordinal=2)


def one_function(*instructions: str) -> assembly.Function:
    body = "\n".join(f"\t{text}" for text in instructions)
    [function] = assembly.parse(f"\t.type\tf,@function\nf:\n{body}\n\t.size\tf, 9\n")
    return function


BODY = ("subq	$384, %rsp", "vmovaps	64(%rsp), %zmm3", "addq	$8, %rax", "cmpq	$5, %rcx", "v_add_f32 v3, s[4:5], v[0:3]")  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("subq	$384, %rsp", "subq	$448, %rsp"),
        ("vmovaps	64(%rsp), %zmm3", "vmovaps	128(%rsp), %zmm17"),
        ("v_add_f32 v3, s[4:5], v[0:3]", "v_add_f32 v13, s[8:9], v[4:7]"),
    ],
)
def test_other_registers_places_on_the_stack_and_order_are_the_same_instructions(before, after):
    first = one_function(*BODY)
    other = one_function(*(after if line == before else line for line in reversed(BODY)))
    assert first.digest != other.digest
    assert first.unordered == other.unordered


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("addq	$8, %rax", "addq	$16, %rax"),
        ("cmpq	$5, %rcx", "cmpq	$6, %rcx"),
        ("vmovaps	64(%rsp), %zmm3", "vmovaps	64(%rax), %zmm3"),
        ("vmovaps	64(%rsp), %zmm3", "vmovups	64(%rsp), %zmm3"),
    ],
)
def test_other_numbers_and_operations_are_other_instructions(before, after):
    other = one_function(*(after if line == before else line for line in BODY))
    assert one_function(*BODY).unordered != other.unordered
