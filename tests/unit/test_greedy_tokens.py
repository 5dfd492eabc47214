"""Greedy decoding is compared with expected tokens, on a program that counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core.tensors import TensorType
from scripts.measure.verify import greedy_tokens
from scripts.measure.verify.greedy_tokens import Generation

VOCABULARY = 11
INPUTS = [
    TensorType("[1]['input_ids']", (2, 1), "int64"),
    TensorType("[1]['position']", (1,), "int64"),
    TensorType("[1]['keys'][0]", (2, 1), "float32"),
]
OUTPUTS = [
    TensorType("['logits']", (2, VOCABULARY), "float32"),
    TensorType("['keys'][0]", (2, 1), "float32"),
]
START = [np.array([[3], [5]]), np.array([7]), np.zeros((2, 1), np.float32)]


def program(arrays):
    """The next token is what was kept plus the token plus the position."""
    tokens, position, kept = arrays
    total = kept + tokens + position
    logits = np.zeros((2, VOCABULARY), np.float32)
    logits[np.arange(2), (total[:, 0] % VOCABULARY).astype(int)] = 1.0
    return [logits, total.astype(np.float32)]


def expected(steps: int, margin: float = 1.0) -> Generation:
    """What `program` itself generates."""
    tokens, current = [], START
    for _ in range(steps):
        logits, kept = program(current)
        tokens.append(logits.argmax(-1))
        current = [tokens[-1][:, None], current[1] + 1, kept]
    columns = np.stack(tokens, 1).tolist()
    return Generation(columns, [[margin] * steps] * 2)


def follow(call, wanted: Generation, tol: float = 1e-3):
    return greedy_tokens.follow(call, START, INPUTS, OUTPUTS, wanted, tol)


@given(st.integers(1, 20))
def test_a_program_that_generates_the_expected_tokens_matches_at_every_step(steps):
    assert follow(program, expected(steps)) == (steps, "")


def test_after_the_last_token_nothing_is_followed():
    """A prompt (prefill) has several tokens, and gives one."""
    prompt = [TensorType("[1]['input_ids']", (2, 4), "int64")]
    wanted = expected(1)
    logits = [program(START)[0]]
    followed = greedy_tokens.follow(
        lambda _: logits, [np.zeros((2, 4), np.int64)], prompt, OUTPUTS[:1], wanted, 1e-3
    )
    assert followed == (1, "")


@given(st.integers(0, 5))
def test_the_first_wrong_token_is_named_and_the_others_still_count(wrong):
    wanted = expected(6)
    right = wanted.tokens[1][wrong]
    wanted.tokens[1][wrong] = (right + 1) % VOCABULARY
    matched, problem = follow(program, wanted)
    assert matched < 6
    assert problem.startswith(f"greedy token {wrong + 1} of 6: {right}, transformers' is ")


@pytest.mark.parametrize("lost", ["position", "keys"])
def test_a_program_that_loses_its_state_is_found_out(lost):
    def forgetful(arrays):
        arrays = list(arrays)
        arrays[1 if lost == "position" else 2] = START[1 if lost == "position" else 2]
        return program(arrays)

    assert follow(forgetful, expected(6))[1]


def test_each_step_is_given_the_expected_token_so_one_mistake_is_one_mismatch():
    calls = []

    def mistaken(arrays):
        calls.append(arrays)
        logits, kept = program(arrays)
        return [np.roll(logits, 1, -1) if len(calls) == 2 else logits, kept]

    assert follow(mistaken, expected(6))[0] == 5


@pytest.mark.parametrize(
    ("short", "margin", "passes"),
    [(1e-3, 1e-3, True), (1e-3, 0.5, False), (0.5, 1e-3, False)],
)
def test_another_token_is_none_only_where_both_sides_have_a_tie(short, margin, passes):
    def nearly(arrays):
        logits, kept = program(arrays)
        logits += np.roll(logits, 1, -1) * (1 + short)
        return [logits, kept]

    assert (not follow(nearly, expected(3, margin))[1]) is passes


@pytest.mark.parametrize("kept", [np.zeros((2, 3), np.float32), np.zeros(2, np.float32)])
def test_results_that_are_no_inputs_of_a_next_step_are_an_error_of_neither_program_nor_model(kept):
    with pytest.raises(greedy_tokens.NotFollowed, match=r"after step 1 of 3: .*expected \[2, 1\]"):
        follow(lambda arrays: [program(arrays)[0], kept], expected(3))
    with pytest.raises(greedy_tokens.NotFollowed, match="after step 1 of 3: IndexError: "):
        follow(lambda arrays: [np.zeros(3, np.float32), arrays[2]], expected(3))


def test_a_program_that_fails_in_a_later_step_fails():
    def failing(arrays):
        if arrays[1][0] > 7:
            raise RuntimeError("INVALID_ARGUMENT")
        return program(arrays)

    with pytest.raises(RuntimeError, match="INVALID_ARGUMENT"):
        follow(failing, expected(3))


def test_only_a_module_that_gives_a_generation_has_one():
    class Module:
        generation = "deprecated"

    class Other:
        def generation(self):
            return 3

    class Language:
        def generation(self):
            return dataclasses.asdict(expected(2))

    assert greedy_tokens.generation_of(Module()) is None
    assert greedy_tokens.generation_of(Other()) is None
    assert greedy_tokens.generation_of(object()) is None
    assert greedy_tokens.generation_of(Language()).steps == 2


@pytest.mark.parametrize(("gap", "matched"), [(0.2, 1), (0.4, 0)])
def test_under_noise_a_tie_is_within_the_noise_of_two_logits(gap, matched):
    # RMS 1 and noise 0.05: two logits of one position may be 0.3 apart.
    logits = np.tile(np.array([1.0, -1.0], np.float32), (1, 8))
    logits[0, 2] = 1 + gap
    wanted = Generation([[0]], [[gap]])
    found = greedy_tokens.follow(
        lambda _: [logits / np.sqrt(np.mean(logits**2))], [], [], [OUTPUTS[0]], wanted, 1e-3, 0.05
    )
    assert found[0] == matched


def test_of_logits_of_every_position_the_last_counts():
    logits = np.zeros((2, 3, VOCABULARY), np.float32)
    logits[0, -1, 4] = logits[1, -1, 7] = logits[:, 0, 9] = 1
    kind = TensorType("", logits.shape, "float32")
    wanted = Generation([[4], [7]], [[1.0], [1.0]])
    found = greedy_tokens.follow(lambda _: [logits], START[:1], INPUTS[:1], [kind], wanted, 1e-3)
    assert found == (1, "")
    wrong = dataclasses.replace(wanted, tokens=[[9], [9]])
    assert greedy_tokens.follow(lambda _: [logits], [], [], [kind], wrong, 1e-3)[0] == 0
