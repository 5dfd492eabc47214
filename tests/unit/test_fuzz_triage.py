"""Failures of random graphs are put together by cause, and compared with those that are known."""

from __future__ import annotations

import pytest

from scripts.results.known_failures import KnownFailure
from scripts.tools.fuzz import rows, triage
from scripts.tools.fuzz.triage import Failure


def failure(number: int, status: str = "refused", kind: str = "refused compile: a", **more) -> Failure:  # fmt: skip
    fields = {"path": "f/t", "seed": 0, "operators": ("neg.default", "add.Tensor"), "stage": "compile", "detail": "a 7"}  # fmt: skip
    return Failure(number=number, status=status, kind=kind, **{**fields, **more})


def reduced(*operators: str, dtype: str = "bool") -> dict:
    return {
        "operators": list(operators),
        "reduced": True,
        "dtypes": [dtype],
        "ended": {"detail": "wrong values"},
        "source": "return x0",
        "inputs": ["2xi8"],
    }


def test_failures_with_the_same_message_are_one_cause():
    causes = triage.causes([failure(1), failure(2), failure(3, kind="refused compile: b")], {})
    assert [cause.count for cause in causes] == [2, 1]


def test_wrong_values_are_put_together_by_the_operators_of_the_reduced_graph():
    wrong = [failure(n, "wrong", "wrong run:") for n in range(3)]
    small = {("f/t", "0-0"): reduced("mm.default"), ("f/t", "0-1"): reduced("mm.default"), ("f/t", "0-2"): reduced("neg.default")}  # fmt: skip
    causes = triage.causes(wrong, small)
    assert [(cause.operators, cause.count) for cause in causes] == [(("mm.default",), 2), (("neg.default",), 1)]  # fmt: skip


def test_wrong_values_come_first_and_known_causes_after_new_ones():
    known = KnownFailure("i1", "about", "wrong", ("*mm*",), ("bool",))
    small = {("f/t", "0-0"): reduced("mm.default"), ("f/t", "0-1"): reduced("neg.default")}
    causes = triage.causes(
        [failure(5), failure(0, "wrong", "wrong run:"), failure(1, "wrong", "wrong run:")],
        small,
        [known],
    )
    assert [(c.status, c.known.name if c.known else "") for c in causes] == [("wrong", ""), ("wrong", "i1"), ("refused", "")]  # fmt: skip


@pytest.mark.parametrize(("dtype", "is_known"), [("bool", True), ("float32", False)])
def test_a_known_cause_has_its_operators_and_dtypes(dtype, is_known):
    known = KnownFailure("i1", "about", "wrong", ("*mm*",), ("bool",))
    (cause,) = triage.causes([failure(0, "wrong", "wrong run:")], {("f/t", "0-0"): reduced("bmm.default", dtype=dtype)})  # fmt: skip
    assert known.is_cause(cause) is is_known


def test_wrong_values_of_several_operators_are_named_once_they_are_reduced():
    known = KnownFailure("negated", "about", "wrong", ("neg*",))
    wrong = [failure(0, "wrong", "wrong run:")]
    (cause,) = triage.causes(wrong, {}, [known])
    assert cause.known is None
    (cause,) = triage.causes(wrong, {("f/t", "0-0"): reduced("neg.default")}, [known])
    assert cause.known is known


def test_one_failure_of_each_message_is_reduced_and_many_with_wrong_values():
    failures = [failure(n) for n in range(5)] + [
        failure(n, "wrong", "wrong run:") for n in range(5, 9)
    ]
    assert len(triage.to_reduce(failures)) == 1 + 4


def test_of_graphs_that_differ_in_values_alone_a_single_one_is_reduced():
    valued = [failure(5, "wrong", "wrong run:", values=rule) for rule in ("", "special", "large")]
    assert triage.to_reduce([*valued, failure(6, "wrong", "wrong run:")]) == [valued[0], failure(6, "wrong", "wrong run:")]  # fmt: skip
    assert len({each.name for each in valued}) == 3


def test_records_have_the_declared_form(tmp_path):
    small = {("f/t", "0-0"): reduced("mm.default")}
    causes = triage.causes([failure(0, "wrong", "wrong run:"), failure(1)], small)
    records = rows.records(causes, {"f/t": tmp_path})
    rows.ROW_SET.write(rows.of_causes(records, {("f/t", "ok"): 3}), tmp_path)
    assert (tmp_path / "fuzz.csv").read_text().count("\n") == 3
    assert "mm.default" in (tmp_path / "fuzz.md").read_text()


def test_a_refusal_of_what_other_paths_take_comes_first_and_names_them(tmp_path):
    failures = [failure(1), failure(2), failure(3, kind="refused compile: b")]
    right_on = {1: ["inductor"], 3: ["f/t-O0", "g/t"]}
    causes = triage.causes(failures, {}, (), lambda cause: right_on.get(cause.first.number, []))
    first, second = (r["cause"] for r in rows.records(causes, {"f/t": tmp_path}))
    assert (first["right_on"], first["count"]) == ("f/t-O0 g/t", 1)
    assert (second["right_on"], second["count"]) == ("inductor", 2)


@pytest.mark.parametrize(
    ("own", "others", "is_slow"),
    [
        ([1.0, 0.9], [0.1, 0.11], True),
        ([1.0, 0.5], [0.1, 0.11], False),  # once only
        ([0.05, 0.05], [0.005, 0.006], False),  # too short to tell
        ([1.0], [0.1, 0.1], False),
        ([1.0, None], [0.1, 0.1], False),
    ],
)
def test_a_path_is_slow_if_it_takes_over_five_times_as_long_as_another_each_time(own, others, is_slow):  # fmt: skip
    task = {"timed": {"nodes": []}, "seed": 3, "number": 7}
    said = {"task": task, "operators": ["mm.default"], "source": "x"}
    timed = [(path, {**said, "ms": ms}) for path, each in (("a", own), ("b", others)) for ms in each]  # fmt: skip
    slow = triage.slow(timed)
    assert list(slow) == [("a", "3-7")] * is_slow
    for failure, result in slow.values():
        (cause,) = triage.causes([failure], {("a", "3-7"): result})
        assert (cause.status, cause.detail, cause.operators) == (
            "slow",
            "0.9 ms, b 0.11",
            ("mm.default",),
        )
