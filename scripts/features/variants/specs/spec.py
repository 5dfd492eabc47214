"""Tuning specs: libraries of the transform dialect that set lowering configurations.

The form is that of IREE's documentation (https://iree.dev/reference/tuning), with the default entry point: named
sequences that match an operation and yield a configuration, and one that tries them on each operation.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scripts.features.variants.specs import dispatches
from scripts.features.variants.specs.dispatches import Dispatch, LoweringConfig, Operation
from scripts.iree import compile_options

NONE = "// No configuration was faster.\n"
"""The text of a file without a spec, which has to say something: an empty artifact is one that was not made."""

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


def matched(
    all_dispatches: Iterable[Dispatch], program: Path, flags: Sequence[str], folder: Path
) -> set[Operation]:
    """The operations of dispatches for which the compiler takes a configuration from a spec: one may have another form
    when the spec is read than when it was printed.

    Compiles the program up to the choice of configurations, with a spec that gives each operation another one. Exits as
    the compiler does if it fails.
    """
    other = {
        dispatch: config
        for dispatch in all_dispatches
        if (config := next(dispatch.operation.config.neighbours(dispatch.operation.largest), None))
    }
    if not other:
        return set()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.mlir"
    given = {dispatch.operation: config for dispatch, config in other.items()}
    path.write_text(text(given), encoding="utf-8")
    now: dict[str, set[LoweringConfig]] = {}
    flags = [*flags, f"{compile_options.SPEC_FLAG}={path}"]
    flags += compile_options.serial_flags(flags)
    for written in dispatches.write_benchmarks(program, flags, folder / "dispatches"):
        functions, _, configs = dispatches.read(written.read_text(encoding="utf-8"))
        now |= dict.fromkeys(functions, configs)
    return {
        dispatch.operation
        for dispatch, config in other.items()
        if any(config in now.get(name, ()) for name in dispatch.functions)
    }
