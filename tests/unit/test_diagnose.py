"""diagnose: from exit code and log to a status, a reason to group by and a line to quote."""

import re
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core import exits
from scripts.frontends.torch_model.errors import Fault
from scripts.supervise import diagnose as diagnose_module
from scripts.supervise import outcome
from scripts.supervise.diagnose import DETAIL_CHARS, diagnose

# (status, reason, quoted line) of an iree-compile, torch or uv that exits with 1.
TOOLS = [
    ("error", "stack-allocation-limit", "'func.func' op exceeded stack allocation limit of 32768 bytes for function. Got 66048 bytes"),
    ("unsupported", "legalization", "failed to legalize operation 'torch.aten.foo' that was explicitly marked illegal"),
    ("error", "legalization", "failed to legalize operation 'vector.broadcast' that was explicitly marked illegal"),
    ("error", "shared-memory-limit", "function 'main$async_dispatch_2_reduction_197x768_f32' uses 197120 bytes of shared memory; exceeded the limit of 16384 bytes"),
    ("error", "distribution", "'func.func' op failed to distribute"),
    ("error", "bufferization", "failed to bufferize op"),
    ("error", "unknown-target", "missing GPU target in #hal.executable.target"),
    ("oom", "out-of-memory", "RESOURCE_EXHAUSTED; failed to allocate 8589934592 bytes"),
    ("error", "compiler-error", "'arith.addi' op operand #0 must be signless-integer-like"),
]  # fmt: skip

# (status, reason, last line) of a Python traceback.
TRACEBACKS = [
    ("error", "KeyError", "KeyError: 'fp64.0'"),
    ("error", "AssertionError", "AssertionError"),
    ("error", "missing-package", "torch._dynamo.exc.InternalTorchDynamoError: ModuleNotFoundError: No module named 'setuptools'"),
    ("unsupported", "not-implemented", "NotImplementedError: Could not run 'aten::foo'"),
    ("unsupported", "capture", "torch._dynamo.exc.Unsupported: Dynamic control flow is not supported"),
    ("unsupported", "capture", "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1)"),
    ("error", "disk-full", "OSError: [Errno 28] No space left on device"),
    ("error", "disk-full", "OSError: 8388608 requested and 2097152 written"),
    ("error", "disk-full", "RuntimeError: write failed, possibly out of disk space"),
    ("error", "exhausted", "OSError: [Errno 24] Too many open files: 'weights.irpa'"),
    ("error", "exhausted", "RuntimeError: can't start new thread"),
    ("error", "damaged-environment", "EOFError: marshal data too short"),
    ("error", "damaged-environment", "EOFError: EOF read where not expected"),
    ("error", "damaged-environment", "EOFError: EOF read where object expected"),
    ("error", "exhausted", "BlockingIOError: [Errno 11] Resource temporarily unavailable"),
    ("oom", "out-of-memory", "MemoryError"),
    ("oom", "out-of-memory", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9.31 GiB for an array with shape (50000, 50000) and data type float32"),
    ("oom", "out-of-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."),
    ("oom", "out-of-memory", "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)"),
]  # fmt: skip

MLIR_LOG = """\
warning: something old
results/export/bert/mlir/program.mlir:12:3: error: {}
    %81 = linalg.generic {{maps = [#map6]}}
          ^
results/export/bert/mlir/program.mlir:12:3: error: failed to run translation of source executable
"""
TRACEBACK_LOG = """\
UserWarning: an old warning
Traceback (most recent call last):
  File "/w/scripts/stages/export_program.py", line 38, in main
    raise ValueError("first")
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/w/x.py", line 3, in f
{}
"""


@pytest.mark.parametrize(("status", "reason", "line"), TOOLS)
def test_the_first_diagnostic_of_a_tool_is_classed_and_quoted(status, reason, line):
    found = diagnose(1, MLIR_LOG.format(line))
    assert (found.status, found.reason) == (status, reason)
    assert found.detail == f"{line} [program.mlir:12: %81 = linalg.generic {{maps = [#map6]}}]"


LINKED = """{}
/w/program.mlir:1:1: error: failed to link executable and generate target dylib (check above for more specific error messages)
module {{
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Linking failed; escaped command line returned exit code 32512:", "exhausted"),
        ("sh: 1: Cannot fork\nLinking failed; escaped command line returned exit code 512:", "exhausted"),
        ("  what():  Resource temporarily unavailable", "exhausted"),
        ("ld: No space left on device", "disk-full"),
        ("Linking failed; escaped command line returned exit code 256:", "compiler-error"),
        ("sh: 1: /e/iree-lld: not found\nLinking failed; escaped command line returned exit code 32512:", "compiler-error"),
    ],
)  # fmt: skip
def test_a_linker_that_says_nothing_about_the_program_decides(said, reason):
    assert diagnose(1, LINKED.format(said)).reason == reason


def test_the_class_is_that_of_the_message_and_not_of_the_source_below_it():
    log = """a/program.mlir:3:5: error: 'func.func' op failed to distribute
    cf.assert %4, "unsupported dtype"
"""
    assert diagnose(1, log).reason == "distribution"


@pytest.mark.parametrize(("status", "reason", "line"), TRACEBACKS)
def test_the_last_line_of_a_traceback_is_classed_and_quoted(status, reason, line):
    found = diagnose(1, TRACEBACK_LOG.format(line))
    assert (found.status, found.reason) == (status, reason)
    assert found.detail == line


@pytest.mark.parametrize(
    ("code", "message", "status", "reason"),
    [
        (exits.UNSUPPORTED, "the model changes a buffer", "unsupported", "unsupported"),
        (exits.UNSUPPORTED, "failed to legalize operation 'torch.foo'", "unsupported", "legalization"),
        (exits.UNSUPPORTED, "ModuleNotFoundError: No module named 'x'", "error", "missing-package"),
        (exits.UNSUPPORTED, "the model changes x in place (BUFFER_MUTATION)", "unsupported", "buffer-mutation"),
        (1, "m.py: the model changes x in place (BUFFER_MUTATION)", "unsupported", "buffer-mutation"),
        (exits.WRONG_RESULT, "output 0 differs", "error", "wrong-result"),
        (exits.WRONG_RESULT, "NONDETERMINISTIC_EAGER_RUN: output 0", "error", "nondeterministic-eager"),
        (1, "NONDETERMINISTIC_EAGER_RUN: output 0", "error", "nondeterministic-eager"),
        (exits.UNAVAILABLE, "no GPU", "unavailable", "no-device"),
        (exits.UNAVAILABLE, f"{exits.LACKS_PROFILE}: no subgroups of 32", "unavailable", "device-profile"),
        (exits.TOO_LARGE, "the weights need 9 GB", "oom", "estimated"),
        (1, "the model changes a buffer", "error", "stage-error"),
        (1, "envs/x.lock is not of envs/x.yaml: a==2 is pinned, the lock holds 1 of it.", "error", "stale-lock"),
        (1, "envs/x.lock: found 'a', expected a package", "error", "stale-lock"),
    ],
)  # fmt: skip
def test_a_stage_says_how_it_ended_by_its_exit_code_and_message(
    capsys, code, message, status, reason
):
    with pytest.raises(SystemExit) as ended:
        exits.fail(message, code)
    found = diagnose(ended.value.code, capsys.readouterr().err)
    assert (found.status, found.reason, found.detail) == (status, reason, message)


SEGFAULT = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "x.py", line 3 in f
  File "y.py", line 9 in main
"""


@pytest.mark.parametrize(
    ("number", "log", "status", "reason", "quoted"),
    [
        (signal.SIGABRT, "LLVM ERROR: Broken module found", "crashed", "SIGABRT", "LLVM ERROR: Broken module found"),
        (signal.SIGABRT, "iree-compile: a.cpp:9: void f(): Assertion `x > 0' failed.", "crashed", "SIGABRT", "Assertion `x > 0' failed"),
        (signal.SIGSEGV, SEGFAULT, "crashed", "SIGSEGV", "Segmentation fault; in f (x.py:3)"),
        (signal.SIGSEGV, "", "crashed", "SIGSEGV", "killed by SIGSEGV"),
        (signal.SIGSEGV, "1. Running pass 'Function Pass Manager' on module", "crashed", "SIGSEGV", "in Function Pass Manager"),
        (signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'", "oom", "out-of-memory", "std::bad_alloc"),
        (signal.SIGABRT, "LLVM ERROR: out of memory", "oom", "out-of-memory", "LLVM ERROR: out of memory"),
        (signal.SIGABRT, "LLVM ERROR: IO failure: No space left on device", "error", "disk-full", "No space left"),
        (signal.SIGSEGV, f"{SEGFAULT}\ncause: onnx.X alone crashes it too", "crashed", "SIGSEGV", "fault; onnx.X alone crashes it too; in f (x.py:3)"),
        (63, "", "crashed", "signal 63", "killed by signal 63"),
    ],
)  # fmt: skip
def test_a_signal_is_a_crash_that_says_where_unless_memory_ran_out(
    number, log, status, reason, quoted
):
    found = diagnose(-number, log)
    assert (found.status, found.reason) == (status, reason)
    assert quoted in found.detail


OWN_WORDS = """\
a/program.mlir:1:2: error: a tool said this
error: first
KeyError: 'x'
error: last, failed to bufferize op
  error: not ours
ValueError: after
"""


@pytest.mark.parametrize("code", exits.STATUS_OF)
def test_a_stage_that_says_how_it_ended_is_quoted_by_its_own_last_words(code):
    assert diagnose(code, OWN_WORDS).detail == "last, failed to bufferize op"
    assert diagnose(code, "ValueError: first").detail == "ValueError: first"
    assert diagnose(1, OWN_WORDS).detail == "a tool said this"


@pytest.mark.parametrize(
    ("log", "detail"),
    [
        ("", "exit code 2; no output"),
        ("\n \n", "exit code 2; no output"),
        ("usage: x\nbad choice\n\n", "exit code 2; last line: bad choice"),
    ],
)
def test_a_log_with_no_diagnostic_still_has_a_detail(log, detail):
    found = diagnose(2, log)
    assert (found.status, found.reason, found.detail) == ("error", "exit-2", detail)


pieces = st.sampled_from(
    ["error: ", "error:  \n", "ValueError", "MemoryError\n", "LLVM ERROR:", "Assertion `' failed",
     "bad_alloc", "error[a-b]: ", "w" * DETAIL_CHARS, "error: a\t  b", "\n", "\r", "\x85", "\t", "Running pass ''", '  File "", line 0 in f']
)  # fmt: skip


@given(st.integers(-64, 255).filter(bool), st.lists(st.text(max_size=500) | pieces).map("".join))
def test_there_is_always_a_reason_and_one_bounded_line_of_detail(code, log):
    found = diagnose(code, log)
    assert found.status in (*outcome.FAILED, outcome.UNAVAILABLE)
    assert found.reason.strip()
    assert found.detail.strip()
    assert found.detail == " ".join(found.detail.split())
    assert len(found.detail) <= DETAIL_CHARS


def test_an_installers_causes_are_quoted_with_its_error():
    found = diagnose(
        1,
        "Using Python 3.11.7 environment at: .venvs/x\n"
        "error: No solution found when resolving dependencies\n"
        "  cause: Because there is no version of torch-xla==9 and you require torch-xla==9\n"
        "something else\n",
    )
    assert (found.status, found.reason) == ("error", "installer")
    assert found.detail == (
        "No solution found when resolving dependencies: Because there is no version of "
        "torch-xla==9 and you require torch-xla==9"
    )


def test_a_stage_that_names_its_reason_is_believed_unless_memory_or_the_disk_was_full(capsys):
    for message, status, reason in (
        ("m.py: get_dummy_input() returned int", "error", "model-inputs"),
        ("m.py: its forward pass raised RuntimeError: unknown flag", "error", "model-inputs"),
        ("m.py: get_model(): RuntimeError: can't allocate memory", "oom", "out-of-memory"),
        ("m.py: get_model(): OSError: No space left on device", "error", outcome.DISK_FULL),
        ("m.py: its forward pass raised NotImplementedError", "unsupported", "not-implemented"),
    ):
        with pytest.raises(SystemExit) as ended:
            exits.fail(message, reason="model-inputs")
        found = diagnose(ended.value.code, "note: one\n" + capsys.readouterr().err)
        assert (found.status, found.reason, found.detail) == (status, reason, message)


USERS = """\
Traceback (most recent call last):
  File "{scripts}/lib/lowering/capture.py", line 3, in capture
    torch.export.export(model)
  File "{folder}/mine.py", line 12, in forward
    return self.inner(x)
  File "{folder}/helper.py", line 7, in forward
    if x.sum()   > 0:
  File "/site-packages/torch/fx/x.py", line 1, in guard
    raise
torch.fx.experimental.GuardOnDataDependentSymNode: Could not guard{more}

from user code:
   File "<eval_with_key>.1", line 5, in forward
    sum_1 = x.sum()
"""


@pytest.mark.parametrize("more", ["", " " + "on data-dependent expression " * 30])
def test_an_exception_keeps_the_users_own_line(tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)  # where generated code seems to be
    log = USERS.format(scripts="/x/scripts", folder=tmp_path, more=more)
    found = diagnose(1, log, str(tmp_path / "mine.py"))
    assert (found.status, found.reason) == ("unsupported", "capture")
    assert found.detail.startswith("torch.fx.experimental.GuardOnDataDependentSymNode: Could not")
    assert found.detail.endswith(" (helper.py:7: if x.sum() > 0:)")
    assert len(found.detail) <= DETAIL_CHARS


def test_lines_of_others_are_not_the_users(tmp_path):
    log = USERS.format(scripts="/x/scripts", folder="/elsewhere", more="")
    for file in ("", str(tmp_path / "mine.py")):
        detail = diagnose(1, log, file).detail
        assert detail == "torch.fx.experimental.GuardOnDataDependentSymNode: Could not guard"


@pytest.mark.parametrize("reason", sorted({*Fault, *(reason for _, _, reason in diagnose_module._REASONS)}))  # fmt: skip
def test_every_reason_is_explained(reason):
    page = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| [^|]*`{reason}`[^|]* \|", page, re.MULTILINE)


def test_a_failure_ends_with_what_the_stage_knows_of_its_cause():
    log = "p.mlir:7:10: error: failed to legalize operation 'torch.constant.int'\ncause: of onnx.Unique\n"
    found = diagnose(1, log)
    assert (found.reason, found.detail) == ("legalization", "failed to legalize operation 'torch.constant.int' (of onnx.Unique)")  # fmt: skip


def test_a_crash_of_llvm_quotes_the_operation_on_its_second_line():
    log = (
        "LLVM ERROR: Failed to infer result type(s):\n"
        '"stablehlo.shift_right_arithmetic"(...) {} : (tensor<4x1xi8>, tensor<4x2xi8>) -> ( ??? )\n'
        "Fatal Python error: Aborted\n"
    )
    found = diagnose(-signal.SIGABRT, log)
    assert found.detail.startswith(
        "killed by SIGABRT; LLVM ERROR: Failed to infer result type(s): "
        '"stablehlo.shift_right_arithmetic"(...)'
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("KeyError: 140178394432080", 'KeyError: <id> (fx_importer.py:1781: name = self.names[id(function)])'),
        ("RuntimeError: <Mode object at 0x7f4476d72110> is no mode", "RuntimeError: <Mode object> is no mode"),
        ("RuntimeError: <function f at 0x1c3a5d0>: 0x55d0f2c1a2b0", "RuntimeError: <function f>: <id>"),
        ("RuntimeError: 140178394432080 and 94100000000000 differ", "RuntimeError: <id> and <id> differ"),
        ("RuntimeError: 9223372036854775807, 140178394432.5 and 0x7FC00000", "RuntimeError: 9223372036854775807, 140178394432.5 and 0x7FC00000"),
    ],
)  # fmt: skip
def test_no_detail_has_an_address_of_memory(said, expected):
    frame = '  File "/e/fx_importer.py", line 1781, in f\n    name = self.names[id(function)]\n'
    assert diagnose(1, f"Traceback (most recent call last):\n{frame}{said}\n").detail == expected
    assert diagnose(exits.UNSUPPORTED, f"error: {said}\n").detail.startswith(
        expected.split(" (")[0]
    )


CAPTURED = """\
Traceback (most recent call last):
  File "/w/scripts/frontends/lowering/capture.py", line 53, in capture
    program = torch.export.export(
  File "/e/lib/python3.11/site-packages/torch/export/__init__.py", line 311, in export
    raise e
  File "/m/var_neg.py", line 8, in forward
    return torch.var(x, dim=1, correction=-1)
ValueError: correction argument should be non-negative
"""


def test_what_is_raised_while_a_model_is_captured_is_unsupported_with_the_users_line():
    found = diagnose(1, CAPTURED, "/m/var_neg.py")
    assert (found.status, found.reason) == ("unsupported", "capture")
    assert found.detail == (
        "ValueError: correction argument should be non-negative "
        "(var_neg.py:8: return torch.var(x, dim=1, correction=-1))"
    )
    other = CAPTURED.replace("torch/export/__init__.py", "torch_xla/stablehlo.py")
    assert diagnose(1, other, "/m/var_neg.py").reason == "ValueError"
    assert (
        diagnose(1, CAPTURED + "Traceback (most recent call last):\nKeyError: 3\n").reason
        == "KeyError"
    )
    memory = CAPTURED.replace("ValueError: correction", "MemoryError: correction")
    assert diagnose(1, memory).status == "oom"
