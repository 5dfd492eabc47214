"""Tuning specs with the real compiler: what it writes about dispatches, and what it takes from a spec."""

from __future__ import annotations

import pytest

from tests.checkouts import in_environment


@pytest.fixture(scope="module")
def found(environments, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("specs")
    return in_environment(environments / "iree/bin/python", "specs_in_iree", str(folder))


def test_the_compiler_names_the_dispatch_its_operation_and_its_configuration(found):
    plain = found["plain"]
    assert len(plain["functions"]) == 1
    assert "matmul" in plain["functions"][0]
    assert plain["others"] == []
    assert "ins(%arg0, %arg1 : tensor<37x64xf32>, tensor<64x96xf32>)" in plain["operation"]
    assert "lowering_config" not in plain["operation"]


def test_other_configurations_are_timed_and_one_that_is_refused_has_no_time(found):
    plain = found["plain"]
    first, second, refused = plain["times"]
    assert first > 0
    assert second > 0
    assert refused is None
    assert plain["ratio"] > 0
    assert plain["ratio of refused"] == 0


def test_the_compiler_takes_a_configuration_from_the_spec_and_the_values_stay(found):
    assert found["plain"]["matched"] == 1
    assert found["plain"]["right"]


def test_it_is_known_what_no_spec_matches(found):
    assert found["tiled"]["matched"] == 0, "a product with data tiling"
    assert found["tiled"]["dispatches"] > 1, "packing has dispatches of its own"
    assert found["relu"] == [0, 1], "an operation that uses a constant from outside"


def test_the_command_searches_for_the_operations_that_take_the_time(found):
    [operation] = found["command"]["report"]["operations"]
    assert operation["functions"] == found["plain"]["functions"]
    assert operation["share"] == 1
    assert operation["matched"]
    assert operation["tried"] > 0
    assert found["command"]["has spec"] == (operation["found"] is not None)
    assert found["command"]["right"]
