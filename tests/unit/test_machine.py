"""machine: the cores that this process may use, on machines of several shapes."""

import os

import pytest

from scripts.core import machine


@pytest.fixture
def of(monkeypatch, tmp_path):
    """A machine whose cores have two hyper-threads each, CPU n and n + cores; this process may use
    some of its CPUs."""

    def has(cores: int, usable: set[int], quota: float | None = None) -> None:
        for cpu in range(2 * cores):
            for name, text in (
                ("topology/thread_siblings_list", f"{cpu % cores},{cpu % cores + cores}"),
                ("cache/index3/size", "32768K"),
                ("cache/index3/shared_cpu_list", f"0-{cores - 1},{cores}-{2 * cores - 1}"),
            ):
                file = tmp_path / f"cpu{cpu}" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text + "\n")
        monkeypatch.setattr(machine, "CPUS", tmp_path)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable, raising=False)
        monkeypatch.setattr(machine, "cgroup_cpus", lambda: quota)

    return has


@pytest.mark.parametrize(
    ("usable", "quota", "cores"),
    [
        (set(range(16)), None, 8),
        ({0, 1, 2, 3}, None, 4),
        ({0, 8, 1, 9}, None, 2),  # a cpuset of both hyper-threads of two cores
        ({0, 8}, None, 1),
        (set(range(16)), 3.0, 3),
        (set(range(16)), 0.5, 1),
    ],
)
def test_hyper_threads_of_one_core_count_once_in_whatever_part_of_a_machine(
    of, usable, quota, cores
):
    of(8, usable, quota)
    assert machine.physical_cores() == cores


def test_without_a_topology_each_cpu_is_a_core(of, monkeypatch, tmp_path):
    of(8, {0, 8})
    monkeypatch.setattr(machine, "CPUS", tmp_path / "none")
    assert (machine.physical_cores(), machine.cache_bytes()) == (2, 0)


def test_a_core_s_share_of_the_cache_is_that_of_the_cores_which_have_it(of):
    of(8, {3})
    assert machine.cache_bytes() == 4 * 2**20
