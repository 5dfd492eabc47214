"""watch: a kill by the kernel counts for the stages that end shortly after it."""

import pytest

from scripts.core import process
from scripts.supervise import watch
from scripts.supervise.watch import KernelKills


@pytest.mark.parametrize(
    ("killed_at", "ended_at", "lately"),
    [
        (None, 5, False),
        (4.9, 5, True),
        (5, 5, True),
        (5, 5 + watch.ENDING_SECONDS - 2, True),
        (5, 5 + watch.ENDING_SECONDS + 2, False),
    ],
)
def test_a_kill_counts_for_what_ends_shortly_after_it(monkeypatch, killed_at, ended_at, lately):
    """Also where another stage was killed while this one ran on."""
    now = 0.0
    monkeypatch.setattr(watch.time, "monotonic", lambda: now)
    before_this_run = 3
    count = lambda: before_this_run + (killed_at is not None and now >= killed_at)  # noqa: E731
    monkeypatch.setattr(process, "kernel_oom_kills", count)
    kills = KernelKills()
    while now < ended_at - 0.1:
        now += 0.1
        kills.follow()
    now = ended_at
    assert kills.lately() == lately


def test_the_kernel_is_asked_now_and_then(monkeypatch):
    asked = []
    monkeypatch.setattr(process, "kernel_oom_kills", lambda: asked.append(1) or 0)
    kills = KernelKills()
    for _ in range(100):
        kills.follow()
    assert len(asked) < 5
