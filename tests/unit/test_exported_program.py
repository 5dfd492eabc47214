"""exported_program: what is refused of a .pt2 before torch reads it. test_mutated_files.py has random damage, and
tests/pipeline/test_sources.py loads such files."""

import contextlib
import copy
import dataclasses
import io
import json
import os
import pickle
import zipfile

import pytest

from scripts.core.dimensions import Sizes
from scripts.frontends.sources import exported_program
from scripts.frontends.sources.exported_program import (
    SOURCE,
    check,
    read,
    refuse_code,
    require_whole,
)
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError
from tests import programs

TRUST = r"; set `trust: true` in the model's entry if you trust the file"
CODE = "__import__('os').system('touch executed')"


class Executed:
    """A pickle that runs a command."""

    def __reduce__(self):
        return os.system, ("touch executed",)


def config(parts, kind="weights"):
    return parts[f"data/{kind}/model_{kind}_config.json"]["config"]


def inner(parts):
    return parts["models/model.json"]["graph_module"]


def node(parts, number=0):
    return inner(parts)["graph"]["nodes"][number]


def spec(parts, **changes):
    inner(parts)["module_call_graph"][0]["signature"] |= changes


def in_spec(parts, *, args=(), kwargs=("x",), **context):
    tree = programs.tree
    first = {"type": context["type"], "context": context["text"], "children_spec": []} if context else tree("builtins.tuple", None, *args)  # fmt: skip
    root = tree("builtins.tuple", None, first, tree("builtins.dict", list(kwargs), *[programs.LEAF for _ in kwargs]))  # fmt: skip
    spec(parts, in_spec=json.dumps([1, root]))


def payload(parts, kind, path_name, data, **changes):
    known = config(parts)["w"] | {"path_name": path_name} | changes
    config(parts, kind)["evil"] = known
    parts[f"data/{kind}/{path_name}"] = data


def argument(parts, name, value, target="torch.ops.aten.relu.default"):
    node(parts, 1)["inputs"].append({"name": name, "arg": value})
    node(parts, 1)["target"] = target


PICKLE = pickle.dumps(Executed())
MESSAGE = 'x"), 0)); (void)!system("touch executed"); (true ? 0 : (throw std::runtime_error("y'
HOSTILE = {
    "a weight is a pickle": (lambda p: payload(p, "weights", "weight_1", PICKLE, use_pickle=True), "weight 'evil' is a pickle, and loading it may execute code"),
    "a constant is a pickle": (lambda p: payload(p, "constants", "tensor_1", PICKLE, use_pickle=True), "constant 'evil' is a pickle"),
    "a constant is an object": (lambda p: payload(p, "constants", "opaque_obj_0", PICKLE * 9), "constant 'evil' is a pickle"),
    "a constant is a class": (lambda p: payload(p, "constants", "custom_obj_0", PICKLE * 9, use_pickle=True), "constant 'evil' is a pickle"),
    "a compiled library": (lambda p: p.update({"data/aotinductor/model/model.so": b"ELF"}), "data/aotinductor/model/model.so is compiled code of AOTInductor"),
    "a function of torch": (lambda p: node(p).update(target="torch.os.system"), "it calls 'torch.os.system', which is no operator of PyTorch"),
    "a method of torch.ops": (lambda p: node(p).update(target="torch.ops.load_library"), "it calls 'torch.ops.load_library'"),
    "an operator of another library": (lambda p: node(p).update(target="torch.ops.mine.f.default"), r"it calls 'torch\.ops\.mine\.f\.default'"),
    "an operator that opens files": (lambda p: node(p).update(target="torch.ops.aten.from_file.default"), "it calls 'torch.ops.aten.from_file.default'"),
    "a function that calls": (lambda p: node(p).update(target="_operator.call"), "it calls '_operator.call'"),
    "an attribute of an operator": (lambda p: node(p).update(target="torch.ops.aten.mm.__globals__"), "it calls 'torch.ops.aten.mm.__globals__'"),
    "an extension": (lambda p: node(p).update(target="#evil:f"), "it calls '#evil:f'"),
    "a function as an argument": (lambda p: node(p)["inputs"].append({"name": "f", "arg": {"as_operator": "torch.os.system"}}), "it calls 'torch.os.system'"),
    "a function in a graph inside": (lambda p: node(p)["inputs"].append({"name": "g", "arg": {"as_graph": {"name": "g", "graph": {"nodes": [{"target": "torch.os.system"}]}}}}), "it calls 'torch.os.system'"),
    "a function under another name": (lambda p: node(p)["inputs"].append({"name": "d", "arg": {"as_string_to_argument": {"metadata": {"as_operator": "torch.os.system"}}}}), "it calls 'torch.os.system'"),
    "a size is code": (lambda p: inner(p)["graph"]["tensor_values"].update(x=programs.tensor({"as_expr": {"expr_str": CODE}}, 4)), "a size is .*, which is no expression of sizes"),
    "a size is code in other letters": (lambda p: inner(p)["graph"]["tensor_values"].update(x=programs.tensor({"as_expr": {"expr_str": "ｅｖａｌ(ｃｈｒ(49))"}}, 4)), "a size is 'ｅｖａｌ"),
    "a size has attributes": (lambda p: inner(p)["graph"]["sym_int_values"].update(n={"as_expr": {"expr_str": "Integer(1).__class__"}}), "a size is 'Integer"),
    "a value has the name of code": (lambda p: node(p)["outputs"].append({"as_tensor": {"name": f"a={CODE}"}}), "a value has the name 'a=__import__.*, which would be Python code|a value has the name \"a="),
    "a number has the name of code": (lambda p: node(p)["outputs"].append({"as_sym_int": {"as_name": "a\nimport os"}}), "a value has the name"),
    "an argument has the name of code": (lambda p: spec(p, forward_arg_names=[f"x={CODE}"]), "a value has the name"),
    "a keyword is code": (lambda p: in_spec(p, kwargs=[f"x={CODE}"]), "an argument has the name"),
    "a keyword of an operator is code": (lambda p: node(p)["inputs"].append({"name": f"a={CODE}", "arg": {"as_int": 1}}), "a value has the name"),
    "a weight has the name of code": (lambda p: inner(p)["signature"]["input_specs"][0]["parameter"].update(parameter_name=f'w"), {CODE}, ("'), "parameter_name is "),
    "a weight has the name of code in its list": (lambda p: config(p).update({f'w"), {CODE}, ("': config(p)["w"]}), "a name is "),
    "a structure imports a module": (lambda p: in_spec(p, type="builtins.dict", text=json.dumps([{"__enum__": True, "fqn": "ctypes:cdll", "name": "/tmp/evil.so"}])), "in_spec imports 'ctypes:cdll'"),
    "a structure imports a module in other letters": (lambda p: in_spec(p, type="builtins.dict", text='[{"\\u005f_enum__": true, "fqn": "this:x", "name": "a"}]'), "in_spec imports 'this:x'"),
    "a result imports a module": (lambda p: spec(p, out_spec=json.dumps([1, {"type": "collections.defaultdict", "context": {"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": []}, "children_spec": []}])), "out_spec imports 'antigravity'"),
    "a symbol is code": (lambda p: inner(p)["graph"]["sym_int_values"].update(n={"as_expr": {"expr_str": "Symbol('e.e+e')"}}), "a size is \"Symbol"),
    "a mode ends a string": (lambda p: argument(p, "mode", {"as_string": MESSAGE}), "an argument is .*, which could become code; expected the name of a mode or an equation"),
    "one of several modes is code": (lambda p: argument(p, "modes", {"as_strings": ["sum", CODE]}), "an argument is .*, which could become code"),
    "a message of another operator": (lambda p: argument(p, "assert_msg", {"as_string": MESSAGE}), "an argument is .*, which could become code"),
    "a number is code": (lambda p: argument(p, "value", {"as_int": "0); f(); (0"}), r"as_int is the text '0\); f\(\); \(0', which could become code; expected a number"),
    "a number in a list is code": (lambda p: argument(p, "size", {"as_ints": [1, CODE]}), "as_ints is the text "),
    "a fraction is code": (lambda p: argument(p, "value", {"as_float": CODE}), "as_float is the text "),
    "a switch is code": (lambda p: argument(p, "value", {"as_bool": CODE}), "as_bool is the text "),
    "a size is a text": (lambda p: inner(p)["graph"]["tensor_values"].update(x=programs.tensor({"as_int": CODE}, 4)), "as_int is the text "),
    "an option of a kernel has the name of code": (lambda p: argument(p, "kernel_options", {"as_string_to_argument": {f"N = {CODE}": {"as_int": 1}}}), "a value has the name 'N = |a value has the name \"N = "),
    "a weight has the name of two lines": (lambda p: inner(p)["signature"]["input_specs"][0]["parameter"].update(parameter_name="w\u2028import os"), "parameter_name is "),
    "metadata of something else": (lambda p: inner(p)["module_call_graph"][0].update(metadata={"stack_trace": CODE}), "stack_trace is the text "),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_be_executed_is_refused(tmp_path, name):
    change, message = HOSTILE[name]
    path = programs.write(tmp_path / "evil.pt2", programs.entries(change))
    with pytest.raises(BrokenModelFile, match=rf"evil\.pt2: (?:{message}).*{TRUST}"):
        check(path, {})
    check(path, {"trust": True})


def test_a_program_with_names_of_the_format_and_sizes_is_not_refused(tmp_path):
    def change(parts):
        size = {"as_expr": {"expr_str": "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(-1))", "hint": {"as_int": 8}}}  # fmt: skip
        values = inner(parts)["graph"]["tensor_values"]
        values |= {"x": programs.tensor(size, 4), "target": programs.tensor(2), "expr_str": programs.tensor(2), "name": programs.tensor(2)}  # fmt: skip
        for text in ("tanh", "", "...ij,bjk->b...ik", "use_mm_for_euclid_dist"):
            argument(parts, "mode", {"as_string": text})
        for number in ("Infinity", "-Infinity", "NaN", 1.5):
            argument(parts, "value", {"as_float": number})
        argument(parts, "kernel_options", {"as_string_to_argument": {"BLOCK_M": {"as_int": 64}}})
        node(parts)["metadata"] |= {"custom": '{"a": "b"}', "torch_fn": "mm;f.mm"}
        in_spec(parts, args=[programs.tree("builtins.list", None, programs.LEAF)])

    path = programs.write(tmp_path / "a.pt2", programs.entries(change))
    check(path, {})
    assert SOURCE.facts(path, {}).batch_size == 8


@pytest.mark.parametrize("operator", ["_assert_async.msg", "_functional_assert_async.msg", "_assert_scalar.default", "_functional_assert_scalar.default"])  # fmt: skip
def test_texts_that_inform_are_loaded_harmlessly(tmp_path, operator):
    stack = "L__self__,,m.M;L__self___layers_0,layers.0,m.\"'''\nimport os\n'''*/"
    comments = {"stack_trace": CODE, "source_fn_stack": f"a\n{CODE},b", "custom": '"""', "from_node": "[]", "torch_fn": CODE}  # fmt: skip

    def change(parts):
        argument(parts, "assert_msg", {"as_string": MESSAGE}, f"torch.ops.aten.{operator}")
        node(parts, 1)["metadata"] = {"nn_module_stack": stack, **comments}
        inner(parts)["metadata"] = {"custom": CODE}
        parts["models/model.json"]["guards_code"] = [CODE]

    path = programs.write(tmp_path / "a.pt2", programs.entries(change))
    graph = refuse_code(path, read(path))
    assert graph["guards_code"] == []
    assert graph["graph_module"]["metadata"] == {}
    loaded = graph["graph_module"]["graph"]["nodes"][1]
    assert loaded["metadata"] == {"nn_module_stack": "L__self__,,m.M;L__self___layers_0,layers.0,m._____import_os______"}  # fmt: skip
    message = "x__, 0___ _void__system__touch executed___ _true _ 0 _ _throw std__runtime_error__y"
    assert loaded["inputs"][-1] == {"name": "assert_msg", "arg": {"as_string": message}}


def places(value, at=()):
    """Where a JSON value has texts, numbers and keys."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield at, key
        if isinstance(inner, dict | list):
            yield from places(inner, (*at, key))


def test_no_text_in_any_place_of_a_program_gets_through(tmp_path):
    def change(parts):
        argument(parts, "assert_msg", {"as_string": "m"}, "torch.ops.aten._assert_async.msg")
        argument(parts, "value", {"as_float": 1.5})
        argument(parts, "size", {"as_ints": [1, 2]})

    archive = read(programs.write(tmp_path / "a.pt2", programs.entries(change)))
    through = set()
    for at, key in places(archive.graph):
        for is_key in (False, True) if isinstance(key, str) else (False,):
            graph = copy.deepcopy(archive.graph)
            inside = graph
            for step in at:
                inside = inside[step]
            if is_key:
                inside[MESSAGE] = inside.pop(key)
            else:
                inside[key] = MESSAGE
            with contextlib.suppress(BrokenModelFile):
                loaded = refuse_code(tmp_path, dataclasses.replace(archive, graph=graph))
                if MESSAGE in str(loaded):
                    through.add((*at, key))
    assert through == {("torch_version",)}  # only error messages have it


def test_sizes_are_of_the_symbols_of_the_inputs_in_their_ranges(tmp_path):
    def change(parts):
        size = {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 8}}}  # fmt: skip
        inner(parts)["graph"]["tensor_values"]["x"] = programs.tensor(size, 4)
        ranges = {"s77": {"min_val": 0, "max_val": 64}, "u0": {"min_val": 0, "max_val": None}}
        parts["models/model.json"]["range_constraints"] = ranges

    path = programs.write(tmp_path / "a.pt2", programs.entries(change))
    check(path, {"dims": {"s77": 16}})
    assert SOURCE.facts(path, {"dims": {"s77": 16}}).batch_size == 16
    SOURCE.check_dynamic(path, {}, {"s77": Sizes((1, 8), max=64)})
    for options, message in (
        ({"dims": {"u0": 2}}, "dims: it has no dynamic dimension 'u0'; it has s77"),
        ({"dims": {"s77": 65}}, "dims: found s77 65, but the file is for 1 to 64"),
    ):
        with pytest.raises(ModelFileError, match=message):
            check(path, options)
    for name, sizes, message in (
        ("batch", Sizes((1,)), "dynamic: it has no dynamic dimension 'batch'; it has s77"),
        ("s77", Sizes((1,)), "dynamic.s77: found sizes of 1 or more, but the file is for 1 to 64; set min and max"),
    ):  # fmt: skip
        with pytest.raises(ModelFileError, match=message):
            SOURCE.check_dynamic(path, {}, {name: sizes})


def test_facts_are_those_of_the_first_input_and_most_weights(tmp_path):
    def change(parts):
        big = programs.tensor(8, 4) | {"dtype": 13}
        payload(parts, "weights", "weight_1", bytes(64), tensor_meta=big)

    path = programs.write(tmp_path / "a.pt2", programs.entries(change))
    found = SOURCE.facts(path, {})
    assert (found.batch_size, found.dtype) == (3, "bf16")
    assert SOURCE.facts(path, {"batch_size": 7}).batch_size == 7


def remove(name):
    return lambda parts: parts.pop(name)


DAMAGED = {
    "no program": (remove("models/model.json"), "it has no models/model.json among its 6 entries; expected the file of torch.export.save"),
    "two programs": (lambda p: p.update({"models/b.json": {}}), "it has the programs models/model.json, models/b.json"),
    "a program of another kind": (lambda p: p.update({"models/b/c.bin": b""}), "it has the programs models/model.json, models/b/c.bin"),
    "no list of weights": (remove("data/weights/model_weights_config.json"), "it has no data/weights/model_weights_config.json"),
    "no example inputs": (remove("data/sample_inputs/model.pt"), "it has no data/sample_inputs/model.pt"),
    "no weight": (remove("data/weights/weight_0"), "weights w: its data data/weights/weight_0 is not in the archive"),
    "a short weight": (lambda p: p.update({"data/weights/weight_0": b"1234"}), r"weights w of shape \[4, 4\] needs 64 bytes, but its data has 4"),
    "an empty weight": (lambda p: p.update({"data/weights/weight_0": b""}), r"needs 64 bytes, but its data has 0"),
    "billions of elements": (lambda p: config(p)["w"].update(tensor_meta=programs.tensor(10**6, 10**6)), r"needs 4000000000000 bytes, but its data has 64"),
    "a negative size": (lambda p: config(p)["w"].update(tensor_meta=programs.tensor(-4, 4)), r"weights w of shape \[-4, 4\]"),
    "half a size": (lambda p: config(p)["w"].update(tensor_meta=programs.tensor(0.5, 4)), r"weights w of shape \[0.5, 4\]"),
    "an unknown size": (lambda p: config(p)["w"].update(tensor_meta=programs.tensor({"as_expr": {}})), r"weights w: its type cannot be read \(KeyError: 'as_int'\)"),
    "no type": (lambda p: config(p)["w"].update(tensor_meta=None), "weights w: its type cannot be read"),
    "no entry": (lambda p: config(p).update(w=3), "weights w: its type cannot be read"),
    "an unknown dtype": (lambda p: config(p)["w"]["tensor_meta"].update(dtype=99), r"its type cannot be read \(KeyError: 99\)"),
    "a weight on a GPU": (lambda p: config(p)["w"]["tensor_meta"].update(device={"type": "cuda", "index": 0}), r"weights w is on cuda, expected it on the CPU; save what torch\.export\.passes\.move_to_device_pass"),
    "a list of weights without config": (lambda p: p.update({"data/weights/model_weights_config.json": {}}), "found no config, expected the list of weights"),
    "a list for a program": (lambda p: p.update({"models/model.json": []}), "models/model.json: found list, expected an object"),
    "half a program": (lambda p: p.update({"models/model.json": json.dumps(p["models/model.json"])[:100].encode()}), "models/model.json: no JSON"),
    "no text": (lambda p: p.update({"models/model.json": b"\xff\xfe{}"}), "models/model.json: no JSON"),
    "a deep program": (lambda p: p.update({"models/model.json": b"[" * 200_000}), "models/model.json: no JSON"),
    "weights of an older version": (lambda p: p.update({"data/weights/model.pt": PICKLE}), "its weights are a pickle, as before PyTorch 2.9; save it again"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_damaged_is_named_with_what_was_expected(tmp_path, name):
    change, message = DAMAGED[name]
    path = programs.write(tmp_path / "bad.pt2", programs.entries(change))
    for options in ({}, {"trust": True}):
        with pytest.raises(BrokenModelFile, match=rf"bad\.pt2: .*{message}"):
            check(path, options)


def test_a_program_larger_than_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(exported_program, "_LARGEST_TEXT", 1000)
    path = programs.write(tmp_path / "big.pt2", programs.entries())
    with pytest.raises(BrokenModelFile, match=r"big\.pt2: models/model.json has \d+ bytes; at most 1000 are read"):  # fmt: skip
        check(path, {})


def archive(*names: str, root: str = "m/", **how) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", **how) as file:
        for name in names:
            file.writestr(root + name, "{}")
    return data.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"empty \(0 bytes; "),
        (b"#!/bin/sh\ntouch executed\n", r"no zip archive \(25 bytes; "),
        (b"PK\x03\x04 and no more", r"cut or damaged \(16 bytes; "),
        (archive("data.pkl", "version"), "it is a file of torch.save, which has weights and no program"),
        (archive("constants.pkl", "code/f.py", compression=zipfile.ZIP_DEFLATED), "it is a TorchScript archive"),
        (archive("serialized_exported_program.json", "version", root=""), "it is of torch.export.save before PyTorch 2.8"),
        (archive("data/aotinductor/model/a.so"), "it is a package of AOTInductor"),
        (archive("word/document.xml", compression=zipfile.ZIP_DEFLATED), "it has no models/model.json among its 1 entries"),
        (archive(), "it has no models/model.json among its 0 entries"),
    ],
)  # fmt: skip
def test_another_kind_of_file_is_named(tmp_path, content, message):
    path = tmp_path / "other.pt2"
    path.write_bytes(content)
    with pytest.raises(BrokenModelFile, match=rf"other\.pt2: {message}.*expected the file of torch\.export\.save"):  # fmt: skip
        check(path, {"trust": True})


@pytest.mark.parametrize("name", ["../../evil", "model/../../evil", "/etc/evil", "evil", "version"])
def test_a_name_outside_of_the_folder_of_the_archive_is_refused(tmp_path, name):
    path = programs.write(tmp_path / "a.pt2", programs.entries())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, "x")
    with pytest.raises(BrokenModelFile, match=f"its entry '{name}' is not in the folder 'model'"):
        check(path, {})


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["model/models/model.json", "model/Models/MODEL.json", "model/archive_FORMAT"])  # fmt: skip
def test_an_archive_that_can_be_read_in_two_ways_is_refused(tmp_path, name):
    path = programs.write(tmp_path / "a.pt2", programs.entries())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, "{}")
    with pytest.raises(BrokenModelFile, match=r"two entries|it has the programs"):
        check(path, {})


def test_compressed_entries_are_refused(tmp_path):
    path = programs.write(tmp_path / "a.pt2", programs.entries())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model/bomb", bytes(10**6))
    with pytest.raises(BrokenModelFile, match="'model/bomb' is compressed"):
        check(path, {})


def test_a_missing_file_and_a_wrong_option_are_errors_of_the_configuration(tmp_path):
    path = programs.write(tmp_path / "a.pt2", programs.entries())
    wrong = [
        (tmp_path / "b.pt2", {}, r"b\.pt2: no such file; expected an exported program there"),
        (path, {"seq_len": 3}, r"takes no option 'seq_len' \(it takes batch_size, dims, inputs, seed, trust\); an exported program has its shapes"),
        (path, {"input": "x"}, r"takes no option 'input' .*; did you mean 'inputs'\?"),
        (path, {"inputs": str(tmp_path / "no.npz")}, r"inputs: no file .*no\.npz; expected an \.npz"),
    ]  # fmt: skip
    for file, options, message in wrong:
        with pytest.raises(ModelFileError, match=message) as raised:
            check(file, options)
        assert not isinstance(raised.value, BrokenModelFile)


def test_a_flipped_byte_of_a_weight_is_found_by_its_checksum(tmp_path):
    path = programs.write(tmp_path / "a.pt2", programs.entries())
    require_whole(path)
    data = path.read_bytes()
    place = data.index(programs.WEIGHT) + 5
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    check(path, {})
    with pytest.raises(BrokenModelFile, match=r"a\.pt2: .*model/data/weights/weight_0.*damaged"):
        require_whole(path)


def test_sizes_of_tensors_are_those_of_their_shapes_and_shared_data_counts_once(tmp_path):
    def change(parts):
        expanded = programs.tensor(1000, 4)
        expanded["strides"] = [{"as_int": 0}, {"as_int": 1}]
        config(parts)["tied"] = config(parts)["w"]
        payload(parts, "weights", "weight_1", bytes(16), tensor_meta=expanded)

    path = programs.write(tmp_path / "a.pt2", programs.entries(change))
    assert read(path).tensors() == {
        "data/weights/weight_0": (16, 64),
        "data/weights/weight_1": (4000, 16000),
    }


def test_a_digest_is_that_of_the_bytes(tmp_path):
    paths = [programs.write(tmp_path / f"{n}.pt2", programs.entries()) for n in "ab"]
    paths[1].write_bytes(paths[1].read_bytes() + b"x")
    assert SOURCE.digest(paths[0]) != SOURCE.digest(paths[1])
