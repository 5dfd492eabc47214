"""Results and records of others: what is wrong stops with file, line and key, and what may be shown is shown harmlessly."""

import base64
import dataclasses
import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest
import zstandard

from scripts.cli import export
from scripts.config.stages import status_path
from scripts.core import atomic, commands, console
from scripts.results import imported
from scripts.stages import aggregate_results
from scripts.supervise import outcome
from scripts.tools.compare import compare, history, store
from scripts.tools.report import failed, import_record, merge, write_report
from scripts.tools.report.web import page_source
from scripts.tools.reproduce import measure_elsewhere

ATTACK = "\x1b]0;title\x07\x1b[2J\u202e</script><script>alert(1)</script>[/x]![a](javascript:b)"
"""A text that would change a terminal's title, clear it and turn text around, run a script in a page, and be markup."""
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LONG = 10_000_000


@pytest.fixture
def whole(results, monkeypatch) -> list[dict]:
    """The records of an aggregate, which are in all/results.jsonl too."""
    results.write()
    atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
    monkeypatch.setattr(sys, "argv", ["x", "--out", "all"])
    aggregate_results.main()
    return [json.loads(line) for line in Path("all/results.jsonl").read_text().splitlines()]


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command as its process does; returns its exit code and what it printed, in which no control character is."""

    def call(main, *words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["x", *words])
        for name in ("stdout", "stderr"):  # which the command replaces
            monkeypatch.setattr(sys, name, getattr(sys, name))
        with pytest.raises(SystemExit) as ended:
            commands.run(main)
        printed = "".join(capsys.readouterr())
        assert not OBEYED.search(printed)
        assert len(printed) < 100_000
        return ended.value.code or 0, printed

    return call


def set_value(record: dict, key: str, value) -> None:
    """Replace the value at a dotted key; `...` removes it."""
    *above, last = key.split(".")
    for name in above:
        record = record[name]
    if value is ...:
        del record[last]
    else:
        record[last] = value


READERS = {
    "merge": (merge.main, ["bad/results.jsonl", "-o", "out"]),
    "compare": (compare.main, ["all/results.jsonl", "bad/results.jsonl", "--configfile", "all.yaml"]),
    "report": (write_report.main, ["--results", "bad/results.jsonl", "--out", "out/report.html"]),
    "export": (export.main, ["--format", "pytorch-hud", "--results", "bad/results.jsonl", "--out", "out"]),
}  # fmt: skip
BAD = [
    ("model.name", "../../etc", "`$.model.name`"),
    ("model.name", "/etc/passwd", "`$.model.name`"),
    ("model.name", ATTACK, "`$.model.name`"),
    ("model.name", "z" * 1000, "`$.model.name`"),
    ("experiment.frontend", "..", "`$.experiment.frontend`"),
    ("model.suite", "../../x", "`$.model.suite`"),
    ("experiment.device", "/x", "`$.experiment.device`"),
    ("outcome.status", "melted", "`$.outcome.status`"),
    ("latency.ms", float("nan"), "not valid JSON"),
    ("latency.ms", float("inf"), "not valid JSON"),
    ("latency.ms", "5", "`$.latency.ms`"),
    ("latency.low_ms", -1, "`$.latency.low_ms`"),
    ("latency.values_ms", ["5"], "`$.latency.values_ms[0]`"),
    ("compile.dispatch_count", 10**30, "`$.compile.dispatch_count`"),
    ("compile.compile_s", ["5"], "`$.compile.compile_s`"),
    ("outcome.detail", {"a": 1}, "`$.outcome.detail`"),
    ("outcome.detail", "z" * LONG, "found a line of 10,0"),
    ("run", [], "`$.run`"),
]


@pytest.fixture
def reader(request, results, monkeypatch):
    monkeypatch.setattr(compare, "_settings", lambda _: compare.Settings())
    main, words = READERS[request.param]
    return main, [word for word in words if word not in ("--configfile", "all.yaml")]


@pytest.mark.parametrize(
    ("reader", "key", "value", "message"),
    [*(("merge", *bad) for bad in BAD), *((name, *bad) for name in READERS for bad in BAD[::5])],
    ids=lambda value: f"{value:.20}" if isinstance(value, str) else type(value).__name__,
    indirect=["reader"],
)
def test_a_bad_record_stops_with_its_file_line_and_key(reader, whole, run, key, value, message):
    set_value(whole[0], key, value)
    Path("bad").mkdir()
    text = "".join(json.dumps(record) + "\n" for record in [whole[1], whole[0]])
    Path("bad/results.jsonl").write_text(text)
    code, said = run(reader[0], *reader[1])
    assert code in (1, 2)
    assert "bad/results.jsonl:2: " in said
    assert message in said
    assert not Path("out").exists()


@pytest.mark.parametrize("line", ["[" * 100_000, '{"a": ' + "1" * 5000 + "}", '"\\ud800"', "\x00"])
def test_a_line_that_is_no_json_of_a_record_stops_with_its_number(whole, run, line):
    Path("bad").mkdir()
    Path("bad/results.jsonl").write_text(json.dumps(whole[0]) + "\n" + line)
    code, said = run(merge.main, "bad/results.jsonl", "-o", "out")
    assert code == 1
    assert "bad/results.jsonl:2: " in said


@pytest.mark.parametrize("reader", READERS, indirect=True)
def test_text_of_others_is_shown_harmlessly(reader, whole, run):
    for record in whole:
        record["versions"] |= {"torch": ATTACK, "iree": ATTACK}
        record["run"]["device_name"] = record["run"]["command"] = ATTACK
        record["outcome"] |= {"command": ATTACK, "detail": ATTACK, "log": ATTACK}
    Path("bad").mkdir()
    Path("bad/results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in whole))
    assert run(reader[0], *reader[1])[0] == 0
    for page in Path("out").rglob("*.[hm]*"):
        assert "<script>alert" not in page.read_text()


def test_a_page_has_logs_of_its_own_results_only(whole, run, tmp_path):
    secret = tmp_path / "results-of-mine.txt"
    secret.write_text("a secret")
    log = Path("results/verify/log.txt")
    log.write_text("a log")
    Path("results/verify/link.txt").symlink_to(secret)
    os.mkfifo("results/verify/pipe.txt")
    logs = [log, "results/verify/link.txt", secret, "results/../results-of-mine.txt", "/dev/zero", "results/verify/pipe.txt"]  # fmt: skip
    for record, path in zip(whole, logs, strict=True):
        record["outcome"]["log"] = str(path)
    Path("results/results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in whole))
    assert run(write_report.main, "--out", "report.html")[0] == 0
    packed = re.findall('id="data-details-[0-9]+">([^<]*)<', Path("report.html").read_text())
    [block] = [json.loads(gzip.decompress(base64.b64decode(text))) for text in packed]
    logs = [[section["text"] for section in row if section.get("title") == "End of the log"] for row in block]  # fmt: skip
    assert logs == [["a log"], [], [], [], [], []]
    assert page_source.end_of(Path("results"), None, 9) == ""


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("comparison.json", "[]", "view Comparison: TypeError"),
        ("comparison.json", "{", "view Comparison: results/comparison.json: not valid JSON"),
        ("kernels.jsonl", '{"a": [1]}', "view Kernels: KeyError"),
        ("kernels.jsonl", "5", "view Kernels: results/kernels.jsonl:1: found 5, expected a record"),
        ("kernels.jsonl", "[" * 100_000, "view Kernels: results/kernels.jsonl:1: not valid JSON"),
    ],
)
def test_a_bad_file_of_a_view_is_named(whole, run, name, text, message):
    Path("results/results.jsonl").write_text(Path("all/results.jsonl").read_text())
    Path("results", name).write_text(text)
    code, said = run(write_report.main, "--out", "report.html")
    assert code == 1
    assert message in said


OF_OPERATOR = '{"experiment": {"runtime": "iree", "frontend": "a", "target": "b"}, "problem": %s}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, ""), ("[]", ""), ("\x1b", ""), ('{"experiment": {"runtime": []}}', ""), (OF_OPERATOR % "[]", ""),
        (OF_OPERATOR % '{"name": "x"}', "Object missing required field `op` - at `$.problem`"),
    ],
    ids=range(6),
)  # fmt: skip
def test_a_bad_record_of_an_operator_stops_with_its_line(results, run, line, message):
    Path("operators.jsonl").write_text(line)
    words = ["--format", "backendbench", "--results", "operators.jsonl", "--out", "out"]
    code, said = run(export.main, *words)
    assert code == 1
    assert f"operators.jsonl:1: {message}" in said


@pytest.fixture
def record(whole) -> dict:
    """A record.json that another machine has written, which could not run the module."""
    [row] = [r for r in whole if r["experiment"]["target"] == "llvm-cpu" and r["model"]["name"] == "conv"]  # fmt: skip
    return {"format": 2, "name": "laptop", "system": "Linux", "cores": 8, "row": row, "fingerprint": "c0de", "returncode": 1, "log": "error: no", "verified": None, "timing": None}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "../../laptop", "$.name"),
        ("name", "laptop\n", "$.name"),
        ("system", ATTACK * 100, "$.system"),
        ("cores", float("nan"), "malformed"),
        ("cores", 2**64, "$.imported.cores"),
        ("log", "z" * LONG, "found 10,0"),
        ("row.model.name", "../../../x", "$.model.name"),
        ("row.experiment.target", "..", "$.experiment.target"),
        ("row.latency", {"ms": "5"}, ""),
        ("timing", {"members": ATTACK}, "timing"),
    ],
)
def test_a_bad_record_of_another_machine_is_not_imported(record, run, key, value, message):
    set_value(record, key, value)
    Path("record.json").write_text(json.dumps(record))
    code, said = run(import_record.main, "record.json")
    if key == "row.latency":  # it is computed again
        assert code == 0
        return
    assert code == 1
    assert "record.json: " in said
    assert message in said
    assert not Path("results/imported").exists()


def test_an_imported_log_is_shown_harmlessly(record, run):
    record["log"] = f"error: {ATTACK}"
    Path("record.json").write_text(json.dumps(record))
    assert run(import_record.main, "record.json")[0] == 0
    [row] = imported.rows()
    assert ATTACK in row["outcome"]["detail"]


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, "[]", '{"limit": "x"}', json.dumps({"status": ATTACK}), "z" * LONG],
)
def test_a_stage_with_a_bad_status_file_is_listed_as_damaged(whole, run, text):
    path = Path(status_path("compile", "conv/mlir/vulkan"))
    path.write_text(text)
    code, said = run(failed.main)
    assert code == 0
    assert "compile conv/mlir/vulkan: damaged (damaged-file)\n" in said
    assert f"{path}: not " in said


@pytest.mark.parametrize("words", [[], ["--json"], ["--commands"]], ids=str)
def test_a_failure_of_others_is_listed_harmlessly(whole, run, words):
    path = Path(status_path("compile", "conv/mlir/vulkan"))
    ended = outcome.read(path)
    said = ATTACK + ("" if words else "z" * LONG)
    more = {"status": "error", "reason": ATTACK, "detail": said, "command": f"x '{ATTACK}'", "log": "../../x"}  # fmt: skip
    atomic.write_json(path, dataclasses.asdict(ended) | more)
    code, printed = run(failed.main, *words)
    assert code == 0
    assert "alert" in printed


@pytest.mark.parametrize("text", ["{", "[]", '{"models": 5}', '{"models": {"a": {}}}'])
def test_a_bad_matrix_of_a_run_is_named(whole, run, text):
    Path("results/logs/matrix.json").write_text(text)
    code, said = run(failed.main)
    assert code == 1
    assert "results/logs/matrix.json: " in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "../../x"}, "is the entry '../../x', expected the name of its file"),
        ({"made": "now"}, "not an entry of a history"),
        ({"machine": {"name": ATTACK, "cpu": ATTACK, "cores": 2}}, "\\x1b[2J"),
        ({"commit": ATTACK}, "\\x1b[2J"),
    ],
)
def test_the_history_of_others_is_named_or_shown_harmlessly(whole, run, change, message):
    store.keep(Path("all/results.jsonl"), "latency")
    [about] = Path("all/history").glob("*.json")
    atomic.write_json(about, atomic.read_json(about) | change)
    assert message in run(history.main, "--results", "all")[1]


def test_records_of_a_history_that_unpack_to_very_much_are_named(whole, run, monkeypatch):
    monkeypatch.setattr(store, "MOST_BYTES", 10**7)
    store.keep(Path("all/results.jsonl"), "latency")
    [kept] = Path("all/history").glob("*.zst")
    kept.write_bytes(zstandard.compress(b"\n" * 10**8, 3))
    code, said = run(history.main, "--results", "all")
    assert code == 1
    assert f"{kept}: unpacks to more than 10,000,000 bytes" in said


def test_a_console_obeys_its_own_colours_only(tmp_path):
    with (tmp_path / "screen").open("w+") as screen:
        shown = console.Console(
            file=screen, force_terminal=True, width=200, color_system="standard", highlight=False
        )
        shown.print("[bold]\x1b[2J[/x]", style="red")
        screen.seek(0)
        text = screen.read()
    assert text == "\x1b[31m[bold]\\x1b[2J[/x]\x1b[0m\n"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "TypeError"),
        ({}, "KeyError('files')"),
        ({"files": {"../secret": {}}}, "../secret: found no file in the folder of the bundle"),
        ({"files": {"link": {}}}, "link: found no file in the folder of the bundle"),
        ({"files": {"/dev/zero": {}}}, "/dev/zero: found no file in the folder of the bundle"),
        ({"files": {"in.npz": {"size": ATTACK}}}, "measure.json: not that of a bundle"),
        ({"files": {}, "request": [ATTACK]}, "measure.json: not that of a bundle"),
    ],
)
def test_a_bad_bundle_is_not_measured(tmp_path, monkeypatch, run, values, message):
    command = tmp_path / "bundle/scripts/tools/reproduce/measure_elsewhere.py"
    command.parent.mkdir(parents=True)
    monkeypatch.setattr(measure_elsewhere, "__file__", str(command))
    (tmp_path / "secret").write_text("x")
    (tmp_path / "bundle/link").symlink_to(tmp_path / "secret")
    (tmp_path / "bundle/in.npz").write_text("x")
    (tmp_path / "bundle/measure.json").write_text(json.dumps(values))
    code, said = run(measure_elsewhere.main)
    assert code == 1
    assert message in said
