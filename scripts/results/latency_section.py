"""The section `latency` of a row: its latency with an interval, and what may be wrong with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.config.cell import EVAL
from scripts.measure.timing import ratios
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming

WIDE_INTERVAL = math.log(ratios.SAME)
"""An interval that is wider than ± this needs an explanation."""
SHARE_OF_OTHERS = 0.05
"""The share of the cores that others may use before it is mentioned."""

_ANCHORS = {"onnxruntime": "ONNX Runtime", "jaxlib": "jaxlib", "torch": "PyTorch"}
"""The packages of the runtimes that anchor a group, and their names. torch is the last, because other rows report it too."""


def of_timing(
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
    noise = timing.noise(own.part)
    control = ratios.paired(*part.control_ms, noise) if part.control else None
    checked = control.interval() if control else None
    section: dict[str, Any] = {
        **figures(own.values_ms),
        "values_ms": list(own.values_ms),
        "uncounted_ms": list(own.uncounted_ms),
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
        "load": timing.load,
        "doubt": doubt(timing, own, checked, noise),
        "leaked_bytes": own.leaked_bytes,
    }
    # The usual figures for language models: milliseconds from a prompt to its first new token, and new tokens per second of
    # the whole batch.
    if test == EVAL and phase == "prefill":
        section["ttft_ms"] = section["ms"]
    if test == EVAL and phase == "decode":
        section["tokens_per_s"] = batch_size * 1e3 / section["ms"]
    return section


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
    causes = _causes(timing, part)
    if (count := len(own.values_ms)) < ratios.LEAST:
        counts = f"{_counted(count, 'generation')}, {_counted(own.turns, 'turn')} in the budget"
        return "; ".join((f"{counts}; an interval needs {ratios.LEAST} generations", *causes))
    if control and (control.low > 1 or control.high < 1):
        return f"two processes of {part.control} differ by a factor of {control.ratio:.3f}: the machine was too noisy"
    latency = ratios.of_logs([math.log(value) for value in own.values_ms])
    ratio = ratios.paired(own.anchor_ms, own.values_ms, noise) if own.anchor_ms else latency
    is_narrow = not ratio or ratio.interval().half_width <= WIDE_INTERVAL
    if is_narrow and (not latency or latency.interval().is_known):
        return ""
    return "; ".join(causes) or "processes of this program differ"


def _causes(timing: GroupTiming, part: PartTiming) -> list[str]:
    """What has disturbed the timing of a part."""
    causes = []
    if timing.foreign > SHARE_OF_OTHERS:
        load = f" (load {timing.load:.0f})" if timing.load else ""
        causes.append(f"other processes used {timing.foreign:.0%} of the cores{load}")
    if timing.steal > SHARE_OF_OTHERS:
        causes.append(f"the hypervisor took {timing.steal:.0%} of the cores")
    if left_out := part.generations - len(part.counted):
        causes.append(
            f"the machine was slower in {left_out} of {part.generations} generations, which do not count"
        )
    return causes


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def anchor_text(cell: str, versions: Mapping[str, str]) -> str:
    """The name of an anchor with its version, such as `eager/eval, PyTorch 2.15.0`."""
    _, _, path = cell.partition("/")
    package = next((name for name in _ANCHORS if name in versions), "torch")
    return f"{path}, {_ANCHORS[package]} {versions.get(package, 'of unknown version')}"
