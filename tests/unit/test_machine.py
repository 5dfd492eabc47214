"""machine: the cores that this process may use, on machines of several shapes."""

import os
import platform
import subprocess
import sys

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


@pytest.mark.parametrize(
    ("given", "tunables"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.perturb=1", "glibc.malloc.perturb=1:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0:glibc.malloc.perturb=1", "glibc.malloc.hugetlb=0:glibc.malloc.perturb=1"),
    ],
)  # fmt: skip
def test_a_setting_of_glibc_that_the_user_has_made_stays(given, tunables):
    env = {"A": "b"} | ({machine.TUNABLES: given} if given else {})
    assert machine.with_huge_pages(env) == {"A": "b", machine.TUNABLES: tunables}


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 35),
    reason="glibc 2.35 knows the setting",
)  # fmt: skip
@pytest.mark.parametrize(("own", "asks"), [({}, True), ({machine.TUNABLES: "glibc.malloc.hugetlb=0"}, False)])  # fmt: skip
def test_large_memory_of_a_process_asks_for_huge_pages(own, asks):
    """By the flag `hg` of its mapping, proc(5)."""
    if not machine.huge_page_policy():
        pytest.skip("this kernel has no huge pages")
    code = (
        "import ctypes; held = ctypes.create_string_buffer(1 << 26); at = ctypes.addressof(held)\n"
        "for line in open('/proc/self/smaps'):\n"
        "    first, _, rest = line.partition(' ')\n"
        "    if '-' in first: low, high = (int(end, 16) for end in first.split('-'))\n"
        "    if first == 'VmFlags:' and low <= at < high: print('hg' in rest.split())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=machine.with_huge_pages({**os.environ, **own}), capture_output=True, text=True, check=True
    )  # fmt: skip
    assert run.stdout == f"{asks}\n"


@pytest.mark.skipif(
    tuple(map(int, platform.release().split(".")[:2])) < (6, 1) or machine.huge_page_policy() not in ("always", "madvise"),
    reason="the kernel cannot collapse pages",
)  # fmt: skip
@pytest.mark.parametrize("setting", ["1", "0"])
def test_memory_that_was_copied_in_small_pages_becomes_huge_ones(setting):
    """As after a fork, in which the kernel copies what is written to page by page."""
    code = (
        "import ctypes, os, re; from scripts.core import machine\n"
        "held = ctypes.create_string_buffer(1 << 26); at = ctypes.addressof(held)\n"
        "def huge(): return int(re.search(r'AnonHugePages: +(\\d+)', open('/proc/self/smaps_rollup').read())[1])\n"
        "ctypes.memset(at, 1, 1 << 26)\n"
        "if pid := os.fork(): os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "for page in range(at, at + (1 << 26), 4096): ctypes.memset(page, 2, 1)\n"
        "before = huge(); machine.collapse([(at, 1 << 26)])\n"
        "print(huge() - before >= 1 << 15, held[0], held[(1 << 26) - 4096], flush=True)\n"
    )
    env = {**os.environ, machine.TUNABLES: f"glibc.malloc.hugetlb={setting}"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)  # fmt: skip
    first = run.stdout.split(" ", 1)[0]
    assert first == str(setting == "1")
