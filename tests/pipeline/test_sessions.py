"""Sessions of IREE's runtime leave no memory behind."""

from __future__ import annotations

from tests.checkouts import in_environment
from tests.pipeline.sessions_in_iree import MB, SESSIONS


def test_sessions_that_are_closed_free_their_weights(environments, tmp_path):
    """Each step of a training cell has a session of its own, with the weights of the one before."""
    found = in_environment(environments / "iree/bin/python", "sessions_in_iree", tmp_path)
    assert found["last"] == 1 + SESSIONS
    assert found["growth_mb"] < 2 * MB  # not by twice the weights in each of the sessions
