"""A folder of Hugging Face: config.json and weights in safetensors, in one file or in several.

Nothing of the folder is executed: its own Python code is not, and weights that are pickles are refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any

from scripts.core import checkout
from scripts.frontends.sources.source import BRACES, Facts, Options, Source, has_braces, json_object
from scripts.frontends.torch_model import source
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
MODEL = checkout.ROOT / "models/suites/hf_folder.py"
"""The Python file that loads a folder."""
IMPLEMENTATIONS = {
    "attn": ("eager", "sdpa", "flex_attention"),
    "experts": ("eager", "batched_mm", "grouped_mm"),
}
"""Those that transformers has itself, on the CPU. It looks up others at the hub (`org/kernel`, `msa|org/kernel`), and so kernels of
flash attention; it imports and runs these. Read from transformers 5.23: modeling_utils.py, integrations/hub_kernels.py."""
_IMPLEMENTATION = re.compile(r"_?(?P<of>attn|experts)_implementation(?:_internal)?")
# What goes to timm.create_model. A name with a colon or a slash has its configuration elsewhere.
_TIMM_NAMES = ("architecture", "backbone")
_SOURCE = re.compile(r"[:/]")
_TIMM_ARGUMENTS = ("backbone_kwargs", "model_args")
_TIMM_SOURCES = {"cache_dir", "checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay"}  # fmt: skip
_NOT_AS_EXPECTED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)  # fmt: skip
_HEADER_BYTES = 100 << 20
"""The largest header that the safetensors format allows, and the largest JSON that is read."""


def check(path: Path, options: Options) -> None:
    """Raise BrokenModelFile for a folder that is not whole, ModelFileError for an option that it does not take."""
    if "folder" in options:
        raise ModelFileError(f"{path}: takes no option 'folder'; `file` is the folder")
    source.check_options(MODEL, options)
    if not os.path.isfile(path):
        raise ModelFileError(
            f"{path}: no such file; expected the folder of a model of Hugging Face"
        )
    config = _json(path)
    named = config.get("architectures")
    if not (isinstance(named, list) and named and isinstance(named[0], str)):
        raise BrokenModelFile(
            f"{path}: architectures: found {named!r}, expected a list with the name of a class of transformers"
        )
    _refuse_sources(path, config)
    count = sum(map(elements, weight_files(path.parent)))
    for key, layers in config.items():
        if (
            "layer" in key and type(layers) is int and layers > count
        ):  # building them would take hours
            raise BrokenModelFile(f"{path}: {key}: found {layers}, but its weights have {count} elements")  # fmt: skip


def _refuse_sources(path: Path, config: dict[str, Any]) -> None:
    """Raise BrokenModelFile if a configuration names code or weights that are not in the folder, at any depth: models have
    configurations of their parts, and of single layers."""
    todo: list[Any] = [config]
    while todo:
        value = todo.pop()
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []  # fmt: skip
        for key, inner in value.items() if isinstance(value, dict) else ():
            if match := _IMPLEMENTATION.fullmatch(key):
                allowed = IMPLEMENTATIONS[match["of"]]
                if other := next((text for text in _leaves(inner) if text not in allowed), None):
                    raise BrokenModelFile(f"{path}: {key}: found {other!r}, which may be a kernel of the hub; expected {', '.join(allowed)}")  # fmt: skip
            elif key in _TIMM_NAMES and isinstance(inner, str) and _SOURCE.search(inner):
                raise BrokenModelFile(f"{path}: {key}: found {inner!r}, which is looked up elsewhere; expected a model of timm")  # fmt: skip
            elif key in _TIMM_ARGUMENTS and isinstance(inner, dict) and (elsewhere := sorted(_TIMM_SOURCES & inner.keys())):  # fmt: skip
                raise BrokenModelFile(f"{path}: {key}: found {elsewhere[0]}, with which timm loads other files; expected the weights of the folder")  # fmt: skip


def _leaves(value: Any) -> list[Any]:
    """The values inside, less null: an implementation, or those of the parts by their names."""
    todo, leaves = [value], []
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += value.values()
        elif value is not None:
            leaves.append(value)
    return leaves


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder's weights. Raises BrokenModelFile if there are none, or if one is missing."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = folder / INDEX
    if not index.is_file():
        others = sorted(file.name for file in folder.glob("*.bin"))
        pickled = f"; found {', '.join(others)}, which are pickles and are not loaded: save them with safe_serialization=True" if others else ""  # fmt: skip
        raise BrokenModelFile(f"{folder}: no {WEIGHTS} and no {INDEX}; expected one of them{pickled}")  # fmt: skip
    shards = _json(index).get("weight_map")
    if not (isinstance(shards, dict) and shards):
        raise BrokenModelFile(f"{index}: weight_map: found {shards!r}, expected the file of each weight")  # fmt: skip
    files = []
    for name in dict.fromkeys(map(str, shards.values())):
        if Path(name).name != name:
            raise BrokenModelFile(f"{index}: weight_map names {name!r}, expected a file of the same folder")  # fmt: skip
        if not os.path.isfile(folder / name):
            raise BrokenModelFile(f"{index}: weight_map names {name}, which is not in {folder}")
        if has_braces(name):
            raise BrokenModelFile(f"{index}: weight_map names {name!r}, which {BRACES}")
        files.append(folder / name)
    return files


def elements(path: Path) -> int:
    """The number of elements in a file of safetensors. Raises BrokenModelFile if it is cut, or if its header does not
    describe it.

    The format: 8 bytes with the length of the header (little-endian), the header as JSON, the tensors.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _HEADER_BYTES):
            raise BrokenModelFile(f"{path}: {size} bytes; no file of safetensors, or cut inside its header")  # fmt: skip
        text = file.read(length)
    try:
        header = json.loads(text)
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        end = 8 + length + max((int(entry["data_offsets"][1]) for entry in tensors), default=0)
        count = sum(math.prod(map(int, entry["shape"])) for entry in tensors)
    except _NOT_AS_EXPECTED as error:
        raise BrokenModelFile(f"{path}: its header cannot be read ({error}); no file of safetensors") from error  # fmt: skip
    if end != size:
        raise BrokenModelFile(f"{path}: {size} bytes, but its header describes {end}: it is cut or damaged")  # fmt: skip
    if count > 2 * size:  # the smallest type has 4 bits
        raise BrokenModelFile(f"{path}: its header describes {count} elements in {size} bytes")
    return count


def _json(path: Path) -> dict[str, Any]:
    try:
        if (size := path.stat().st_size) > _HEADER_BYTES:
            raise BrokenModelFile(f"{path}: {size} bytes; at most {_HEADER_BYTES} are read")
        return json_object(str(path), path.read_bytes())
    except OSError as error:
        raise BrokenModelFile(f"{path}: cannot be read ({error.strerror}); expected the folder of a model of Hugging Face") from error  # fmt: skip


def _parts(path: Path, _: Options) -> list[Path]:
    index = path.with_name(INDEX)
    files = weight_files(path.parent) + ([index] if index.is_file() else [])
    return [*files, MODEL, *source.own_imports(MODEL)]


def _digest(path: Path) -> str:
    text = path.read_bytes() + source.code_digest(MODEL).encode()
    return hashlib.sha256(text).hexdigest()[:12]


SOURCE = Source(
    name="hugging-face",
    kind="module",
    expected=f"a folder of Hugging Face ({CONFIG} and safetensors)",
    takes=lambda path: path.name == CONFIG or os.path.isdir(path),
    check=check,
    facts=lambda _, options: Facts(source.default_batch_size(MODEL), options.get("dtype", "f32")),
    parts=_parts,
    digest=_digest,
    sizes_are_options=True,
)
