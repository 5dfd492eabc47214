"""What of an exported program torch.export.load or the program's module would execute, besides operators on tensors.

- Weights, constants and example inputs may be pickles; a package may have a compiled library.
- An operator is looked up below the modules torch, operator and math: torch.os.system is found too.
- A size is an expression that sympy evaluates as Python.
- Names of values, arguments and weights become Python code (torch.fx).
- The description of a structure of inputs (a tree spec) names modules to import.

Everything here is allowed by what it is, and refused otherwise. Read from PyTorch 2.15 and 2.9:
torch/_export/serde/serialize.py, torch/fx/graph.py, torch/utils/_pytree.py.
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

# sympy.srepr, as in Add(Symbol('s7', integer=True, positive=True), Integer(-1)).
_EXPRESSION = re.compile(r"(?:\w++|'[\w.+-]*+'|[\s(),=.+-])*+", re.ASCII)
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

# Keys of the format, by what their texts may be. Texts of other keys, and all keys, are names without quotes.
_IDENTIFIERS = frozenset(("as_name", "forward_arg_names", "name", "user_input_name"))
_OPERATORS = frozenset(("as_operator", "target"))
_TREES = frozenset(("in_spec", "out_spec"))
_ANY_LINE = frozenset(("custom", "from_node", "nn_module_stack", "source_fn_stack", "torch_fn"))
# Strings are arguments by their repr(). Guards are code, which is never run: see load_exported_program.py.
_ANY_TEXT = frozenset(("as_string", "as_strings", "guards_code", "stack_trace", "torch_version"))
_QUOTED = re.compile(r"""[^"'\\\x00-\x1f]*""")
_LINE = re.compile(r"[^\x00-\x1f]*")


def executed(
    graph: Mapping[str, Any],
    weights: Mapping[str, Mapping[str, Any]],
    constants: Mapping[str, Mapping[str, Any]],
    entries: Mapping[str, int],
) -> str:
    """What would be executed, with the part of the file; "" if nothing would be. `entries`: names in the archive."""
    for name in entries:
        if name.startswith("data/aotinductor/"):
            return f"{name} is compiled code of AOTInductor"
    for kind, payloads in (("weight", weights), ("constant", constants)):
        for name, entry in payloads.items():
            if entry["use_pickle"] or (kind == "constant" and not str(entry["path_name"]).startswith("tensor_")):  # fmt: skip
                return f"{kind} {_short(name)} is a pickle, and loading it may execute code"
    for key, text in _texts([graph, dict(weights), dict(constants)], ""):
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
    if key in _ANY_TEXT:
        return ""
    allowed = _LINE if key in _ANY_LINE else _QUOTED
    return "" if allowed.fullmatch(text) else f"{key or 'a name'} is {_short(text)}, which would be Python code"  # fmt: skip


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of all texts inside; a text in a list has the key of the list, a key itself has ""."""
    todo = [(key, value)]
    while todo:
        key, value = todo.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            todo += [(key, item) for item in value]
        elif isinstance(value, dict):
            todo += [("", name) for name in value]
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
