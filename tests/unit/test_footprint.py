"""footprint: models that do not fit are rejected before allocation, others are not."""

import contextlib
import gc
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.core import exits
from scripts.frontends.torch_model import footprint
from scripts.frontends.torch_model.footprint import Weights, count, limit_bytes, require, shortage
from scripts.supervise.diagnose import diagnose

F32 = Weights(3_212_749_952, 12_850_999_808, 12_850_999_808, "f32")
BF16 = Weights(3_212_749_952, 12_850_999_808, 6_425_499_904, "bf16")


def test_a_shortage_names_the_weights_the_need_the_limit_and_what_to_do():
    assert shortage(F32, "export torch_xla", 19.3e9, "limits.export.memory_mb", 2.4) == (
        "weights of 12.9 GB (3.21 G parameters, f32) need 30.8 GB in the export torch_xla stage, and "
        "it may use 19.3 GB (limits.export.memory_mb); lower the dtype or size, or raise that"
    )


def test_weights_need_what_they_are_built_in_before_they_are_converted():
    assert "bf16; 12.9 GB as get_model() builds them) need 12.9 GB" in shortage(
        BF16, "reference", 10e9, "x"
    )
    assert shortage(BF16, "reference", 13e9, "x") == ""


def test_the_supervisors_limit_is_taken_and_named(monkeypatch):
    monkeypatch.setenv(exits.LIMIT_VARIABLE, "1024")
    limit, where = limit_bytes("export torch_xla")
    assert limit == 2**30
    assert where.startswith("limits.export.memory_mb; where it is not set")


def test_by_hand_the_limit_is_what_the_machine_has_available(monkeypatch):
    monkeypatch.delenv(exits.LIMIT_VARIABLE, raising=False)
    limit, where = limit_bytes("reference")
    assert limit > 0
    assert where == "what this machine has available"


def test_a_model_too_large_ends_as_oom_estimated(monkeypatch, capsys):
    monkeypatch.setenv(exits.LIMIT_VARIABLE, "4096")
    with pytest.raises(SystemExit) as ended:
        require(F32, "reference")
    assert ended.value.code == exits.TOO_LARGE
    diagnosis = diagnose(exits.TOO_LARGE, capsys.readouterr().err)
    assert (diagnosis.status, diagnosis.reason) == ("oom", "estimated")
    assert diagnosis.detail.startswith("weights of 12.9 GB (3.21 G parameters, f32) need 12.9 GB")


def test_a_model_that_fits_or_is_not_counted_goes_on(monkeypatch):
    monkeypatch.setenv(exits.LIMIT_VARIABLE, "20000")
    require(F32, "reference")
    require(None, "reference")


def raises():
    raise RuntimeError("a value is wanted\nand more")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (raises, "RuntimeError: a value is wanted"),
        (lambda: os._exit(3), "the count did not end well"),
    ],
)
def test_a_count_that_fails_is_a_note_and_no_estimate(monkeypatch, capsys, build, said):
    monkeypatch.setattr(footprint, "_counted", lambda build, dtype: build())
    assert count(build, "f32") is None
    assert capsys.readouterr().out == f"note: the weights are not counted before they are built: {said}\n"  # fmt: skip


def test_counting_happens_elsewhere_in_silence(monkeypatch, capfd):
    here = []

    def counted(build, dtype):
        here.append(1)
        print("noise")
        return {"count": 1, "built_bytes": 4, "kept_bytes": 2}

    monkeypatch.setattr(footprint, "_counted", counted)
    assert count(None, "bf16") == Weights(1, 4, 2, "bf16")
    assert here == []
    assert capfd.readouterr().out == ""


def test_counting_may_not_allocate_what_it_is_to_foresee(monkeypatch, capsys):
    monkeypatch.setattr(footprint, "COUNT_BYTES", 64 << 20)
    monkeypatch.setattr(footprint, "_counted", lambda build, dtype: bytearray(1 << 30))
    assert count(None, "f32") is None
    assert "MemoryError" in capsys.readouterr().out


class Session:
    """Garbage that only a collector finds, since it refers to itself. It tells which process freed it,
    as an IREE session would by waiting for ever for the threads it had before the fork."""

    def __init__(self, freed: Path) -> None:
        self.freed = freed
        self.itself = self

    def __del__(self) -> None:
        (self.freed / str(os.getpid())).touch()


def test_the_garbage_of_the_process_that_asks_is_not_freed_in_the_one_that_counts(tmp_path, monkeypatch):  # fmt: skip
    meta = SimpleNamespace(device=lambda name: contextlib.nullcontext())
    monkeypatch.setitem(sys.modules, "torch", meta)

    def build() -> SimpleNamespace:
        gc.collect()
        return SimpleNamespace(parameters=list, buffers=list)

    gc.disable()  # else this process may collect at any allocation, before the other exists
    try:
        Session(tmp_path)
        counted = count(build, "f32")
    finally:
        gc.enable()
    assert counted == Weights(dtype="f32", count=0, built_bytes=0, kept_bytes=0)
    gc.collect()
    assert [file.name for file in tmp_path.iterdir()] == [str(os.getpid())]
