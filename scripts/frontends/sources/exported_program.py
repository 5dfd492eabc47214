"""An exported program of PyTorch: the file of torch.export.save (.pt2).

torch.export.load executes what a file tells it to. So a file is read here first, as a zip archive of JSON, and refused if it is
more than a graph of operators and tensors, unless the model's entry has `trust: true`.
The format: torch/_export/serde/schema.py and torch/export/pt2_archive (schema 8). What torch.export.load or the program's module would
execute, besides operators on tensors:

- Weights, constants and example inputs may be pickles; a package may have a compiled library.
- An operator is looked up below the modules torch, operator and math: torch.os.system is found too.
- A size is an expression that sympy evaluates as Python.
- Names of values, arguments and weights become Python code (torch.fx).
- The description of a structure of inputs (a tree spec) names modules to import.
- Texts become code that a compiler generates. inductor writes the message of an assertion into C++ as it is, and a text that
  is an argument of an operator, or stands where a number is expected, into any language. Comments have stack traces and names.

Everything here is allowed by what it is, and refused otherwise. What only informs (messages, stack traces) is not refused, but
changed by `plain`. Read from PyTorch 2.15 and 2.9: torch/_export/serde/serialize.py, torch/fx/graph.py, torch/utils/_pytree.py,
torch/_inductor (ir.py, codegen/cpp.py, codegen/triton.py, codegen/wrapper.py).
"""

from __future__ import annotations

import itertools
import json
import math
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core.dimensions import Sizes
from scripts.frontends.sources.source import (
    TRUST,
    Facts,
    Options,
    Source,
    file_digest,
    given_dims,
    json_object,
    listed,
    option_file,
    require,
)
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError

# Of PyTorch's own operators, these read or write files.
_FILES = r"(?!from_file\b|save\b|load\b)"
_OPERATOR = re.compile(
    rf"torch\.ops\.(aten|prims|quantized_decomposed|torchvision)\.{_FILES}(_?[a-z]\w*|__i?(and|or|xor|lshift|rshift)__)\.[A-Za-z]\w*"
    r"|torch\.ops\.higher_order\.(associative_scan|auto_functionalized|auto_functionalized_v2|cond|flex_attention|map|map_impl"
    r"|scan|while_loop|wrap_with_autocast|wrap_with_set_grad_enabled)"
    r"|_operator\.(add|and_|eq|floordiv|ge|getitem|gt|le|lshift|lt|mod|mul|ne|neg|or_|pos|pow|rshift|sub|truediv)"
    r"|math\.(ceil|floor|pow|sqrt|trunc)|torch\.(sym_\w+|_sym_sqrt)"
    r"|torch\._functorch\.predispatch\.(_add_batch_dim|_remove_batch_dim|_vmap_increment_nesting|_vmap_decrement_nesting"
    r"|lazy_load_decompositions)",
    re.ASCII,
)

# sympy.srepr, as in Add(Symbol('s7', integer=True, positive=True), Integer(-1)). In quotes: a symbol, or the digits of a number.
_EXPRESSION = re.compile(
    r"(?:\w++|'(?:[A-Za-z]{1,3}\d++|[+-]?[\d.]++(?:e[+-]?\d++)?)'|[\s(),=.+-])*+", re.ASCII
)
_WORDS = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_EXPRESSION_WORD = re.compile(
    r"[A-Za-z]{1,3}\d+"
    r"|Abs|Add|And|BooleanFalse|BooleanTrue|Equality|Float|GreaterThan|Half|Infinity|Integer|LessThan|Max|Min"
    r"|Mul|NegativeInfinity|NegativeOne|Not|One|Or|Piecewise|ExprCondPair|Pow|Rational|StrictGreaterThan"
    r"|StrictLessThan|Symbol|Tuple|Unequality|Zero|ceiling|floor|false|true|oo|int_oo|True|False|CeilDiv"
    r"|CeilToInt|CleanDiv|FloatPow|FloatTrueDiv|FloorDiv|FloorToInt|Identity|IntTrueDiv|LShift|Mod"
    r"|ModularIndexing|PowByNatural|PythonMod|RShift|RoundDecimal|RoundToInt|ToFloat|TruncToFloat|TruncToInt"
    r"|Where|IsNonOverlappingAndDenseIndicator|even|finite|integer|negative|nonnegative|nonpositive|nonzero|odd"
    r"|positive|precision|real|zero|e",
    re.ASCII,
)

# Keys of the format, by what their texts may be. A text of any other key stands where a number is expected.
_IDENTIFIERS = frozenset(
    ("as_name", "as_string_to_argument", "forward_arg_names", "name", "user_input_name")
)
_OPERATORS = frozenset(("as_operator", "target"))
_TREES = frozenset(("in_spec", "out_spec"))
_FLOATS = frozenset(("as_float", "as_float_lists", "as_floats", "imag", "real"))
_ARGUMENTS = frozenset(("as_string", "as_strings"))
_NAMES = re.compile(
    r"|buffer_name|class_fqn|custom_obj_name|field_names|fqn|parameter_name|path_name|tensor_constant_name|type|verifiers"
)
"""With "": the keys themselves, such as names of weights."""
_UNUSED = frozenset(("torch_version",))
"""Only a message has it."""

# Of modes ('tanh', 'amax', 'fro'), equations ('bij,...jk->b...ik') and devices. They end no string and no comment, and call
# nothing, in Python, C++ and Triton.
_NOT_IN_ARGUMENTS = re.compile(r"[^A-Za-z0-9_.,<=> -]")
_QUOTED = re.compile(r"""[^"'\\]*""")
_NOT_FINITE = ("Infinity", "-Infinity", "NaN")

_ASSERTIONS = re.compile(
    r"torch\.ops\.aten\._(?:functional_)?assert_(?:async\.msg|scalar\.default)"
)
_STACK = "nn_module_stack"
_NOT_IN_STACKS = re.compile(r"[^A-Za-z0-9_.,;@()\[\]-]")


def plain(graph: Mapping[str, Any]) -> dict[str, Any]:
    """The graph with texts that only inform as no generated code can mistake them.

    In messages of assertions and in stacks of modules, each character that could be more than text is a `_`. Of the other
    metadata (stack traces, source functions, annotations) and of the guards nothing is left: no stage reads these.
    """
    program = {**_plain(graph), "guards_code": []}
    if isinstance(module := program.get("graph_module"), dict):
        module["metadata"] = {}
    return program


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _plain(item) for key, item in value.items()}
    target = value.get("target")
    if not isinstance(target, str):
        return inner
    if isinstance(metadata := value.get("metadata"), dict):
        stack = metadata.get(_STACK)
        inner["metadata"] = {_STACK: _NOT_IN_STACKS.sub("_", stack)} if isinstance(stack, str) else {}  # fmt: skip
    if _ASSERTIONS.fullmatch(target) and isinstance(inner.get("inputs"), list):
        inner["inputs"] = [_plain_message(argument) for argument in inner["inputs"]]
    return inner


def _plain_message(argument: Any) -> Any:
    match argument:
        case {"name": "assert_msg", "arg": {"as_string": str(text)}}:
            return argument | {"arg": {"as_string": _NOT_IN_ARGUMENTS.sub("_", text)}}
    return argument


def executed(
    graph: Mapping[str, Any],
    weights: Mapping[str, Mapping[str, Any]],
    constants: Mapping[str, Mapping[str, Any]],
    entries: Mapping[str, int],
) -> str:
    """What would be executed, with the part of the file; "" if nothing would be. `graph`: what `plain` returns. `entries`: names
    in the archive."""
    for name in entries:
        if name.startswith("data/aotinductor/"):
            return f"{name} is compiled code of AOTInductor"
    for kind, payloads in (("weight", weights), ("constant", constants)):
        for name, entry in payloads.items():
            if entry["use_pickle"] or (kind == "constant" and not str(entry["path_name"]).startswith("tensor_")):  # fmt: skip
                return f"{kind} {_short(name)} is a pickle, and loading it may execute code"
    for key, text in _texts([dict(graph), dict(weights), dict(constants)], ""):
        if problem := _problem(key, text):
            return problem
    return ""


def _problem(key: str, text: str) -> str:
    if key in _OPERATORS:
        return "" if _OPERATOR.fullmatch(text) else f"it calls {_short(text)}, which is no operator of PyTorch"  # fmt: skip
    if key == "expr_str":
        is_known = all(map(_EXPRESSION_WORD.fullmatch, _WORDS.findall(text)))
        return "" if is_known and _EXPRESSION.fullmatch(text) else f"a size is {_short(text)}, which is no expression of sizes"  # fmt: skip
    if key in _TREES:
        return _tree_problem(text, key)
    if key in _IDENTIFIERS:
        return "" if not text or text.isidentifier() else f"a value has the name {_short(text)}, which would be Python code"  # fmt: skip
    if key in _UNUSED or (key in _FLOATS and text in _NOT_FINITE):
        return ""
    if key in _ARGUMENTS:
        return f"an argument is {_short(text)}, which could become code; expected the name of a mode or an equation" if _NOT_IN_ARGUMENTS.search(text) else ""  # fmt: skip
    if key == _STACK and not _NOT_IN_STACKS.search(text):
        return ""
    if not _NAMES.fullmatch(key):
        return f"{key} is the text {_short(text)}, which could become code; expected a number"
    plain_name = _QUOTED.fullmatch(text) and text.isprintable()
    return "" if plain_name else f"{key or 'a name'} is {_short(text)}, which would be Python code"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of all texts inside. A text in a list has the key of the list; a key itself has "", and one of named
    arguments has the key of these."""
    todo = [(key, value)]
    while todo:
        key, value = todo.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            todo += [(key, item) for item in value]
        elif isinstance(value, dict):
            named = key if key == "as_string_to_argument" else ""
            todo += [(named, name) for name in value]
            todo += value.items()


def _tree_problem(text: str, key: str) -> str:
    """What a tree spec would import, or which keyword argument would be code."""
    try:
        root = json.loads(text)[1]
        for inner in _objects(root):
            if "__enum__" in inner:
                return f"{key} imports {_short(str(inner.get('fqn')))}"
            if inner.get("default_factory_module", "builtins") != "builtins":
                return f"{key} imports {_short(str(inner['default_factory_module']))}"
        children = root["children_spec"]
        if key == "in_spec" and len(children) == 2 and children[1]["type"] == "builtins.dict":
            for name in json.loads(children[1]["context"]):
                if not str(name).isidentifier():
                    return f"an argument has the name {_short(str(name))}, which would be Python code"  # fmt: skip
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        return f"{key} cannot be read ({type(error).__name__}: {error})"
    return ""


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all JSON objects in a tree spec, also those in texts: the context of a node is JSON in JSON."""
    todo = [tree]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield value
            todo += value.values()
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            todo.append(json.loads(value))


OPTIONS = ("batch_size", "dims", "inputs", "seed", "trust")
"""Options of an entry. `dims`: sizes of dynamic dimensions, by their symbols. `inputs`: an .npz file with the inputs in place of the
example inputs."""
SAMPLES = "data/sample_inputs/model.pt"
MODEL = "models/model.json"
_LARGEST_TEXT = 500_000_000
"""Bytes of JSON that are read; the graph of a language model has some millions."""
_CONFIGS = {kind: f"data/{kind}/model_{kind}_config.json" for kind in ("weights", "constants")}

# Values of ScalarType in the schema: (bytes per element, name in rows if results are compared by its tolerance).
_TYPES: dict[int, tuple[int, str]] = {
    1: (1, ""), 2: (1, ""), 3: (2, ""), 4: (4, ""), 5: (8, ""), 6: (2, "f16"), 7: (4, "f32"), 8: (8, "f32"),
    9: (4, ""), 10: (8, ""), 11: (16, ""), 12: (1, ""), 13: (2, "bf16"), 28: (2, ""), 29: (1, ""), 30: (1, ""),
    31: (1, ""), 32: (1, ""), 33: (1, ""), 34: (4, ""), 35: (8, ""),
}  # fmt: skip
_UNREADABLE = (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, struct.error, ValueError, OverflowError)  # fmt: skip
"""What zipfile raises for a damaged archive."""


@dataclass(frozen=True)
class Archive:
    """The parts of a file that are read before torch reads it.

    `weights` and `constants`: entries by name. `sizes`: the bytes of all entries of the archive. `texts`: the JSON files.
    """

    graph: Mapping[str, Any]
    weights: Mapping[str, Mapping[str, Any]]
    constants: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, int]
    texts: Mapping[str, bytes]

    def tensors(self) -> dict[str, tuple[int, int]]:
        """Elements and bytes of the data of weights and constants as their shapes say, by the place of the data: a tensor
        may repeat its data, and several may share it."""
        largest: dict[str, tuple[int, int]] = {}
        for kind, entries in (("weights", self.weights), ("constants", self.constants)):
            for entry in entries.values():
                if not entry["use_pickle"]:
                    meta = entry["tensor_meta"]
                    count = math.prod(size["as_int"] for size in meta["sizes"])
                    place = f"data/{kind}/{entry['path_name']}"
                    given = (count, count * _TYPES[meta["dtype"]][0])
                    largest[place] = max(largest.get(place, given), given)
        return largest


def check(path: Path, options: Options) -> None:
    """Raise BrokenModelFile for a file that is no exported program, is damaged, or would be executed; ModelFileError for a
    missing file and a wrong option."""
    note = "; an exported program has its shapes and dtypes"
    require(path, options, OPTIONS, "an exported program", note, files=("inputs",))
    archive = read(path)
    if not options.get("trust"):
        refuse_code(path, archive)
    sizes = given_dims(path, options)
    declared = _dynamic_dims(path, archive) if sizes else {}
    for name, size in sizes.items():
        if name not in declared:
            raise ModelFileError(f"{path}: dims: it has no dynamic dimension {name!r}; {listed(declared)}")  # fmt: skip
        if not declared[name].allows(size):
            raise ModelFileError(f"{path}: dims: found {name} {size}, but the file is for {declared[name]}")  # fmt: skip
    if sizes and options.get("inputs"):
        raise ModelFileError(f"{path}: found both dims and inputs; the sizes are those of the inputs, so leave dims out")  # fmt: skip


def read(path: Path) -> Archive:
    """The parts of a file. Raises BrokenModelFile if it is none of torch.export.save, cut, or describes what it does not hold."""
    try:
        with zipfile.ZipFile(path) as file:
            return _archive(path, file)
    except BrokenModelFile:
        raise
    except OSError as error:
        raise BrokenModelFile(f"{path}: cannot be read ({error.strerror}); expected an exported program") from error  # fmt: skip
    except _UNREADABLE as error:
        with path.open("rb") as raw:
            start, size = raw.read(4), path.stat().st_size
        kind = "empty" if not size else "cut or damaged" if start[:2] == b"PK" else "no zip archive"
        raise BrokenModelFile(f"{path}: {kind} ({size} bytes; {error}); expected the file of torch.export.save") from error  # fmt: skip


def _archive(path: Path, file: zipfile.ZipFile) -> Archive:
    root = file.namelist()[0].partition("/")[0] if file.namelist() else ""
    sizes = {e.filename.removeprefix(f"{root}/"): e.file_size for e in file.infolist()}
    models = [name for name in sizes if name.lower().startswith("models/")]
    if models != [MODEL]:
        raise BrokenModelFile(f"{path}: {_other(sizes, models)}; expected the file of torch.export.save, with one program")  # fmt: skip
    _check_layout(path, file, root)
    for kind, config in _CONFIGS.items():
        if f"data/{kind}/model.pt" in sizes:
            raise BrokenModelFile(f"{path}: its {kind} are a pickle, as before PyTorch 2.9; save it again with torch.export.save")  # fmt: skip
        for name in (config, SAMPLES):
            if name not in sizes:
                raise BrokenModelFile(f"{path}: it has no {name}; it is cut, or of another version of torch.export.save")  # fmt: skip
    for name in (MODEL, *_CONFIGS.values()):
        if sizes[name] > _LARGEST_TEXT:
            raise BrokenModelFile(f"{path}: {name} has {sizes[name]} bytes; at most {_LARGEST_TEXT} are read")  # fmt: skip
    texts = {name: file.read(f"{root}/{name}") for name in (MODEL, *_CONFIGS.values())}
    graph = json_object(f"{path}: {MODEL}", texts[MODEL])
    payloads = []
    for kind, config in _CONFIGS.items():
        entries = json_object(f"{path}: {config}", texts[config]).get("config")
        if not isinstance(entries, dict):
            raise BrokenModelFile(f"{path}: {config}: found no config, expected the list of {kind}")
        for name, entry in entries.items():
            _check_payload(path, sizes, kind, name, entry)
        payloads.append(entries)
    weights, constants = payloads
    return Archive(graph, weights, constants, sizes, texts)


def _check_layout(path: Path, file: zipfile.ZipFile, root: str) -> None:
    """Raise BrokenModelFile for entries that torch.export.save does not write: zip libraries differ in how they read them."""
    seen: set[str] = set()
    for entry in file.infolist():
        name = entry.filename
        if not name.startswith(f"{root}/") or ".." in name.split("/"):
            raise BrokenModelFile(f"{path}: its entry {name!r} is not in the folder {root!r}; torch.export.save writes one folder")  # fmt: skip
        if entry.compress_type != zipfile.ZIP_STORED:
            raise BrokenModelFile(f"{path}: its entry {name!r} is compressed; torch.export.save stores entries as they are")  # fmt: skip
        if name.lower() in seen:
            raise BrokenModelFile(f"{path}: it has two entries {name!r}; torch.export.save writes one")  # fmt: skip
        seen.add(name.lower())


def _other(names: Mapping[str, Any], models: list[str]) -> str:
    """What else a zip archive is, that is no exported program."""
    if models:
        return f"it has the programs {', '.join(models)}"
    if "serialized_exported_program.json" in names:
        return "it is of torch.export.save before PyTorch 2.8: save it again with a newer one"
    if "constants.pkl" in names:
        return "it is a TorchScript archive, whose graph torch.export does not take"
    if "data.pkl" in names:
        return "it is a file of torch.save, which has weights and no program"
    if any(name.startswith("data/aotinductor/") for name in names):
        return "it is a package of AOTInductor, which has compiled code and no program"
    return f"it has no models/model.json among its {len(names)} entries"


def _check_payload(path: Path, sizes: Mapping[str, int], kind: str, name: str, entry: Any) -> None:
    """Raise BrokenModelFile if a weight or constant has no data, or fewer than its shape needs."""
    try:
        place = f"data/{kind}/{entry['path_name']}"
        if place not in sizes:
            raise BrokenModelFile(f"{path}: {kind} {name}: its data {place} is not in the archive")
        if entry["use_pickle"]:
            return
        meta = entry["tensor_meta"]
        shape = [size["as_int"] for size in meta["sizes"]]
        strides = [stride["as_int"] for stride in meta["strides"]]
        offset, device = meta["storage_offset"]["as_int"], meta["device"]["type"]
        last = sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        needed = (offset + last + 1) * _TYPES[meta["dtype"]][0] if math.prod(shape) else 0
        wrong = any(type(n) is not int or n < 0 for n in (*shape, *strides, offset))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BrokenModelFile):
            raise
        raise BrokenModelFile(f"{path}: {kind} {name}: its type cannot be read ({type(error).__name__}: {error})") from error  # fmt: skip
    if wrong or needed > sizes[place]:
        raise BrokenModelFile(
            f"{path}: {kind} {name} of shape {shape} needs {needed} bytes, but its data has {sizes[place]}"
        )
    if device != "cpu":
        raise BrokenModelFile(
            f"{path}: {kind} {name} is on {device}, expected it on the CPU; save what "
            "torch.export.passes.move_to_device_pass(program, 'cpu') returns"
        )


def refuse_code(path: Path, archive: Archive) -> dict[str, Any]:
    """The graph as it may be loaded. Raises BrokenModelFile if loading or running a file would execute more than operators."""
    try:
        graph = plain(archive.graph)
        problem = executed(graph, archive.weights, archive.constants, archive.sizes)
    except RecursionError as error:
        raise BrokenModelFile(f"{path}: {MODEL} is nested too deeply") from error
    if problem:
        raise BrokenModelFile(f"{path}: {problem}; {TRUST}")
    return graph


def require_whole(path: Path) -> None:
    """Raise BrokenModelFile if the checksum of an entry is wrong: torch loads a damaged weight without a word."""
    with zipfile.ZipFile(path) as file:
        try:
            damaged = file.testzip()
        except (OSError, *_UNREADABLE) as error:
            raise BrokenModelFile(f"{path}: {error}; it is damaged") from error
    if damaged:
        raise BrokenModelFile(f"{path}: the checksum of {damaged} is wrong: it is damaged")


def _facts(path: Path, options: Options) -> Facts:
    """The size of the first input's first dimension, and the dtype of most weights."""
    archive = read(path)
    counts: dict[str, int] = {}
    for entry in archive.weights.values():
        name = "" if entry["use_pickle"] else _TYPES[entry["tensor_meta"]["dtype"]][1]
        if name:
            size = math.prod(size["as_int"] for size in entry["tensor_meta"]["sizes"])
            counts[name] = counts.get(name, 0) + size
    dtype = max(counts, key=lambda name: counts[name], default="f32")
    try:
        return Facts(
            int(options.get("batch_size") or _batch_size(archive.graph, options.get("dims") or {})),
            dtype,
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BrokenModelFile(f"{path}: {MODEL}: its inputs cannot be read ({type(error).__name__}: {error})") from error  # fmt: skip


_SYMBOL = re.compile(r"Symbol\('([A-Za-z]+\d+)'")


def _input_sizes(graph: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    """The sizes of each input that is a tensor."""
    module = graph["graph_module"]
    for entry in module["signature"]["input_specs"]:
        name = entry.get("user_input", {}).get("arg", {}).get("as_tensor", {}).get("name")
        if name:
            yield module["graph"]["tensor_values"][name]["sizes"]


def _dynamic_dims(path: Path, archive: Archive) -> dict[str, Sizes]:
    """The symbols in the sizes of the inputs, with their ranges."""
    declared: dict[str, Sizes] = {}
    try:
        for size in itertools.chain.from_iterable(_input_sizes(archive.graph)):
            for symbol in _SYMBOL.findall((size.get("as_expr") or {}).get("expr_str", "")):
                known = archive.graph["range_constraints"].get(symbol) or {}
                least = max(1, known.get("min_val") or 1)
                declared[symbol] = Sizes((), least, known.get("max_val"))
    except (AttributeError, KeyError, TypeError) as error:
        raise BrokenModelFile(f"{path}: {MODEL}: its inputs cannot be read ({type(error).__name__}: {error})") from error  # fmt: skip
    return declared


def _batch_size(graph: Mapping[str, Any], dims: Mapping[str, int]) -> int:
    first = next((sizes[0] for sizes in _input_sizes(graph) if sizes), {})
    expression = first.get("as_expr") or {}
    symbol = _SYMBOL.match(expression.get("expr_str", ""))
    given = dims.get(symbol[1]) if symbol else None
    hint = expression.get("hint") or {}
    return int(given or first.get("as_int") or hint.get("as_int") or 1)


SOURCE = Source(
    name="exported-program",
    kind="module",
    expected="an exported program of torch.export.save (.pt2)",
    takes=lambda path: path.suffix == ".pt2",
    check=check,
    facts=_facts,
    parts=lambda _, options: [*filter(None, [option_file(options, "inputs")])],
    digest=file_digest,
    path_options=("inputs",),
    dynamic_dims=lambda path: _dynamic_dims(path, read(path)),
)
