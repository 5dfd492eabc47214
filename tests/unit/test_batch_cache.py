"""cache: which results of compilations are found again, and which are not."""

import dataclasses

import pytest

from scripts.core import machine
from scripts.features.operators.batch import cache
from scripts.features.operators.batch.cache import Cache, Entry

LIMITS = {"timeout": 60.0, "oom": 4000.0}
FAILED = Entry("error", 0.1, 1, reason="bufferization", detail="failed", log="said", code="c0de")


@pytest.fixture
def kept(tmp_path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def ok(kept, tmp_path) -> Entry:
    """Return an entry whose module is in the cache."""
    vmfb = tmp_path / "module.vmfb"
    vmfb.write_bytes(b"module")
    name, made = kept.put_module(vmfb)
    assert not vmfb.exists()
    return Entry("ok", 0.1, 64, code="c0de", module=name, function="program_3", made=made)


def test_a_key_is_of_the_program_each_flag_and_the_version():
    keys = [
        cache.key("text", ["-a", "-b"], "1"),
        cache.key("text", ["-b", "-a"], "1"),
        cache.key("text", ["-a\0-b"], "1"),
        cache.key("text", ["-a"], "1"),
        cache.key("-btext", ["-a"], "1"),
        cache.key("text", ["-a", "-b"], "2"),
        cache.key("texts", ["-a", "-b"], "1"),
    ]
    assert len(set(keys)) == len(keys)
    assert cache.key("text", ["-a", "-b"], "1") == keys[0]


def test_what_was_put_is_found_by_another_that_has_the_folder(kept, ok, tmp_path):
    kept.put("k1", ok)
    kept.put("k2", FAILED)
    other = Cache(tmp_path / "cache")
    assert other.get("k1", "c0de", LIMITS) == ok
    assert other.get("k2", "c0de", LIMITS) == FAILED
    assert other.get("k3", "c0de", LIMITS) is None


def test_a_failure_counts_under_its_own_code_and_a_success_under_any(kept, ok):
    kept.put("k1", ok)
    kept.put("k2", FAILED)
    assert kept.get("k1", "other", LIMITS) == ok
    assert kept.get("k2", "other", LIMITS) is None


@pytest.mark.parametrize("status", ["timeout", "oom"])
def test_a_limit_that_was_met_counts_while_it_is_the_limit(kept, status):
    met = dataclasses.replace(FAILED, status=status, reason="limit", limit=LIMITS[status])
    kept.put("k", met)
    assert kept.get("k", "c0de", LIMITS) == met
    assert kept.get("k", "c0de", LIMITS | {status: 1.0}) is None


@pytest.mark.parametrize("reason", ["SIGKILL", "disk-full"])
def test_what_says_nothing_about_a_program_is_not_kept(kept, reason):
    kept.put("k", dataclasses.replace(FAILED, reason=reason))
    assert kept.get("k", "c0de", LIMITS) is None


def test_a_damaged_entry_counts_as_never_made(kept, ok, tmp_path):
    kept.put("k1", ok)
    (file,) = (path for path in (tmp_path / "cache").rglob("*.json"))
    for damaged in ("", "{", "[]", "null", '{"status": "ok"}', '{"made": 3}'):
        file.write_text(damaged)
        assert kept.get("k1", "c0de", LIMITS) is None


def test_a_module_that_is_cut_short_or_gone_counts_as_never_made(kept, ok):
    kept.put("k1", ok)
    kept.module(ok.module).write_bytes(b"mod")
    assert kept.get("k1", "c0de", LIMITS) is None
    kept.module(ok.module).unlink()
    assert kept.get("k1", "c0de", LIMITS) is None


def test_a_module_or_an_entry_with_other_values_counts_as_never_made(kept, ok, tmp_path):
    kept.put("k1", ok)
    kept.module(ok.module).write_bytes(b"modulf")
    assert kept.get("k1", "c0de", LIMITS) is None
    kept.module(ok.module).write_bytes(b"module")
    assert kept.get("k1", "c0de", LIMITS) == ok
    (file,) = (tmp_path / "cache").rglob("k1.json")
    file.write_text(file.read_text().replace("program_3", "program_2"))
    assert kept.get("k1", "c0de", LIMITS) is None


def test_a_module_that_was_placed_outlives_the_cache(kept, ok, tmp_path):
    placed = kept.place(ok.module, tmp_path / "modules")
    assert placed == kept.place(ok.module, tmp_path / "modules")
    kept.module(ok.module).unlink()
    assert placed.read_bytes() == b"module"
    assert [path.name for path in placed.parent.iterdir()] == [placed.name]


def test_a_module_is_copied_where_no_link_can_be_made(kept, ok, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("not on this file system")

    monkeypatch.setattr("os.link", refuse)
    assert kept.place(ok.module, tmp_path / "modules").read_bytes() == b"module"


def test_code_for_the_cpu_of_one_machine_is_not_used_on_another(monkeypatch):
    host, other = ["--iree-llvmcpu-target-cpu=host"], ["--iree-llvmcpu-target-cpu=znver4"]
    here = [cache.key("text", flags, "1") for flags in (host, other)]
    monkeypatch.setattr(machine, "cpu_features", lambda: "another CPU")
    assert cache.key("text", host, "1") != here[0]
    assert cache.key("text", other, "1") == here[1]
