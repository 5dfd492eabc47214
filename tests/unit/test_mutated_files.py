"""Mutated files of others: a reader refuses them by name and nothing else comes out, so the other models of a run go on.

A few dozen of each kind. 2,000 of each: python -m pytest tests/unit/test_mutated_files.py --hypothesis-profile=mutations
"""

import dataclasses
import json
import os
import random
import re
import resource
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from scripts.config import expansion, settings
from scripts.config.cell import Cell, Kind
from scripts.frontends.sources.registry import source_of
from scripts.frontends.sources.source import UNREADABLE, given_arrays
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelError, ModelFileError
from scripts.run.plan import Plan
from tests import mutations, programs

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 10
"""Of a file, on a busy machine."""
MOST_GROWTH_KB = 1_000_000
RANDOM = st.randoms(use_true_random=False)


def onnx_model() -> onnx.ModelProto:
    """A graph with dynamic dimensions, a branch, an initializer in another file and all kinds of attributes."""
    external = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    external.ClearField("raw_data")
    external.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": "48"}.items():
        external.external_data.add(key=key, value=value)
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, ("batch", 3))
    branch = helper.make_graph([helper.make_node("Identity", ["y"], ["z"])], "b", [], [value])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
        helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 4)), helper.make_tensor_value_info("c", TensorProto.BOOL, ())],
        [value],
        [external, numpy_helper.from_array(np.ones(3, np.float32), "b")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def write_onnx(folder: Path, random: random.Random) -> Path:
    model, path = onnx_model(), folder / "m.onnx"
    (folder / "w.bin").write_bytes(bytes(48))
    if random.randint(0, 1):
        mutations.of_message(random, model)
        path.write_bytes(model.SerializePartialToString())
    else:
        path.write_bytes(mutations.of_bytes(random, model.SerializeToString()))
    return path


def write_pt2(folder: Path, random: random.Random) -> Path:
    parts, path = programs.entries(), folder / "m.pt2"
    kind = random.randint(0, 2)
    if kind == 1:
        name = random.choice([name for name, value in parts.items() if isinstance(value, dict)])
        parts[name] = mutations.json_bytes(random, parts[name])
    elif kind == 2:
        parts["models/model.json"] = mutations.of_json(random, parts["models/model.json"])
    programs.write(path, parts)
    if kind == 0:
        path.write_bytes(mutations.of_bytes(random, path.read_bytes()))
    return path


def write_folder(folder: Path, random: random.Random) -> Path:
    programs.folder(folder / "hf", random.choice((1, 2)))
    file = random.choice(sorted((folder / "hf").iterdir()))
    content = file.read_bytes()
    if file.suffix == ".json":
        content = mutations.json_bytes(random, json.loads(content))
    elif random.randint(0, 1):
        length = int.from_bytes(content[:8], "little")
        header = mutations.json_bytes(random, json.loads(content[8 : 8 + length]))
        content = len(header).to_bytes(8, "little") + header + content[8 + length :]
    else:
        content = mutations.of_bytes(random, content)
    file.write_bytes(content)
    return folder / "hf" / "config.json"


MLIR = b"""func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = stablehlo.add %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
"""
PYTHON = b"""import torch

def get_model(size: str = "50", *, pretrained=False): return torch.nn.Linear(4, 4)
def get_dummy_input(batch_size=1): return torch.ones(batch_size, 4)
"""


def write_text(name: str, content: bytes):
    def write(folder: Path, random: random.Random) -> Path:
        (folder / name).write_bytes(mutations.of_bytes(random, content))
        return folder / name

    return write


SOURCES = {
    "pt2": write_pt2,
    "onnx": write_onnx,
    "mlir": write_text("m.mlir", MLIR),
    "hugging-face": write_folder,
    "python": write_text("m.py", PYTHON),
}


def read_by_driver(path: Path) -> None:
    """Call all that a run's start calls for a model's file: scripts/config/models.py, scripts/run/plan.py."""
    source = source_of(path)
    source.check(path, {})
    source.facts(path, {})
    for part in source.parts(path, {}):
        assert part.is_file()
    source.digest(path)
    if source.dynamic_dims is not None:
        source.dynamic_dims(path)


@pytest.mark.parametrize("name", SOURCES)
@given(RANDOM)
def test_a_mutated_model_file_is_refused_by_its_reader(tmp_path_factory, name, random):
    path = SOURCES[name](tmp_path_factory.mktemp("m"), random)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = mutations.refusal(read_by_driver, path, ModelFileError)
    if refused is not None:
        assert isinstance(refused, BrokenModelFile) or "batch_size" in str(refused)
        assert str(path.parent) in str(refused)
        assert UNREADABLE not in str(refused), "an error that the reader did not expect"
    assert time.monotonic() - began < MOST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_KB


@given(RANDOM)
def test_mutated_arrays_are_refused_with_the_name_of_their_file(tmp_path_factory, random):
    path = tmp_path_factory.mktemp("m") / "inputs.npz"
    save = random.choice((np.savez, np.savez_compressed))
    with path.open("wb") as file:
        save(file, x=np.ones((3, 4), np.float32), i=np.arange(4))
    path.write_bytes(mutations.of_bytes(random, path.read_bytes()))
    refused = mutations.refusal(given_arrays, path, ModelError)
    if refused is not None:
        assert str(path) in str(refused)
        assert refused.reason == "model-inputs"


def test_a_reader_that_meets_what_it_does_not_expect_refuses_the_file(tmp_path):
    def fails(*_):
        raise KeyError("w")

    failing = dataclasses.replace(
        source_of("m.onnx"), check=fails, digest=fails, dynamic_dims=fails
    )
    for call in (lambda: failing.check(tmp_path, {}), lambda: failing.digest(tmp_path), lambda: failing.dynamic_dims(tmp_path)):  # fmt: skip
        with pytest.raises(BrokenModelFile, match=rf"{tmp_path}: it cannot be read \(KeyError: 'w'\)"):  # fmt: skip
            call()


def external(location: str, **changes: int):
    """The graph with an initializer in another file of this name."""
    model = onnx_model()
    [weight] = [one for one in model.graph.initializer if one.external_data]
    weight.external_data[0].value = location
    for field, value in changes.items():
        setattr(weight, field, value)
    return model


def typed(number: int):
    """The graph with an input of this element type."""
    model = onnx_model()
    model.graph.input[0].type.tensor_type.elem_type = number
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (external("w\0.bin"), r"its external data 'w\\x00.bin' is not there \(embedded null byte\)"),
        (external("w" * 300), "is not there .*File name too long"),
        (external("{w}"), r"its external data '\{w\}' has a name with braces, in which Snakemake looks for wildcards"),
        (external("w.bin", data_type=0), "weight w has elements of type UNDEFINED, which is none of onnx"),
        (external("w.bin", data_type=99), "weight w has elements of type 99, which is none of onnx"),
        (typed(99), "input x has elements of type 99, expected one of FLOAT, "),
        (typed(0), "input x has elements of type UNDEFINED, expected one of FLOAT, "),
    ],
)  # fmt: skip
def test_a_bad_onnx_file_breaks_its_own_model_only(tmp_path, model, message):
    for name in ("w.bin", "{w}"):
        (tmp_path / name).write_bytes(bytes(48))
    (tmp_path / "bad.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "good.py").write_bytes(PYTHON)
    files = {"file": f"{tmp_path}/bad.onnx,{tmp_path}/good.py"}
    config, selections = settings.load(files, [ROOT / "config.yaml"], ROOT)
    matrix = expansion.expand(config, selections, ROOT)
    plan = Plan(matrix, frozenset(), with_conda=False)
    assert [bool(one.broken) for one in matrix.models.values()] == [True, False]
    [said] = plan.broken_models()
    assert re.search(rf"bad\.onnx: .*{message}", said)
    for name in matrix.models:
        assert all(map(os.path.isfile, plan.model_parts(Cell.of_kind(Kind.MODEL, model=name))))
    assert {row.model for row in matrix.rows()} == {"bad", "good"}


def test_a_folder_whose_index_names_a_file_that_cannot_be_is_broken(tmp_path):
    folder = programs.folder(tmp_path / "hf", shards=2)
    index = folder / "model.safetensors.index.json"
    (folder / "{a}").write_bytes(b"")
    for name, what in (("x" * 300, "is not in "), ("a\0", "is not in "), ("{a}", "has a name with braces")):  # fmt: skip
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(BrokenModelFile, match=rf"index\.json: weight_map names .* {what}"):
            source_of(folder).check(folder / "config.json", {})


def test_a_program_may_have_its_first_function_behind_megabytes_of_literals(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_bytes(b"// " + b"x" * (2 << 20) + b"\n" + MLIR)
    source_of(path).check(path, {})
    for text in (path.read_bytes().replace(b"func", b"fonc"), b""):
        path.write_bytes(text)
        with pytest.raises(BrokenModelFile, match=rf"{len(text)} bytes of text without a function"):
            source_of(path).check(path, {})
