"""The section `latency` of a record: what the timing of its group says about the row, without other rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.matrix import training
from scripts.timing import ratios
from scripts.timing.group_timing import GroupTiming, MemberTiming

WIDE = math.log(ratios.SAME)
"""An interval that is wider than ± this needs an explanation."""
OTHERS = 0.05
"""The share of the cores that others may use before it is mentioned."""


def of(
    timing: GroupTiming,
    group: str,
    member: str,
    test: str,
    phase: str | None,
    batch_size: int,
    anchor: str | None,
) -> dict[str, Any]:
    """The section of a row that was timed.

    `group`, `member`: the names of the cells. `anchor`: the group's anchor with its version, None if it has none.
    """
    own = timing.members[member]
    part = timing.parts[own.part]
    noise = _noise(timing, own.part)
    control = ratios.paired(*part.control_ms, noise) if part.control else None
    checked = control.interval() if control else None
    section: dict[str, Any] = {
        **figures(own.values_ms),
        "values_ms": list(own.values_ms),
        "anchor_ms": list(own.anchor_ms),
        "anchor": anchor,
        "group": f"{group} {own.part} {timing.started:.3f}",
        "generations": len(own.values_ms),
        **{key: getattr(own, key) for key in ("turns", "calls", "p50_ms", "p90_ms", "p99_ms")},
        "control_ratio": checked and checked.ratio,
        "control_low": checked and checked.low,
        "control_high": checked and checked.high,
        "noise": noise,
        "started": timing.started,
        "foreign": timing.foreign,
        "steal": timing.steal,
        "doubt": doubt(timing, own, checked, noise),
        "leaked_bytes": own.leaked_bytes,
    }
    # The usual figures for language models: milliseconds from a prompt to its first new token, and new tokens per second of
    # the whole batch.
    if test == training.EVAL and phase == "prefill":
        section["ttft_ms"] = section["ms"]
    if test == training.EVAL and phase == "decode":
        section["tokens_per_s"] = batch_size * 1e3 / section["ms"]
    return section


def _noise(timing: GroupTiming, number: int) -> float | None:
    """The noise of a part of a group: of its members, with the second process of the control."""
    part = timing.parts[number]
    values = {
        name: own.values_ms
        for name, own in timing.members.items()
        if own.part == number and len(own.values_ms) == len(part.counted)
    }
    return ratios.noise(values | ({"": part.control_ms[1]} if part.control else {}))


def figures(values_ms: Sequence[float]) -> dict[str, Any]:
    """The latency of a row in milliseconds, and the ends of its interval; None if there is none."""
    known = ratios.of_logs([math.log(ms) for ms in values_ms])
    interval = known.interval() if known else None
    return {
        "ms": math.exp(ratios.log_mean(values_ms)),
        "low_ms": interval and interval.low,
        "high_ms": interval and interval.high,
    }


def doubt(
    timing: GroupTiming,
    own: MemberTiming,
    control: ratios.Interval | None,
    noise: float | None = None,
) -> str:
    """Why the ratios of a row have no interval or a wide one, or may be wrong; "" if nothing was seen."""
    part = timing.parts[own.part]
    if (count := len(own.values_ms)) < ratios.LEAST:
        return f"{count} generation{'s' * (count > 1)}, {own.turns} turns in the budget; an interval needs {ratios.LEAST} generations"
    if control and (control.low > 1 or control.high < 1):
        return f"two processes of {part.control} differ by a factor of {control.ratio:.3f}: the machine was not fit"
    if own.anchor_ms:
        ratio = ratios.paired(own.anchor_ms, own.values_ms, noise)
    else:
        ratio = ratios.of_logs([math.log(value) for value in own.values_ms])
    if not ratio or ratio.interval().half_width <= WIDE:
        return ""
    causes = []
    if timing.foreign > OTHERS:
        causes.append(f"other processes used {timing.foreign:.0%} of the cores")
    if timing.steal > OTHERS:
        causes.append(f"the hypervisor took {timing.steal:.0%} of the cores")
    if left_out := part.generations - len(part.counted):
        causes.append(
            f"the machine was slower in {left_out} of {part.generations} generations, which do not count"
        )
    return "; ".join(causes) or "processes of this program differ"


def anchor_text(cell: str, versions: Mapping[str, str]) -> str:
    """The name of an anchor with its version, such as `eager/eval, PyTorch 2.15.0`."""
    _, _, path = cell.partition("/")
    package = next((name for name in _ANCHORS if name in versions), "torch")
    return f"{path}, {_ANCHORS[package]} {versions.get(package, 'of unknown version')}"


_ANCHORS = {"onnxruntime": "ONNX Runtime", "jaxlib": "jaxlib", "torch": "PyTorch"}
"""The packages of the runtimes that anchor a group, and their names. torch is the last, because other rows report it too."""
