"""Complete records of rows, many of them or with hostile texts, for the tests of results/report.html."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from pathlib import Path
from typing import Any

from scripts.results import latency_section
from scripts.results.results_file import cell_of
from scripts.tools.profile.profile_files import PROFILES
from scripts.tools.report.web.page_source import Source
from tests.rows import RECORDS

Record = dict[str, Any]

HOSTILE = "<img src=x onerror=window.hacked=1>"
HOSTILE_LOG = "</script><script>window.hacked=1</script>\n" + HOSTILE
_MEASURED = {"call_ms": 10.0, "profiled_ms": 10.0, "control_ms": [10.0, 10.1], "foreign": 0.0, "load": 1.0}  # fmt: skip
_ROUNDS = {"between_ms": [0.5], "outside_ms": [0.5], "kinds": {"": "Net", "fc": "Linear"}}
_MM = [["mm", "aten.mm.default", "fc"]]
PROFILE = {
    **{"runtime": "iree", "threads": 2, **_MEASURED, **_ROUNDS, "rounds_ms": [10.0]},
    "dispatches": [
        {"function": "d_0_matmul", "ms": 7.0, "rounds_ms": [7.0], "tiles": 8, "busy": 2.0, "nodes": _MM},
        {"function": "d_1_add", "ms": 2.0, "rounds_ms": [2.0], "tiles": 1, "busy": 1.0, "nodes": []},
    ],
}  # fmt: skip
"""The profile of an IREE cell."""
PROFILE_OF_EAGER = {
    **{"runtime": "eager", "threads": 2, **_MEASURED, **_ROUNDS, "rounds_ms": [5.0], "call_ms": 5.0},
    "kernels": [{"function": "aten.mm", "ms": 4.0, "rounds_ms": [4.0], "kind": "", "nodes": _MM}],
}  # fmt: skip
"""That of eager for the same model."""


def write_profiles(results: Path, group: str, members: dict[str, dict[str, Any]]) -> Path:
    """Write the profiles of a group, by the names of its rows; return the file."""
    path = results / "profile" / group / PROFILES
    path.parent.mkdir(parents=True, exist_ok=True)
    ended = {name: {"status": "ok", "profile": profile} for name, profile in members.items()}
    path.write_text(json.dumps({"members": ended}))
    return path


_OF_RUN = (
    *("first_call_ms", "load_ms", "max_rss_mb", "device_memory_mb", "compile_s", "command"),
    *("profile", "stage_rss_mb", "seconds"),
)  # fmt: skip


def unpacked(text: str) -> Any:
    """Return the value that page.packed has made a text of."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def records() -> list[Record]:
    """Return the rows of tests/unit/data/results.jsonl with all sections that a record has."""
    return [_complete(json.loads(line)) for line in RECORDS.read_text().splitlines()]


def remedied(one: Record, remedy: str, frontend: str) -> Record:
    """Return a row whose compilation failed, as if a remedy had compiled the program of a frontend."""
    good = copy.deepcopy(one)
    first = {key: good["outcome"][key] for key in ("status", "reason", "detail", "log")}
    tried = {"remedy": remedy, "frontend": frontend, "status": "ok", "reason": "", "seconds": 2.0}
    good["remedy"] = {"name": remedy, "frontend": frontend, "first": first, "tried": [tried]}
    good["outcome"] |= {"status": "unavailable", "stage": "verify", "reason": "no-device"}
    good["compile"] = {"compile_s": 2.0}
    return good


def training() -> list[Record]:
    """Return training steps of conv in eager and by each lowering path; the second of them wrong by the last path."""
    found = [
        copy.deepcopy(one)
        for one in records()
        if one["model"]["name"] == "conv"
        and one["experiment"]["device"] == "cpu"
        and one["latency"]
    ]
    found = [one for one in found if one["experiment"]["runtime"] in ("eager", "iree")]
    for one in found:
        one["experiment"]["test"] = "train"
        if one["experiment"]["runtime"] == "iree":
            one["experiment"]["frontend"] += "+train"
            one["verification"] |= {"train_steps": 10, "train_expected": 10}
            one["verification"] |= {
                "losses": [0.5, *[0.25] * 9],
                "golden_losses": [0.5, *[0.25] * 9],
            }
    last = [one for one in found if one["experiment"]["runtime"] == "iree"][-1]
    last["latency"] = None
    last["verification"] |= {"code": "FAIL", "train_steps": 1, "losses": [0.5, 0.375, *[None] * 8]}
    last["outcome"] |= {"status": "error", "reason": "wrong-result", "detail": "loss of step 2"}
    return found


def by_threads(*numbers: int) -> list[Record]:
    """Return rows of a model `scaled` in eager and on llvm-cpu for each of these numbers of threads. Eager takes the same time
    on all of them, IREE half the time on twice as many. Its row of the last number failed by the last lowering path."""
    found = []
    for one in records():
        experiment = one["experiment"]
        if one["model"]["name"] != "conv" or experiment["runtime"] not in ("eager", "iree"):
            continue
        if experiment["device"] != "cpu" or not one["latency"]:
            continue
        for number in numbers:
            again = copy.deepcopy(one)
            again["model"]["name"] = "scaled"
            name = experiment["target"] or experiment["runtime"]
            again["experiment"]["target"] = f"{name}+{number}-threads"
            again["run"]["threads"] = number
            factor = number if experiment["runtime"] == "iree" else 1
            of = again["latency"]
            of |= latency_section.figures(tuple(ms / factor for ms in of["values_ms"]))
            of["values_ms"] = [ms / factor for ms in of["values_ms"]]
            of["group"] += f" {number}"
            found.append(again)
    found[-1] |= {"latency": None, "runs": None}
    found[-1]["run"]["threads"] = None
    found[-1]["outcome"] |= {"status": "crashed", "reason": "segfault"}
    return found


def hostile() -> list[Record]:
    """Return two rows of a model whose name, texts and log are HTML with scripts."""
    found = [copy.deepcopy(one) for one in records() if one["model"]["name"] == "bert"][:3]
    for one in found:
        one["model"] |= {"name": HOSTILE, "options": {"size": HOSTILE}}
        one["experiment"]["flags"] = [HOSTILE]
        if not one["latency"]:
            one["outcome"] |= {"reason": HOSTILE, "detail": HOSTILE_LOG, "command": HOSTILE_LOG}
        one["outcome"]["log"] = "results/log.txt"
        one["versions"]["torch"] = HOSTILE
    return found


def many(rows: int) -> list[Record]:
    """Return at least so many rows: those of `records` again and again, as other models."""
    found: list[Record] = []
    number = 0
    while len(found) < rows:
        for one in records():
            again = copy.deepcopy(one)
            again["model"]["name"] += f"-{number}"
            again["outcome"]["log"] = "results/log.txt"
            found.append(again)
        number += 1
    return found


def write(folder: Path, found: list[Record], log: str = "") -> Source:
    """Write results.jsonl of some records into a folder, with `log` as the log of each, and return the source."""
    results = folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(one) + "\n" for one in found)
    (results / "results.jsonl").write_text(text, encoding="utf-8")
    for path in {folder / one["outcome"]["log"] for one in found}:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log, encoding="utf-8")
    return Source(results, found)


def _complete(one: Record) -> Record:
    failed = one["outcome"]["status"] != "ok"
    one["outcome"] = {
        "blocked_by": "",
        "log": f"results/{one['outcome']['stage']}/{cell_of(one)}/log.txt",
        "command": "python -m scripts.stage --option 'two words'",
        "fingerprint": "c0de",
        "stale": False,
    } | one["outcome"]
    one["verification"] = {"code": "VERIFIER_DIDNT_RUN" if failed else "PASS"} | (
        {} if failed else {"max_abs_error": 1e-6, "rmse_vs_fp64": 1e-7, "tol": 1e-3}
    )
    one["run"] = dict.fromkeys(_OF_RUN) | one["run"]
    if one["latency"]:
        one["runs"] = [{"total_s": 0.2, "iterations": 1}]
    is_iree = one["experiment"]["runtime"] == "iree"
    one["export"] = {"export_s": 1.5, "rewrites": []} if is_iree else None
    reached = not failed or one["outcome"]["status"] == "unavailable"
    one["compile"] = ({"compile_s": 4.5, "vmfb_bytes": 138_868} if reached else {}) if is_iree else None  # fmt: skip
    one["remedy"] = None
    one.setdefault("runs", None)
    one["model"].setdefault("file", "models/bert.py")
    return one
