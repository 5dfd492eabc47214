"""Exported programs and folders of Hugging Face with the real torch: valid ones are right by every lowering path, and
nothing of a hostile file is executed."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.frontends.sources.exported_program import SOURCE
from tests.checkouts import ROOT, in_environment
from tests.pipeline.test_user_models import TORCH, XLA

STABLEHLO = ["torch_mlir", {"dialect": "stablehlo", "rewrites": "all"}]


@pytest.fixture(scope="module")
def made(environments, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    in_environment(environments / "torch-mlir/bin/python", "sources_in_torch", case={"make": str(folder)})  # fmt: skip
    return folder


def run(python: Path, folder: Path, names: tuple[str, ...], paths: list) -> dict[str, Any]:
    files = [folder / (name if name.endswith(".pt2") else f"{name}/config.json") for name in names]
    cases = [
        {"name": name, "file": str(file), "options": {}, "paths": paths, "run": True}
        for name, file in zip(names, files, strict=True)
    ]
    found = in_environment(python, "user_models", case={"work": str(folder), "cases": cases})
    return dict(zip(names, found, strict=True))


def test_a_program_and_a_folder_are_right_by_every_lowering_path(environments, made):
    names = ("plain.pt2", "sharded")
    for env, paths in (("torch-mlir", [TORCH, STABLEHLO]), ("torch-xla", [XLA])):
        for name, found in run(environments / f"{env}/bin/python", made, names, paths).items():
            assert "error" not in found, found
            assert len(found["outputs"]) == {"plain.pt2": 2, "sharded": 1}[name]
            verdicts = {path: ended.get("verdict", ended) for path, ended in found["paths"].items()}
            assert {p: v for p, v in verdicts.items() if not str(v).startswith("PASS")} == {}
            assert len(verdicts) == len(paths)


def load(environments: Path, files: list[tuple[Path, dict[str, Any]]], env: str = "torch-mlir", **more: Any) -> list[str]:  # fmt: skip
    case = {"load": [(str(file), options) for file, options in files], **more}
    return in_environment(environments / f"{env}/bin/python", "sources_in_torch", case=case)


def test_programs_of_other_dtypes_and_of_dynamic_sizes_load_with_both_versions_of_torch(environments, made):  # fmt: skip
    files = [(made / name, {}) for name in ("half.pt2", "dynamic.pt2", "asserting.pt2")]
    for env in ("torch-mlir", "torch-xla"):
        assert load(environments, files, env) == ["", "", ""]


def test_the_modules_of_a_program_are_those_of_the_model(environments, made):
    linear = [["first", "Linear"], ["second", "Linear"]]
    for env, profiled in (("torch-mlir", True), ("torch-xla", False)):
        case = {"modules": str(made / "plain.pt2"), "profile": profiled}
        of_file, of_model = in_environment(environments / f"{env}/bin/python", "sources_in_torch", case=case)  # fmt: skip
        inductor = of_file.pop("inductor", linear)
        assert of_file == of_model
        assert {of_file["nodes"][name] for name in ("linear", "linear_1")} == {"first", "second"}
        assert of_file["classes"].items() >= {"": "Tied", "first": "Linear"}.items()
        assert [module for module in inductor if module in linear] == linear


def test_example_inputs_of_another_size_repeat_their_values(environments, made):
    file = made / "dynamic.pt2"
    [symbol] = SOURCE.dynamic_dims(file)
    python = environments / "torch-mlir/bin/python"
    case = {"inputs": [(str(file), options) for options in ({}, {"dims": {symbol: 7}})]}
    (x, scale), (longer, same) = in_environment(python, "sources_in_torch", case=case)
    assert (len(x), longer) == (3, [*x, *x, x[0]])
    assert same == scale


def test_weights_that_are_missing_or_left_over_are_errors(environments, made):
    files = [made / name / "config.json" for name in ("missing", "more", "unknown")]
    missing, more, unknown = load(environments, [(file, {}) for file in files])
    assert re.search(r"/missing: 1 weights of BertForMaskedLM are not in the files, first bert\.encoder\.layer\.0\.output\.dense\.weight", missing)  # fmt: skip
    assert re.search(r"/more: 1 weights of the files are not in BertForMaskedLM, first bert\.pooler\.dense\.weight", more)  # fmt: skip
    assert re.search(r"/unknown: transformers \S+ has no model class MyBert", unknown)
    assert load(environments, [(files[2], {"architecture": "BertForMaskedLM"})]) == [""]
    assert not list(Path.cwd().glob("executed"))


class Touching:
    """A pickle that makes a file."""

    def __init__(self, marker: Path) -> None:
        self.command = f"touch {marker}"

    def __reduce__(self):
        import os

        return os.system, (self.command,)


def hostile(source: Path, path: Path, marker: Path, kind: str) -> None:
    """Write the program at `source` so that reading it would make the file `marker`, in one of the KINDS."""
    with zipfile.ZipFile(source) as file:
        root = file.namelist()[0].partition("/")[0]
        parts = {name.removeprefix(f"{root}/"): file.read(name) for name in file.namelist()}
    program = json.loads(parts["models/model.json"])
    weights = json.loads(parts["data/weights/model_weights_config.json"])
    constants = json.loads(parts["data/constants/model_constants_config.json"])
    graph = program["graph_module"]["graph"]
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    run = f"__import__('os').system('touch {marker}')"
    evil = pickle.dumps(Touching(marker))
    match kind:
        case "inputs":
            parts["data/sample_inputs/model.pt"] = evil
        case "weight":
            weights["config"]["first.weight"] |= {"use_pickle": True, "path_name": "weight_9"}
            parts["data/weights/weight_9"] = evil
        case "object":
            constants["config"]["evil"] = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}  # fmt: skip
            parts["data/constants/opaque_obj_0"] = evil
        case "size":
            graph["tensor_values"][graph["nodes"][0]["outputs"][0]["as_tensor"]["name"]]["sizes"][0] = {"as_expr": {"expr_str": run, "hint": None}}  # fmt: skip
        case "operator":
            argument = {"name": "", "arg": {"as_string": f"touch {marker}"}, "kind": 1}
            graph["nodes"].insert(0, graph["nodes"][0] | {"target": "torch.os.system", "inputs": [argument], "outputs": [{"as_none": True}], "name": "evil"})  # fmt: skip
        case "argument":
            signature["forward_arg_names"][0] += f"={run}"
        case "value":
            old = graph["nodes"][0]["outputs"][0]["as_tensor"]["name"]
            text = json.dumps(program).replace(json.dumps(old), json.dumps(f"{old} = {run}; {old}"))
            program = json.loads(text)
        case "message":  # inductor writes it into C++
            text = f'x"), 0)); (void)!system("touch {marker}"); (true ? 0 : (throw std::runtime_error("y'
            (node,) = [
                n for n in graph["nodes"] if n["target"] == "torch.ops.aten._assert_async.msg"
            ]
            node["inputs"][1]["arg"]["as_string"] = text
        case "guard":
            program["guards_code"] = [run]
        case "older":  # what torch.export.load turns to if the newer format cannot be read
            program["schema_version"]["major"] = 99
    parts["models/model.json"] = json.dumps(program).encode()
    parts["data/weights/model_weights_config.json"] = json.dumps(weights).encode()
    parts["data/constants/model_constants_config.json"] = json.dumps(constants).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(f"{root}/{name}", content)
        if kind == "older":
            for name in ("state_dict", "constants", "example_inputs"):
                file.writestr(f"serialized_{name}.pt", evil)
            program["schema_version"]["major"] = 8
            file.writestr("serialized_exported_program.json", json.dumps(program))
            file.writestr("version", "8.20")


KINDS = {
    "inputs": "its example inputs are more than tensors and plain values, and loading them may execute code",
    "weight": "weight 'first.weight' is a pickle, and loading it may execute code",
    "object": "constant 'evil' is a pickle",
    "size": "a size is .*, which is no expression of sizes",
    "operator": "(it calls 'torch.os.system', which is no operator of PyTorch|an argument is 'touch .*', which could become code)",
    "argument": "a value has the name .*, which would be Python code",
    "value": "a name is .*, which would be Python code",
}


def test_nothing_of_a_hostile_file_is_executed(environments, made, tmp_path):
    kinds = [*KINDS, "guard", "older"]
    files = [tmp_path / f"{kind}.pt2" for kind in kinds]
    for kind, file in zip(kinds, files, strict=True):
        hostile(made / "plain.pt2", file, tmp_path / kind, kind)
    said = dict(zip(kinds, load(environments, [(file, {}) for file in files]), strict=True))
    for kind, message in KINDS.items():
        assert re.search(rf"/{kind}\.pt2: {message}", said[kind]), said[kind]
        assert "trust: true" in said[kind]
    assert said["guard"] == ""
    assert "its entry 'serialized_state_dict.pt' is not in the folder" in said["older"]
    assert [kind for kind in kinds if (tmp_path / kind).exists()] == []
    # They are hostile: with trust, torch executes these.
    load(environments, [(file, {"trust": True}) for file in files])
    executed = {kind for kind in kinds if (tmp_path / kind).exists()}
    assert {"inputs", "weight", "object", "size"} <= executed


def test_a_message_of_a_hostile_file_is_not_compiled(environments, made, tmp_path):
    evil, marker = tmp_path / "evil.pt2", tmp_path / "marker"
    hostile(made / "asserting.pt2", evil, marker, "message")
    assert load(environments, [(evil, {})], compile=True) == [""]
    assert not marker.exists()
    assert load(environments, [(evil, {"trust": True})], compile=True) == [""]
    assert marker.exists()


GENERIC = """
    %e = tensor.empty() : tensor<4xf32>
    %0 = linalg.generic {{{notes}indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
        ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {{
    ^bb0(%in: f32, %out: f32):
      {body}
      linalg.yield %f : f32
    }} -> tensor<4xf32>"""
PROGRAM = """
module {notes} {{
  {before}
  func.func @main(%x: tensor<4xf32> {argument}) -> tensor<4xf32> {{
    {body}
    return %0 : tensor<4xf32>
  }}
}}
"""
ASM = """%c = arith.constant 39 : i64
      %p = llvm.inline_asm has_side_effects "syscall", "={ax},0,~{rcx},~{r11}" %c : (i64) -> i64
      %f = arith.sitofp %p : i64 to f32"""
SINE = "%f = math.sin %in : f32"
CUSTOM = "%0 = stablehlo.custom_call @{}(%x) : (tensor<4xf32>) -> tensor<4xf32>"
ADD = "%0 = stablehlo.add %x, %x : tensor<4xf32>"
SYSTEM = "func.func private @system(tensor<4xf32>) -> tensor<4xf32>"
DEVICE = '{hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "system-elf-x86_64">]>]}'
REFUSED = {
    "asm": ({"body": GENERIC.format(notes="", body=ASM)}, r"llvm\.inline_asm is none of the operations that a program may have \(@main, line \d+\)"),
    "library": ({"body": GENERIC.format(notes='library_call = "system", ', body=SINE)}, "linalg.generic has the attribute library_call"),
    "declared": ({"before": SYSTEM, "body": "%0 = func.call @system(%x) : (tensor<4xf32>) -> tensor<4xf32>"}, "@system is a function without a body"),
    "custom": ({"body": CUSTOM.format("xla_python_cpu_callback")}, "stablehlo.custom_call to 'xla_python_cpu_callback', which is none of the functions"),
    "kernel": ({"body": '%0 = iree_codegen.ukernel.generic "system" ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) strided_dims([[],[]]) -> tensor<4xf32>'}, "iree_codegen.ukernel.generic is none"),
    "buffer": ({"body": f"{ADD} %m = bufferization.to_buffer %0 : tensor<4xf32> to memref<4xf32>"}, "bufferization.to_buffer is none"),
    "device": ({"notes": f"attributes {DEVICE}", "body": ADD}, "builtin.module has the attribute hal.device.targets"),
    "argument": ({"argument": "{hal.x = 1 : i32}", "body": ADD}, "func.func has the attribute hal.x"),
    "value": ({"body": ADD, "before": "util.global private @w = #util.byte_pattern<1> : tensor<4xf32>"}, "util.global has the attribute initial_value of the dialect util"),
}  # fmt: skip
ALLOWED = {
    "generic": {"body": GENERIC.format(notes="", body=SINE)},
    "erf": {"body": CUSTOM.format("mhlo.erf").replace(") :", ") {mhlo.attributes = {}, mhlo.version = 1 : i64} :", 1)},
    "jax": {"notes": "attributes {mhlo.num_partitions = 1 : i32}", "argument": '{jax.result_info = "x", mhlo.sharding = "{replicated}"}', "body": ADD},
}  # fmt: skip


def test_programs_of_mlir_run_no_code_of_the_file(environments, tmp_path):
    files = []
    programs = {name: parts for name, (parts, _) in REFUSED.items()} | ALLOWED
    for name, parts in (programs | {"trusted": programs["asm"]}).items():
        text = PROGRAM.format(**({"notes": "", "before": "", "argument": ""} | parts))
        (tmp_path / f"{name}.mlir").write_text(text)
        files.append((tmp_path / f"{name}.mlir", {"trust": True} if name == "trusted" else {}))
    said = {file.stem: line for (file, _), line in zip(files, load(environments, files), strict=True)}  # fmt: skip
    for name, (_, message) in REFUSED.items():
        assert re.search(rf"/{name}\.mlir: {message}.*; set `trust: true`", said[name]), said[name]
    assert {name: said[name] for name in (*ALLOWED, "trusted")} == dict.fromkeys((*ALLOWED, "trusted"), "")  # fmt: skip


def test_an_archive_that_torch_reads_in_another_way_is_refused(environments, made, tmp_path):
    """A second directory before the archive: zipfile takes the last one, and torch that at the place that it names."""
    good, evil = tmp_path / "good.pt2", tmp_path / "evil.pt2"
    shutil.copyfile(made / "plain.pt2", good)
    hostile(good, evil, tmp_path / "marker", "weight")
    both = tmp_path / "both.pt2"
    both.write_bytes(evil.read_bytes() + good.read_bytes())
    (said,) = load(environments, [(both, {})])
    assert "both.pt2: " in said
    assert not (tmp_path / "marker").exists()


def test_stages_refuse_mutated_files_by_name(environments):
    words = [environments / "torch-mlir/bin/python", "-m", "benchmarks.mutated_files", "--count", "20"]  # fmt: skip
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("refused") == 10, ended.stdout
