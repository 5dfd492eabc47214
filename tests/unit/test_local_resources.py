"""resources: the memory of a stage, and the number of jobs that cores and memory permit."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.run import resources


@pytest.fixture
def machine(monkeypatch):
    def has(physical_cores: int, memory_gib: float):
        memory = SimpleNamespace(total=int(memory_gib * 2**30))
        monkeypatch.setattr(resources, "physical_cores", lambda: physical_cores)
        monkeypatch.setattr(resources.psutil, "virtual_memory", lambda: memory)
        monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
        monkeypatch.delenv("SLURM_MEM_PER_NODE", raising=False)

    return has


@pytest.mark.parametrize(
    ("cores", "physical", "memory_gib", "threads"),
    [
        (8, 8, 64, 1),
        (8, 2, 64, 4),  # two compilers on two cores, whatever --cores says
        (8, 8, 16, 2),  # memory for four
        (8, 8, 1, 8),  # not even for one: one at a time
        (1, 8, 64, 1),
        (None, 8, 64, 1),
        (3, 2, 64, 2),
    ],
)
def test_slots_are_what_cores_and_memory_bear(machine, cores, physical, memory_gib, threads):
    machine(physical, memory_gib)
    assert resources.slot_threads(cores) == threads


@given(st.integers(1, 256), st.integers(1, 256), st.floats(0.5, 1024))
def test_never_more_jobs_than_slots_and_never_none(machine, cores, physical, memory_gib):
    machine(physical, memory_gib)
    jobs = cores // resources.slot_threads(cores)
    assert 1 <= jobs <= max(1, min(physical, int(memory_gib // 4)))


@given(st.integers(1, 256), st.integers(1, 256), st.floats(0.5, 1024))
def test_jobs_beside_each_other_compute_with_no_more_threads_than_there_are_cores(
    machine, cores, physical, memory_gib
):
    machine(physical, memory_gib)
    jobs = cores // resources.slot_threads(cores)
    threads = resources.threads_beside(cores)
    assert threads >= 1
    assert jobs * threads <= physical
    assert jobs * (threads + 1) > physical


def test_memory_is_as_configured_or_a_share_of_the_machines(machine):
    machine(8, 10)
    assert resources.memory_limit_mb({"memory_mb": 512}) == 512
    assert resources.memory_limit_mb({}) == 8192


@pytest.mark.parametrize(
    ("cpus", "memory_mb", "threads"),
    [("4", "", 16), ("", "8192", 32), ("4", "8192", 32), ("128", "1000000", 1), ("4(x2)", "no", 1)],
)
def test_a_step_of_a_slurm_job_has_what_it_was_allotted(
    machine, monkeypatch, cpus, memory_mb, threads
):
    machine(64, 512)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", cpus)
    monkeypatch.setenv("SLURM_MEM_PER_NODE", memory_mb)
    assert resources.slot_threads(64) == threads
