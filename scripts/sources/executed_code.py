"""What of an exported program torch.export.load or the program's module would execute, besides operators on tensors.

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

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

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
_SYMBOL = re.compile(r"[A-Za-z]{1,3}\d+", re.ASCII)
_EXPRESSION_WORDS = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "BooleanFalse",
        "BooleanTrue",
        "Equality",
        "Float",
        "GreaterThan",
        "Half",
        "Infinity",
        "Integer",
        "LessThan",
        "Max",
        "Min",
        "Mul",
        "NegativeInfinity",
        "NegativeOne",
        "Not",
        "One",
        "Or",
        "Piecewise",
        "ExprCondPair",
        "Pow",
        "Rational",
        "StrictGreaterThan",
        "StrictLessThan",
        "Symbol",
        "Tuple",
        "Unequality",
        "Zero",
        "ceiling",
        "floor",
        "false",
        "true",
        "oo",
        "int_oo",
        "True",
        "False",
        "CeilDiv",
        "CeilToInt",
        "CleanDiv",
        "FloatPow",
        "FloatTrueDiv",
        "FloorDiv",
        "FloorToInt",
        "Identity",
        "IntTrueDiv",
        "LShift",
        "Mod",
        "ModularIndexing",
        "PowByNatural",
        "PythonMod",
        "RShift",
        "RoundDecimal",
        "RoundToInt",
        "ToFloat",
        "TruncToFloat",
        "TruncToInt",
        "Where",
        "IsNonOverlappingAndDenseIndicator",
        "even",
        "finite",
        "integer",
        "negative",
        "nonnegative",
        "nonpositive",
        "nonzero",
        "odd",
        "positive",
        "precision",
        "real",
        "zero",
        "e",
    ]
)

# Keys of the format, by what their texts may be. A text of any other key stands where a number is expected.
_IDENTIFIERS = frozenset(
    ("as_name", "as_string_to_argument", "forward_arg_names", "name", "user_input_name")
)
_OPERATORS = frozenset(("as_operator", "target"))
_TREES = frozenset(("in_spec", "out_spec"))
_FLOATS = frozenset(("as_float", "as_float_lists", "as_floats", "imag", "real"))
_ARGUMENTS = frozenset(("as_string", "as_strings"))
_NAMES = frozenset(
    [
        "",  # the keys themselves, such as names of weights
        "buffer_name",
        "class_fqn",
        "custom_obj_name",
        "field_names",
        "fqn",
        "parameter_name",
        "path_name",
        "tensor_constant_name",
        "type",
        "verifiers",
    ]
)
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
        return "" if _is_expression(text) else f"a size is {_short(text)}, which is no expression of sizes"  # fmt: skip
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
    if key not in _NAMES:
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


def _is_expression(text: str) -> bool:
    return bool(_EXPRESSION.fullmatch(text)) and all(
        word in _EXPRESSION_WORDS or _SYMBOL.fullmatch(word) for word in _WORDS.findall(text)
    )


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
