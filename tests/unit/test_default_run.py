"""benchmarks.default_run: the half-widths and verdicts of speed-ups, and the controls of groups."""

import json

from benchmarks import default_run


def record(target: str, name: str, group: str, speedup: tuple, control: tuple) -> dict:
    latency = {
        "ms": 1.0,
        "values_ms": [1.0] * 4,
        "generations": 4,
        "group": group,
        "foreign": 0.25,
        "steal": 0.0,
    }
    for base, ends in {"speedup_vs_eager": speedup, "speedup_vs_inductor": (None,) * 3}.items():
        latency |= dict(zip((base, f"{base}_low", f"{base}_high"), ends, strict=True))
    latency |= dict(zip(("control_ratio", "control_low", "control_high"), control, strict=True))
    return {
        "model": {"name": name, "suite": "vmfbench"},
        "experiment": {"runtime": "iree", "frontend": "f", "target": target, "test": "eval", "device": "cpu"}
        | {"dtype": "f32", "batch_size": 1, "backend": "llvm-cpu"},
        "outcome": {"status": "ok", "detail": "", "reason": ""},
        "verification": {"code": "PASS"},
        "latency": latency | {"doubt": "few generations"},
        "run": {},
        "runs": [{"total_s": 1.0, "iterations": 1}],
    }  # fmt: skip


RECORDS = [
    record("llvm-cpu", "a", "a/cpu", (2.0, 1.98, 2.02), (1.0, 0.99, 1.01)),
    record("llvm-cpu", "b", "b/cpu", (1.0, 0.98, 1.02), (1.02, 1.01, 1.03)),
    record("llvm-cpu", "c", "c/cpu", (1.1, 0.9, 1.3), (1.0, None, None)),
    record("llvm-cpu", "d", "d/cpu", (0.5, None, None), (1.0, 0.99, 1.01)),
    record("other", "e", "a/cpu", (0.1, 0.09, 0.11), (1.0, 0.99, 1.01)),
]


def lines(table) -> list[tuple[str, ...]]:
    """Return the cells of a table, line by line."""
    return list(zip(*(column.cells for column in table.columns), strict=True))


def test_speed_ups_of_a_target_are_counted_by_verdict_and_what_is_undecided_is_named(tmp_path):
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    speedups, undecided, groups = default_run.figures(results, "llvm-cpu")
    eager, inductor = lines(speedups)
    assert eager == ("eager", "4", "3", "2.0%", "15.1%", "2", "1", "0", "1", "2")
    assert inductor == ("inductor", "0", "0", "–", "–", "0", "0", "0", "0", "0")
    assert speedups.caption == "decided or the same: 2 of 4"
    assert lines(undecided) == [
        ("c/f/llvm-cpu", "eager", "1.10", "18.4%", "few generations"),
        ("d/f/llvm-cpu", "eager", "0.50", "–", "few generations"),
    ]
    assert lines(groups)[:2] == [
        ("a/cpu", "2", "4", "1.000", "0.990 to 1.010", "", "25%", "0%"),
        ("b/cpu", "1", "4", "1.020", "1.010 to 1.030", "yes", "25%", "0%"),
    ]
    assert groups.caption.startswith("controls whose interval excludes 1: 1 of 4.")
