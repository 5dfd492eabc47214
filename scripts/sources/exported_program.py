"""An exported program of PyTorch: the file of torch.export.save (.pt2).

torch.export.load executes what a file tells it to: it unpickles weights, constants and example inputs, evaluates expressions of
sizes as Python, and looks operators up below the module torch, where it finds torch.os.system too. So a file is read here first,
as a zip archive of JSON. What is more than a graph of operators and tensors is refused, unless the model's entry has
`trust: true`. The format: torch/_export/serde/schema.py and torch/export/pt2_archive (schema 8).
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.sources.source import Facts, Options, Source
from scripts.torch_model.errors import BrokenModelFile, ModelFileError

OPTIONS = ("batch_size", "inputs", "seed", "trust")
"""Options of an entry. `inputs`: an .npz file with the inputs in place of the example inputs."""
TRUST = "set `trust: true` in the model's entry if you trust the file"

# Values of ScalarType in the schema: (bytes per element, name in rows if results are compared by its tolerance).
_TYPES: dict[int, tuple[int, str]] = {
    1: (1, ""), 2: (1, ""), 3: (2, ""), 4: (4, ""), 5: (8, ""), 6: (2, "f16"), 7: (4, "f32"), 8: (8, "f32"),
    9: (4, ""), 10: (8, ""), 11: (16, ""), 12: (1, ""), 13: (2, "bf16"), 28: (2, ""), 29: (1, ""), 30: (1, ""),
    31: (1, ""), 32: (1, ""), 33: (1, ""), 34: (4, ""), 35: (8, ""),
}  # fmt: skip
# torch.ops also has methods that load files.
_OPERATOR = re.compile(
    r"torch\.ops\.(?!load_library\b|import_module\b|_)\w+\.\w+(\.\w+)?|_operator\.\w+|math\.\w+|torch\._?sym_\w+"
)
_EXPRESSION_NAMES = frozenset(
    [
        "Max",
        "Min",
        "FloorDiv",
        "Mod",
        "PythonMod",
        "ModularIndexing",
        "CeilDiv",
        "CeilToInt",
        "FloorToInt",
        "TruncToInt",
        "TruncToFloat",
        "IntTrueDiv",
        "FloatTrueDiv",
        "CleanDiv",
        "PowByNatural",
        "FloatPow",
        "Pow",
        "Where",
        "Identity",
        "LShift",
        "RShift",
        "RoundToInt",
        "RoundDecimal",
        "ToFloat",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "And",
        "Or",
        "Not",
        "floor",
        "ceiling",
        "true",
        "false",
        "oo",
        "int_oo",
        "zoo",
    ]
)
_EXPRESSION = re.compile(r"[\w\s+\-*/(),<>=!&|~]*")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_SYMBOL = re.compile(r"z?[su]f?\d+|zuf\d+")


@dataclass(frozen=True)
class Archive:
    """The parts of a file that are read before torch reads it. `weights` and `constants`: entries by name."""

    graph: Mapping[str, Any]
    weights: Mapping[str, Mapping[str, Any]]
    constants: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, int]

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights and constants."""
        return sum(size for name, size in self.sizes.items() if name.startswith("data/"))


def check(path: Path, options: Options) -> None:
    """Raise BrokenModelFile for a file that is no exported program, is damaged, or would be executed; ModelFileError for a
    wrong option."""
    for option in options:
        if option not in OPTIONS:
            near = difflib.get_close_matches(option, OPTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelFileError(
                f"{path}: takes no option {option!r} (it takes {', '.join(OPTIONS)}){hint}; an exported program has its "
                "shapes and dtypes"
            )
    given = options.get("inputs")
    if given is not None and not Path(str(given)).expanduser().is_file():
        raise ModelFileError(f"{path}: inputs: no file {given}; expected an .npz with the program's inputs")  # fmt: skip
    archive = read(path)
    if not options.get("trust"):
        refuse_code(path, archive)


def read(path: Path) -> Archive:
    """The parts of a file. Raises BrokenModelFile if it is none of torch.export.save, cut, or describes what it does not hold."""
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as file:
            return _parts(path, file)
    except OSError as error:
        raise BrokenModelFile(f"{path}: cannot be read ({error.strerror}); expected an exported program") from error  # fmt: skip
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        start = b""
        with path.open("rb") as raw:
            start = raw.read(4)
        kind = "empty" if not size else "cut" if start[:2] == b"PK" else "no zip archive"
        raise BrokenModelFile(f"{path}: {kind} ({size} bytes; {error}); expected the file of torch.export.save") from error  # fmt: skip


def _parts(path: Path, file: zipfile.ZipFile) -> Archive:
    names: dict[str, zipfile.ZipInfo] = {}
    for entry in file.infolist():
        inner = entry.filename.partition("/")[2]
        if entry.filename.startswith("/") or ".." in Path(entry.filename).parts:
            raise BrokenModelFile(f"{path}: it has an entry {entry.filename!r}, outside of the archive")  # fmt: skip
        if entry.compress_type != zipfile.ZIP_STORED:
            raise BrokenModelFile(f"{path}: {entry.filename} is compressed; torch.export.save stores entries as they are")  # fmt: skip
        names[inner] = entry
    models = [name for name in names if re.fullmatch(r"models/[^/]+\.json", name)]
    if models != ["models/model.json"]:
        raise BrokenModelFile(f"{path}: {_other(names, models)}; expected the file of torch.export.save, with one program")  # fmt: skip
    graph = _json(path, file, names, "models/model.json")
    payloads = []
    for kind in ("weights", "constants"):
        if f"data/{kind}/model.pt" in names:
            raise BrokenModelFile(f"{path}: its {kind} are a pickle, as before PyTorch 2.9; save it again with torch.export.save")  # fmt: skip
        entries = _json(path, file, names, f"data/{kind}/model_{kind}_config.json").get("config")
        if not isinstance(entries, dict):
            raise BrokenModelFile(f"{path}: data/{kind}: found no config, expected the list of {kind}")  # fmt: skip
        for name, entry in entries.items():
            _check_payload(path, names, kind, name, entry)
        payloads.append(entries)
    return Archive(graph, *payloads, {name: entry.file_size for name, entry in names.items()})


def _other(names: Mapping[str, Any], models: list[str]) -> str:
    """What else a zip archive is, that is no exported program."""
    if models:
        return f"it has the programs {', '.join(models)}"
    if "constants.pkl" in names:
        return "it is a TorchScript archive, whose graph torch.export does not take"
    if "data.pkl" in names:
        return "it is a file of torch.save, which has weights and no program"
    if any(name.startswith("data/aotinductor/") for name in names):
        return "it is a package of AOTInductor, which has compiled code and no program"
    return f"it has no models/model.json among its {len(names)} entries"


def _json(
    path: Path, file: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo], name: str
) -> dict[str, Any]:
    if name not in names:
        raise BrokenModelFile(f"{path}: it has no {name}; it is cut, or of another version of torch.export.save")  # fmt: skip
    try:
        value = json.loads(file.read(names[name]))
    except (ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise BrokenModelFile(f"{path}: {name} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise BrokenModelFile(f"{path}: {name}: found {type(value).__name__}, expected an object")
    return value


def _check_payload(
    path: Path, names: Mapping[str, zipfile.ZipInfo], kind: str, name: str, entry: Any
) -> None:
    """Raise BrokenModelFile if a weight or constant has no data, or fewer than its shape needs."""
    try:
        place = f"data/{kind}/{entry['path_name']}"
        meta = None if entry["use_pickle"] else entry["tensor_meta"]
        if place not in names:
            raise BrokenModelFile(f"{path}: {kind} {name}: its data {place} is not in the archive")
        if meta is None:
            return
        shape = [size["as_int"] for size in meta["sizes"]]
        strides = [stride["as_int"] for stride in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        last = sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        needed = (offset + last + 1) * _TYPES[meta["dtype"]][0] if math.prod(shape) else 0
        negative = min([*shape, *strides, offset], default=0) < 0
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenModelFile(f"{path}: {kind} {name}: its type cannot be read ({type(error).__name__}: {error})") from error  # fmt: skip
    if negative or needed > names[place].file_size:
        raise BrokenModelFile(
            f"{path}: {kind} {name} of shape {shape} needs {needed} bytes, but its data has {names[place].file_size}"
        )


def refuse_code(path: Path, archive: Archive) -> None:
    """Raise BrokenModelFile if loading or running a file would execute more than operators."""
    for kind, entries in (("weight", archive.weights), ("constant", archive.constants)):
        for name, entry in entries.items():
            if entry["use_pickle"] or str(entry["path_name"]).startswith(("custom_", "opaque_")):
                raise BrokenModelFile(f"{path}: {kind} {name} is a pickle, and loading it may execute code; {TRUST}")  # fmt: skip
    for key, text in _walk(archive.graph):
        if key == "target" and not text.startswith("#") and not _OPERATOR.fullmatch(text):
            raise BrokenModelFile(f"{path}: it calls {text!r}, which is no operator; {TRUST}")
        if key == "expr_str" and not _is_expression(text):
            raise BrokenModelFile(f"{path}: a size is {text!r}, which is no expression of sizes; {TRUST}")  # fmt: skip


def _is_expression(text: str) -> bool:
    return bool(_EXPRESSION.fullmatch(text)) and all(
        word in _EXPRESSION_NAMES or _SYMBOL.fullmatch(word) for word in _WORDS.findall(text)
    )


def _walk(graph: Any) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of every operator and every expression in the graph and the graphs inside it."""
    todo = [graph]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if key in ("target", "expr_str"):
                    yield key, str(inner)
                else:
                    todo.append(inner)


def require_whole(path: Path) -> None:
    """Raise BrokenModelFile if the checksum of an entry is wrong: torch loads a damaged weight without a word."""
    with zipfile.ZipFile(path) as file:
        try:
            damaged = file.testzip()
        except zipfile.BadZipFile as error:
            raise BrokenModelFile(f"{path}: {error}; it is damaged") from error
    if damaged:
        raise BrokenModelFile(f"{path}: the checksum of {damaged} is wrong: it is damaged")


def _facts(path: Path, options: Options) -> Facts:
    """The size of the first input's first dimension, and the dtype of most weights."""
    archive = read(path)
    counts: dict[str, int] = {}
    for entry in archive.weights.values():
        meta = entry["tensor_meta"] or {}
        name = _TYPES[meta["dtype"]][1] if meta else ""
        if name:
            size = math.prod(size["as_int"] for size in meta["sizes"])
            counts[name] = counts.get(name, 0) + size
    dtype = max(counts, key=lambda name: counts[name], default="f32")
    return Facts(int(options.get("batch_size") or _batch_size(archive.graph)), dtype)


def _batch_size(graph: Mapping[str, Any]) -> int:
    module = graph.get("graph_module", {})
    values = module.get("graph", {}).get("tensor_values", {})
    for entry in module.get("signature", {}).get("input_specs", ()):
        name = entry.get("user_input", {}).get("arg", {}).get("as_tensor", {}).get("name")
        sizes = values.get(name, {}).get("sizes") or ()
        if sizes:
            hint = (sizes[0].get("as_expr") or {}).get("hint") or {}
            return int(sizes[0].get("as_int") or hint.get("as_int") or 1)
    return 1


@functools.cache
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


SOURCE = Source(
    name="exported-program",
    kind="module",
    expected="an exported program of torch.export.save (.pt2)",
    takes=lambda path: path.suffix == ".pt2",
    check=check,
    facts=_facts,
    parts=lambda _, options: [Path(options["inputs"])] if options.get("inputs") else [],
    digest=_digest,
)
