"""Exported programs (.pt2) and folders of Hugging Face, written without torch."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEAF = {"type": None, "context": None, "children_spec": []}
WEIGHT = bytes(range(64))


def tensor(*sizes: Any) -> dict[str, Any]:
    """The type of a float32 tensor."""
    dims = [size if isinstance(size, dict) else {"as_int": size} for size in sizes]
    strides = [{"as_int": 1} for _ in sizes]
    if len(sizes) == 2:
        strides[0] = dims[1]
    return {
        "dtype": 7,
        "sizes": dims,
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": strides,
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def tree(kind: str, context: Any, *children: Any) -> dict[str, Any]:
    return {"type": kind, "context": json.dumps(context), "children_spec": list(children)}


def graph() -> dict[str, Any]:
    """The graph of relu(x @ w) for x of shape [3, 4]."""

    def value(name: str) -> dict[str, Any]:
        return {"as_tensor": {"name": name}}

    def node(target: str, name: str, *args: str) -> dict[str, Any]:
        names = ("self", "mat2")
        inputs = [
            {"name": n, "arg": value(a), "kind": 1} for n, a in zip(names, args, strict=False)
        ]
        metadata = {"stack_trace": '  File "m.py", line 1\n', "nn_module_stack": "L__self__,,m.M"}
        return {"target": target, "inputs": inputs, "outputs": [value(name)], "metadata": metadata, "is_hop_single_tensor_return": None, "name": name}  # fmt: skip

    in_spec = tree("builtins.tuple", None, tree("builtins.tuple", None), tree("builtins.dict", ["x"], LEAF))  # fmt: skip
    return {
        "graph_module": {
            "graph": {
                "inputs": [value("p_w"), value("x")],
                "outputs": [value("relu")],
                "nodes": [
                    node("torch.ops.aten.mm.default", "mm", "x", "p_w"),
                    node("torch.ops.aten.relu.default", "relu", "mm"),
                ],
                "tensor_values": {
                    "p_w": tensor(4, 4),
                    "x": tensor(3, 4),
                    "mm": tensor(3, 4),
                    "relu": tensor(3, 4),
                },
                "sym_int_values": {},
                "sym_bool_values": {},
                "is_single_tensor_return": False,
                "custom_obj_values": {},
                "sym_float_values": {},
            },
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
                    {"user_input": {"arg": value("x")}},
                ],
                "output_specs": [{"user_output": {"arg": value("relu")}}],
            },
            "module_call_graph": [
                {
                    "fqn": "",
                    "signature": {
                        "inputs": [],
                        "outputs": [],
                        "in_spec": json.dumps([1, in_spec]),
                        "out_spec": json.dumps([1, LEAF]),
                        "forward_arg_names": ["x"],
                    },
                }
            ],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.15.0",
        "guards_code": [],
    }


def entries(change: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """The entries of a program's archive, after `change` of them: JSON as objects, other data as bytes."""
    weight = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": tensor(4, 4)}  # fmt: skip
    parts: dict[str, Any] = {
        "archive_format": b"pt2",
        "archive_version": b"0",
        "data/weights/weight_0": WEIGHT,
        "data/weights/model_weights_config.json": {"config": {"w": weight}},
        "data/constants/model_constants_config.json": {"config": {}},
        "models/model.json": graph(),
        "data/sample_inputs/model.pt": b"",
    }
    parts = copy.deepcopy(parts)
    change(parts)
    return parts


def write(path: Path, parts: dict[str, Any], root: str = "model/") -> Path:
    """Write an archive as torch.export.save does: entries that are stored as they are, in one folder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, content in parts.items():
            data = content if isinstance(content, bytes) else json.dumps(content)
            file.writestr(f"{root}{name}", data)
    return path


def safetensors(path: Path, shapes: dict[str, list[int]]) -> Path:
    """Write float32 tensors of zeros."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    return path


def folder(path: Path, shards: int = 1) -> Path:
    """Write the folder of a model of Hugging Face with two weights, in one file or in two."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertModel"]}))  # fmt: skip
    if shards == 1:
        safetensors(path / "model.safetensors", {"a": [2, 3], "b": [4]})
        return path
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    for name, file in names.items():
        safetensors(path / file, {name: [4]})
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))  # fmt: skip
    return path
