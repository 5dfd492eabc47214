"""The text of a tuning spec: a library of the transform dialect that sets lowering configurations.

The form is that of IREE's documentation (https://iree.dev/reference/tuning), with the default entry point: named
sequences that match an operation and yield a configuration, and one that tries them on each operation.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.lib.iree.specs.dispatches import Operation
from scripts.lib.iree.specs.lowering_config import LoweringConfig

FLAG = "--iree-codegen-tuning-spec-path"
"""The flag of iree-compile that takes the file."""
COPY = "tuning_spec.mlir"
"""The file's name in a reproducer."""
NONE = "// No configuration was faster.\n"
"""The text of a file without a spec, which has to say something: an empty artifact is one that was not made."""


SERIAL = "--mlir-disable-threading"
"""The flag with which iree-compile works on one dispatch at a time."""


def serial(flags: Iterable[str]) -> list[str]:
    """The flag that a compilation needs if its flags name a tuning spec: with several threads, iree-compile 3.13 hangs at
    times (2 of 52 compilations of one program). A thread reads the spec under a lock, takes another dispatch while it waits for a part of that, and wants
    the lock again (IREECodegenDialect::getOrLoadTransformLibraryModule; https://github.com/iree-org/iree/issues/22842 is the
    same in another place)."""
    return [SERIAL] if named(flags) else []


def named(flags: Iterable[str]) -> Path | None:
    """The tuning spec that flags of iree-compile name; None if they name none. Of several, the compiler takes the last."""
    values = [value for name, _, value in (flag.partition("=") for flag in flags) if name == FLAG]
    return Path(values[-1]) if values else None


def in_bundle(flags: Iterable[str]) -> list[str]:
    """Flags with the copy of the spec in a reproducer in place of the file that they name."""
    return [f"{FLAG}={COPY}" if flag.partition("=")[0] == FLAG else flag for flag in flags]


_MODULE = """\
module attributes {{transform.with_named_sequence, iree_codegen.tuning_spec_with_default_entrypoint}} {{
  transform.named_sequence @apply_op_config(%op: !transform.any_op {{transform.readonly}}, %config: !transform.any_param {{transform.readonly}}) {{
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    transform.yield
  }}
{matchers}\
  transform.named_sequence @__kernel_config(%variant: !transform.any_op {{transform.consumed}}) -> !transform.any_op attributes {{iree_codegen.tuning_spec_entrypoint}} {{
    %done = transform.foreach_match in %variant
{pairs}
        : (!transform.any_op) -> !transform.any_op
    transform.yield %done : !transform.any_op
  }}
}}
"""
_MATCHER = """\
  transform.named_sequence @match_{number}(%op: !transform.any_op {{transform.readonly}}) -> (!transform.any_op, !transform.any_param) {{
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %op {{
    ^bb0({arguments}):
{operation}
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    %config = transform.param.constant #iree_codegen.compilation_info<lowering_config = {config}, translation_info = {pipeline}> -> !transform.any_param
    transform.yield %op, %config : !transform.any_op, !transform.any_param
  }}
"""


def text(chosen: Mapping[Operation, LoweringConfig]) -> str:
    """The spec that gives these operations these configurations."""
    matchers = "".join(
        _MATCHER.format(
            number=number,
            arguments=", ".join(f"%arg{at}: {kind}" for at, kind in enumerate(operation.types)),
            operation=textwrap.indent(operation.text, "      "),
            config=config,
            pipeline=operation.pipeline,
        )
        for number, (operation, config) in enumerate(chosen.items())
    )
    pairs = ",\n".join(f"        @match_{at} -> @apply_op_config" for at in range(len(chosen)))
    return _MODULE.format(matchers=matchers, pairs=pairs)
