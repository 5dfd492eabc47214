"""The innermost loop of assembly and the mix of its instructions, on parts of what iree-compile 3.13 writes for an Emerald Rapids, and for AArch64."""

from __future__ import annotations

from scripts.iree.assembly import innermost

NARROW = """\
SELF:
xorl %r9d, %r9d
.LBB_1:
movq %r11, %r13
vmovups (%r12,%rdx,4), %zmm7
.LBB_3:
vmovss (%r13), %xmm7
vsubss (%rax,%r15,4), %xmm7, %xmm7
vmovss (%rsi,%r15,4), %xmm8
vfmadd213ss (%rdi,%r15,4), %xmm7, %xmm8
vdivss %xmm2, %xmm7, %xmm7
vmovss %xmm7, (%r10,%rbx,4)
addq $576, %r13
cmpq %rbx, %r9
jne .LBB_3
vaddps %zmm7, %zmm6, %zmm6
jb .LBB_1
retq
"""
SPILLING = """\
.LBB_4:
vmovaps 1488(%rsp), %xmm20
vinsertps $16, 96(%rsp), %xmm20, %xmm20
vmovaps %xmm20, 96(%rsp)
leaq 64(%rsp), %rax
vmovups (%rsp,%rdi,4), %zmm26
vbroadcastss -34520(%r15), %zmm25
vfmadd231ps %zmm20, %zmm25, %zmm14
vaddps %zmm25, %zmm0, %zmm1
vmovshdup %xmm8, %xmm20
vgatherdps (%rax,%zmm1,4), %zmm2 {%k1}
callq expf
jb .LBB_4
"""
WIDE = """\
.LBB_1:
leaq (%rcx,%rdi,4), %r8
vxorps %xmm0, %xmm0, %xmm0
.LBB_2:
vmovaps -1920(%r8), %zmm21
vfmadd231ps -3580(%rdx,%r9,4){1to16}, %zmm21, %zmm0
vfmadd231ps -3068(%rdx,%r9,4){1to16}, %zmm21, %zmm1
addq $2048, %r8
jb .LBB_2
vmovaps %zmm0, (%rax,%rdi,4)
.LBB_3:
vmovss (%r13), %xmm7
vfmadd213ss (%rdi,%r15,4), %xmm7, %xmm8
jne .LBB_3
jne .LBB_1
"""
ROTATED = """\
xorl %r11d, %r11d
jmp .LBB_1
.LBB_7:
incq %r11
je .LBB_8
.LBB_1:
xorl %r13d, %r13d
jmp .LBB_2
.LBB_6:
vaddps %zmm9, %zmm10, %zmm9
jae .LBB_7
.LBB_2:
vmulps %zmm10, %zmm5, %zmm10
jmp .LBB_6
.LBB_8:
retq
"""
"""Of two loops, the outer one ends in the middle of the inner one's text."""
AARCH64 = """\
.LBB_1:
movi v0.2d, #0000000000000000
.LBB_2:
uzp2 v7.4s, v24.4s, v19.4s
ldur s19, [x5, #-64]
ldur q7, [x29, #-112]
fmla v28.4s, v25.4s, v3.s[0]
fadd v1.4s, v25.4s, v3.4s
cmp x4, #49, lsl #12
b.ne .LBB_2
b.ne .LBB_1
"""


def loop(text: str):
    return innermost(text.splitlines())


def test_a_loop_of_one_value_at_a_time_is_told_from_the_vectors_around_it():
    found = loop(NARROW)
    assert found.text[0] == ".LBB_3:"
    assert (found.depth, found.instructions, found.bits) == (2, 9, 32)
    assert (found.arithmetic, found.fused) == ({32: 3}, 1)
    assert (found.single, found.stack, found.shuffles) == (3, 0, 0)


def test_spills_gathers_shuffles_and_calls_are_counted_and_an_address_is_no_access():
    found = loop(SPILLING)
    assert (found.arithmetic, found.fused, found.bits) == ({512: 2}, 1, 512)
    assert (found.stack, found.single, found.shuffles) == (3, 0, 1)
    assert (found.gathers, found.calls) == (1, ["expf"])


def test_the_loop_with_most_arithmetic_is_chosen_of_two_at_the_same_depth():
    found = loop(WIDE)
    assert (found.text[0], found.depth, found.instructions) == (".LBB_2:", 2, 5)
    assert (found.arithmetic, found.fused, found.single, found.stack) == ({512: 2}, 2, 0, 0)


def test_a_deeper_loop_is_taken_to_run_more_often():
    fused = "vfmadd231ps %zmm20, %zmm25, %zmm14\n"
    inner = f".LBB_2:\n{fused}jb .LBB_2\n"
    text = f".LBB_1:\n{inner}jb .LBB_1\n.LBB_3:\n{{}}jb .LBB_3"
    assert loop(text.format(fused * 7)).depth == 2
    assert loop(text.format(fused * 9)).depth == 1
    # But not one that has a loop inside.
    around = f".LBB_1:\n{fused * 20}{inner}jb .LBB_1"
    assert loop(around).arithmetic == {512: 1}


def test_the_blocks_of_a_loop_may_stand_in_any_order():
    found = loop(ROTATED)
    assert (found.depth, found.arithmetic, found.instructions) == (2, {512: 2}, 4)


def test_without_a_loop_the_whole_function_counts_and_without_arithmetic_its_widest_register():
    found = loop("SELF:\nvmovups (%rdi), %ymm0\nvmovups %ymm0, (%rsi)\nje .LBB_2\n.LBB_2:\nretq")
    assert (found.depth, found.instructions, found.arithmetic, found.bits) == (0, 4, {}, 256)
    assert loop("movq (%rsi), %rdi\nretq").bits == 0
    assert loop("vpminsd %zmm1, %zmm2, %zmm3\nvbroadcastss (%rdi), %zmm4").arithmetic == {512: 1}


def test_aarch64():
    found = loop(AARCH64)
    assert (found.depth, found.arithmetic, found.fused, found.bits) == (2, {128: 2}, 1, 128)
    assert (found.stack, found.single, found.shuffles) == (1, 1, 1)
