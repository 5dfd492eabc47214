"""Model files as users write them: valid ones go through every lowering path, others give a reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.checkouts import in_environment

TOP = "import collections, dataclasses, sys, typing\nimport numpy as np\nimport torch\nfrom torch import nn\n"
LINEAR = "def get_model(): return nn.Linear(4, 3)\n"
X = "def get_dummy_input(): return torch.randn(2, 4)\n"
ODD_OPTIONS = "def get_model(kind=nn.Linear, what=object(), top=float('inf'), sizes=(4, None), name='a'): return kind(4, 3)\n"


def inputs(expression: str) -> str:
    return f"def get_dummy_input(): return {expression}\n"


def model(parameters: str, body: str, before: str = "", extra: str = "") -> str:
    """A module with a linear layer `lin`, and `extra` in its __init__."""
    return (
        f"{before}class M(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.lin = nn.Linear(4, 4)\n        {extra}\n"
        f"    def forward(self, {parameters}): {body}\n"
        "def get_model(): return M()\n"
    )


NAMED = "Pair = collections.namedtuple('Pair', ['a', 'b'])\n"
PLAIN = (
    "@dataclasses.dataclass(frozen=True)\nclass Inner:\n    c: typing.Any\n    n: int = 3\n"
    "@dataclasses.dataclass\nclass Out:\n    a: torch.Tensor\n    b: typing.Any\n"
)
KNOWN = "from transformers.modeling_outputs import BaseModelOutput\n"

QUOTING = r"""
NAMES = ['it"s', "it's", 'it_s', 'a\\b', 'x y', 'ü\n']
class M(nn.Module):
    def __init__(self):
        super().__init__()
        for name in NAMES:
            self.register_parameter(name, nn.Parameter(torch.randn(4)))
        self.register_buffer('b"', torch.randn(4))
        self.inner = nn.ParameterDict({'k"': nn.Parameter(torch.randn(4))})
    def forward(self, x):
        for name in NAMES:
            x = torch.tanh(x * getattr(self, name))
        return x + getattr(self, 'b"') * self.inner['k"']
def get_model(): return M()
"""

INT8 = r"""
import torch.ao.quantization.fx._decomposed  # registers the operators
Q = torch.ops.quantized_decomposed
class M(nn.Module):
    def __init__(self):
        super().__init__()
        w = torch.randn(24, 32)
        s = w.abs().amax(1) / 127
        self.register_buffer('w', (w / s[:, None]).round().to(torch.int8))
        self.register_buffer('s', s)
        self.register_buffer('z', torch.zeros(24, dtype=torch.int64))
    def forward(self, x):
        x = Q.quantize_per_tensor(x, 0.03, 3, -128, 127, torch.int8)
        x = Q.dequantize_per_tensor(x, 0.03, 3, -128, 127, torch.int8)
        return nn.functional.linear(x, Q.dequantize_per_channel(self.w, self.s, self.z, 0, -127, 127, torch.int8))
def get_model(): return M()
"""

# name: (file's text, inputs, outputs)
GOOD = {
    "a_tensor": (ODD_OPTIONS + X, 1, 1),
    "a_tuple": (model("x, y", "return self.lin(x) + y") + inputs("(torch.randn(2, 4), torch.randn(4))"), 2, 1),
    "a_dict_in_another_order": (model("x, y", "return self.lin(x) - y") + inputs("{'y': torch.randn(2, 4), 'x': torch.randn(2, 4)}"), 2, 1),
    "args_and_kwargs": (
        model("x, *, y, n, flag, mode='a', none=1", "return self.lin(x) * n - y if flag and mode == 'b' and none is None else x")
        + inputs("((torch.randn(2, 4),), {'y': torch.randn(4), 'n': 2.5, 'flag': True, 'mode': 'b', 'none': None})"), 2, 1),
    "scalars": (model("x, s, i", "return self.lin(x) * s + i") + inputs("(torch.randn(2, 4), torch.tensor(2.5), torch.tensor(3))"), 3, 1),
    "masks_and_integers": (
        model("x, m, i, j", "return self.lin(x).masked_fill(m, 0.5)[:, i.long()] + j")
        + inputs("(torch.randn(2, 4), torch.rand(2, 4) > 0.5, torch.tensor([0, 2], dtype=torch.int32), torch.tensor([200, 1]))"), 4, 1),
    "nested_inputs": (
        model("d, t", "return self.lin(d['a']) + d['b'][0] + d['b'][1]['c'] + t[0] * t[1]")
        + inputs("({'a': torch.randn(2, 4), 'b': [torch.randn(4), {'c': torch.randn(4)}]}, (torch.randn(4), 3))"), 4, 1),
    "one_input_twice": (model("x, y", "return self.lin(x) + y") + "def get_dummy_input():\n    x = torch.randn(2, 4)\n    return x, x\n", 2, 1),
    "a_named_tuple_in_and_out": (model("p", "return Pair(self.lin(p.a), p.b * 2)", NAMED) + inputs("(Pair(torch.randn(2, 4), torch.randn(4)),)"), 2, 2),
    "a_dataclass_in_and_out": (model("p", "return Out(self.lin(p.a), [Inner(p.b * 2), 4])", PLAIN) + inputs("(Out(torch.randn(2, 4), torch.randn(4)),)"), 2, 2),
    "nested_dict_out": (model("x", "return {'z': [self.lin(x), {'k': x * 2}], 'a': (x + 1, [x - 1])}") + X, 1, 4),
    "transformers_out": (model("x", "return BaseModelOutput(last_hidden_state=self.lin(x), hidden_states=(x * 2, x * 3))", KNOWN) + X, 1, 3),
    "none_and_numbers_out": (model("x", "return self.lin(x), None, 3, 'text', 2.5, [None, x + 1]") + X, 1, 2),
    "an_input_and_a_weight_out": (model("x, i", "return i, x, self.lin.weight, self.lin(x)") + inputs("(torch.randn(2, 4), torch.arange(3))"), 2, 4),
    "one_output_twice_and_views": (model("x", "h = self.lin(x); return h, h, h.t(), h[0], h[0, 0]") + X, 1, 5),
    "booleans_and_integers_out": (model("x", "h = self.lin(x); return h > 0, h.argmax(-1), h.argmax(-1).int()") + X, 1, 3),
    "bytes": (
        model("x, u", "return self.lin(x) * u.float() + self.b.float(), u + 1", extra="self.register_buffer('b', torch.arange(252, 256, dtype=torch.uint8))")
        + inputs("(torch.randn(2, 4), torch.tensor([0, 127, 128, 254], dtype=torch.uint8))"), 2, 2),
    "views_in": (model("x, y", "return self.lin(x) + y") + inputs("(torch.randn(4, 2).t(), torch.randn(1, 4).expand(2, 4))"), 2, 1),
    "gradient_wanted": (LINEAR + inputs("torch.randn(2, 4, requires_grad=True)"), 1, 1),
    "float16_of_its_own": ("def get_model(): return nn.Linear(4, 3).half()\n" + inputs("torch.randn(2, 4).half()"), 1, 1),
    "float32_alone": (model("x", "assert x.dtype is torch.float32, x.dtype; return self.lin(x)") + X, 1, 1),
    "not_countable": (
        model("x", "assert torch.compiler.is_compiling() or not torch._C._len_torch_dispatch_stack(), 'a mode'; return self.lin(x)") + X, 1, 1),
    "attention_with_a_masked_row": (
        model("x, keep", "x = self.lin(x); return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=keep)")
        + inputs("(torch.randn(2, 3, 5, 4), (torch.rand(2, 1, 5, 5) > 0.3) & (torch.arange(5) != 3)[:, None])"), 2, 1),
    "gru": (model("x", "return self.gru(x)", extra="self.gru = nn.GRU(4, 3, batch_first=True)") + inputs("torch.randn(2, 5, 4)"), 1, 2),
    "lstm_in_both_directions": (model("x", "return self.lstm(x)", extra="self.lstm = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True, proj_size=3)") + inputs("torch.randn(2, 5, 4)"), 1, 3),
    "int8_by_pt2e": (INT8 + inputs("torch.randn(4, 32)"), 1, 1),
    "names_with_quotes": (QUOTING + X, 1, 1),
    "any_options": ("def get_model(**options): return nn.Linear(options.get('width', 4), 3)\n" + X, 1, 1),
    "the_model_in_inputs": (LINEAR + "def get_dummy_input(model): return torch.randn(2, model.in_features)\n", 1, 1),
    "batch_encoding": (model("x", "return self.lin(x)") + "def get_dummy_input():\n    from transformers import BatchEncoding\n    return BatchEncoding({'x': torch.randn(2, 4)})\n", 1, 1),
}  # fmt: skip

LOADING = {
    *("a_tuple", "a_dict_in_another_order", "args_and_kwargs", "nested_inputs", "a_named_tuple_in_and_out"),
    *("a_dataclass_in_and_out", "nested_dict_out", "transformers_out", "gradient_wanted", "float32_alone"),
    *("not_countable", "any_options", "the_model_in_inputs", "batch_encoding"),
}  # fmt: skip
"""They differ in how a file is loaded, before any lowering path: one path shows it."""

INPUT = r"get_dummy_input\(\) returned "
EXPECTED = r"expected a tensor, a tuple of tensors, a dict of keyword inputs, or \(args, kwargs\)"
DTYPES = r"cannot be carried; expected one of float64, float32, .*bool$"
# name: (file's text, what its error says)
BAD = {
    "a_class": ("def get_model(): return nn.Linear\n" + X, r"get_model\(\) returned the class Linear, expected a torch\.nn\.Module; return an instance: Linear\(\.\.\.\)"),
    "a_function": ("def get_model(): return torch.relu\n" + X, r"get_model\(\) returned the function relu, .*; call it in the forward\(\) of a module"),
    "no_return": ("def get_model(): nn.Linear(4, 3)\n" + X, r"get_model\(\) returned None, .*is a `return` missing\?"),
    "model_and_more": ("def get_model(): return nn.Linear(4, 3), 'tokenizer'\n" + X, r"returned a tuple of \(Linear, str\), .*; return the module alone"),
    "scripted": ("def get_model(): return torch.jit.script(nn.Linear(4, 3))\n" + X, r"returned a compiled module \(RecursiveScriptModule\), .*return the module that it was made of"),
    "numpy": (LINEAR + inputs("np.ones((2, 4), np.float32)"), INPUT + "a numpy array of float32, " + EXPECTED + r"; .*torch\.from_numpy"),
    "numpy_inside": (LINEAR + inputs("(np.ones((2, 4), np.float32),)"), INPUT + r"a numpy array of float32 as \[0\]\[0\], expected a tensor; .*torch\.from_numpy"),
    "a_number": (LINEAR + inputs("3"), INPUT + "int, " + EXPECTED),
    "nothing": (LINEAR + inputs("()"), INPUT + "no tensor, " + EXPECTED),
    "more_than_a_call": (
        LINEAR + inputs("((torch.randn(2, 4),), {}, 'cpu')"),
        INPUT + r"a tuple of \(tuple, dict, str\), with which forward\(input\) cannot be called: too many positional arguments; " + EXPECTED),
    "another_keyword": (
        LINEAR + inputs("{'x': torch.randn(2, 4)}"),
        INPUT + r"a tuple of \(\) and the keyword inputs x, with which forward\(input\) cannot be called: missing a required argument: 'input'; " + EXPECTED),
    "numeric_key": (LINEAR + inputs("{1: torch.randn(2, 4)}"), INPUT + "keyword inputs with the key 1, expected names"),
    "elsewhere": (LINEAR + inputs("torch.randn(2, 4, device='meta')"), INPUT + r"\[0\]\[0\], which has no values \(device meta\)"),
    "complex": (LINEAR + inputs("torch.randn(2, 4, dtype=torch.complex64)"), INPUT + r"\[0\]\[0\], which has dtype complex64, which " + DTYPES),
    "float8_weight": (model("x", "return self.lin(x)", extra="self.register_buffer('w', torch.zeros(4).to(torch.float8_e4m3fn))") + X, r"get_model\(\) returned a module whose w has dtype float8_e4m3fn, which " + DTYPES),
    "complex_out": (model("x", "return torch.fft.fft(self.lin(x))") + X, r"forward\(\) returned a tensor that has dtype complex64, which " + DTYPES),
    "sparse": (LINEAR + inputs("torch.eye(4).to_sparse()"), INPUT + r"\[0\]\[0\], which is a tensor of layout sparse_coo; expected a dense one: \.to_dense\(\)"),
    "meta_weights": ("def get_model():\n    with torch.device('meta'): return nn.Linear(4, 3)\n" + X, r"get_model\(\) returned a module whose weight has no values \(device meta\); build it on the CPU"),
    "lazy": ("def get_model(): return nn.LazyLinear(3)\n" + X, r"a module whose weight has no shape yet \(a lazy module\); call the module once"),
    "hidden_tensors": ("class P:\n    def __init__(self): self.a = torch.randn(2, 4)\n" + LINEAR + inputs("(P(),)"), INPUT + r"\[0\]\[0\] of class P, which holds tensors that are no inputs; .*dataclass"),
    "raises": (model("x", "raise ValueError('no such width')") + X, r"its forward pass raised ValueError: no such width \(raises\.py:\d+: .*\); inputs \[0\]\[0\] float32\[2, 4\]; weights float32"),
    "another_dtype": ("def get_model(): return nn.Linear(4, 3).double()\n" + X, r"its forward pass raised RuntimeError: .*same dtype.*; inputs \[0\]\[0\] float32\[2, 4\]; weights float64"),
    "no_tensor_out": (model("x", "return 'text', 3") + X, r"forward\(\) returned no tensor; expected a tensor, or tensors in tuples, lists, dicts or dataclasses"),
    "changes_its_input": (model("x", "return self.lin(x.add_(1))") + X, r"the model changes its input \[0\]\[0\] in place"),
    "changes_its_buffer": (model("x", "self.n.add_(1); return self.lin(x) + self.n", extra="self.register_buffer('n', torch.zeros(1))") + X, r"the model changes n in place \(BUFFER_MUTATION\): a call would depend on the calls before it"),
    "replaces_its_buffer": (model("x", "self.n = self.n + 1; return self.lin(x) + self.n", extra="self.register_buffer('n', torch.zeros(1))") + X, r"the model changes n in place \(BUFFER_MUTATION\)"),
    "random": (model("x", "return self.lin(x) + torch.rand(4)", extra="self.register_buffer('n', torch.zeros(1))") + X, r"NONDETERMINISTIC_EAGER_RUN: two eager runs of the model differ"),
    "no_samples": (LINEAR + inputs("torch.randn(0, 4)"), r"every output is empty \(shape \[0, 3\]\): nothing to compare with; .*batch_size"),
    "zeros_out": (model("x", "return 0 * self.lin(x)") + X, r"every output is zero: any program would pass"),
    "missing_package": ("import not_there_at_all\n" + LINEAR + X, r"importing it raised ModuleNotFoundError: No module named 'not_there_at_all' \(missing_package\.py:\d: .*\); add `<package>==<version>` to the pip section of envs/torch-mlir\.yaml and run `vmfbench lock torch-mlir`"),
    "missing_in_get_model": ("def get_model():\n    import not_there_at_all\n" + X, r"get_model\(\): ModuleNotFoundError: .*; add `<package>==<version>` to the pip section of envs/torch-mlir\.yaml"),
    "stops_at_import": ("sys.exit(3)\n" + LINEAR + X, r"importing it raised SystemExit: 3"),
    "stops_in_get_model": ("def get_model(): sys.exit(3)\n" + X, r"get_model\(\): SystemExit: 3 \(stops_in_get_model\.py:\d+: "),
}  # fmt: skip
REASONS = {
    "model-return": "a_class a_function no_return model_and_more scripted",
    "model-weights": "float8_weight meta_weights lazy",
    "model-inputs": "numpy numpy_inside a_number nothing more_than_a_call another_keyword numeric_key elsewhere complex sparse hidden_tensors",
    "model-forward": "raises another_dtype",
    "model-outputs": "complex_out no_tensor_out no_samples zeros_out",
    "input-mutation": "changes_its_input",
    "missing-package": "missing_package missing_in_get_model",
    "model-import": "stops_at_import",
    "model-function": "stops_in_get_model",
    "": "changes_its_buffer replaces_its_buffer random",  # their messages tell which
}
REASON_OF = {name: reason for reason, names in REASONS.items() for name in names.split()}
TORCH = ["torch_mlir", {"dialect": "torch", "rewrites": "all"}]
XLA = ["torch_xla", {"rewrites": "all"}]


LINALG = ["torch_mlir", {"dialect": "linalg-on-tensors", "rewrites": "all"}]
STABLEHLO = ["torch_mlir", {"dialect": "stablehlo", "rewrites": "all"}]
LOOP = "from torch._higher_order_ops.while_loop import while_loop\n"
ZERO = "torch.zeros((), dtype=torch.int64)"
# name: (file's text, what the path to StableHLO says)
CONTROL_FLOW = {
    "loop_that_carries_all": (
        model("i, x", "return while_loop(lambda i, y, x: i < 6, lambda i, y, x: (i + 1, 0.5 * (y + x / y), x + 0.0), (i, torch.ones_like(x), x))[1]", LOOP)
        + inputs(f"({ZERO}, torch.rand(2, 4) + 0.5)"), "while_loop"),
    "loop_from_constants": (  # its first condition is constant
        model("x", f"return while_loop(lambda i, y: i < 6, lambda i, y: (i + 1, 0.5 * (y + x / y)), ({ZERO}, torch.ones_like(x)))[1]", LOOP)
        + inputs("torch.rand(2, 4) + 0.5"), "while_loop"),
    "loop_of_weights": (
        model("x", f"return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.tanh(self.lin(y))), ({ZERO}, x))[1]", LOOP) + X, "while_loop"),
    "loop_of_no_turn": (
        model("x, n", "return while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * 2), (n, x))[1] + 1", LOOP) + inputs("(torch.randn(2, 4), torch.tensor(3))"), "while_loop"),
    "cond_with_weights": (
        model("x", "return torch.cond(x.mean() > 0, lambda t: self.lin(t), lambda t: self.lin(t) * 2, (x,))") + X, "cond"),
    "cond_of_two_results": (
        model("x, n", "a, b = torch.cond(n > 1, lambda a: (a + 1, a.sum()), lambda a: (a * 2, a.mean()), (x,)); return self.lin(a), b")
        + inputs("(torch.randn(2, 4), torch.tensor(3))"), "cond"),
    "cond_that_does_not_hold": (
        model("x, n", "return torch.cond(n > 5, lambda a: self.lin(a) + 1, lambda a: self.lin(a * 2), (x,))") + inputs("(torch.randn(2, 4), torch.tensor(3))"), "cond"),
}  # fmt: skip
NOT_IMPORTED = {
    "scan": model("x", "from torch._higher_order_ops.scan import scan; return scan(lambda c, a: (c + a, c * a), x[0], x)[1]") + X,
    "map_impl": model("x", "from torch._higher_order_ops.map import map; return map(lambda a, b: self.lin(a) + b, x, torch.ones(4))") + X,
}  # fmt: skip


def run(
    python: Path,
    work: Path,
    files: dict[str, Path],
    paths: list,
    execute: bool,
    flags: Sequence[str] = (),
) -> dict:
    """What became of each model file, by its name; `flags` are for iree-compile."""
    cases = [
        {"name": name, "file": str(file), "options": {}, "paths": paths, "run": execute}
        for name, file in files.items()
    ]
    found = in_environment(
        python, "user_models", case={"work": str(work), "flags": list(flags), "cases": cases}
    )
    return dict(zip(files, found, strict=True))


def written(folder: Path, texts: dict[str, str]) -> dict[str, Path]:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(TOP + text, encoding="utf-8")
    return {name: folder / f"{name}.py" for name in texts}


@pytest.fixture(scope="module")
def good(environments, tmp_path_factory) -> dict:
    work = tmp_path_factory.mktemp("good")
    files = written(work, {name: case[0] for name, case in GOOD.items()})
    found = run(environments / "torch-mlir/bin/python", work, files, [TORCH], True)
    others = {name: file for name, file in files.items() if name not in LOADING}
    for name, other in run(
        environments / "torch-xla/bin/python", work, others, [XLA], True
    ).items():
        found[name].setdefault("paths", {}).update(other.get("paths", {}))
    return found


@pytest.fixture(scope="module")
def bad(environments, tmp_path_factory) -> dict:
    work = tmp_path_factory.mktemp("bad")
    files = written(work, {name: case[0] for name, case in BAD.items()})
    return run(environments / "torch-mlir/bin/python", work, files, [], False)


@pytest.mark.parametrize("name", GOOD)
def test_what_a_user_writes_is_right_by_every_lowering_path(good, name):
    _, count_in, count_out = GOOD[name]
    found = good[name]
    assert "error" not in found, found
    assert (len(found["inputs"]), len(found["outputs"])) == (count_in, count_out)
    verdicts = {path: ended.get("verdict", ended) for path, ended in found["paths"].items()}
    assert len(verdicts) == 1 + (name not in LOADING)
    assert {path: v for path, v in verdicts.items() if not str(v).startswith("PASS")} == {}


def test_what_only_we_compute_costs_no_row_and_says_why_it_is_not_there(good):
    assert good["float32_alone"]["left_out"] == {
        "float64 reference": "AssertionError: torch.float64"
    }
    assert good["not_countable"]["left_out"] == {"FLOPs and bytes": "AssertionError: a mode"}
    assert list(good["int8_by_pt2e"]["left_out"]) == ["float64 reference"]
    assert good["a_tensor"]["left_out"] == {}


def test_what_the_functions_were_called_with_is_known_by_name_whatever_it_is(good):
    assert good["a_tensor"]["resolved"] == {
        "kind": "Linear",
        "what": "<object object>",
        "top": "inf",
        "sizes": [4, None],
        "name": "a",
        "dtype": "f32",
        "seed": 0,
    }


@pytest.fixture(scope="module")
def control_flow(environments, tmp_path_factory) -> dict:
    work = tmp_path_factory.mktemp("control_flow")
    files = written(work, {name: case[0] for name, case in CONTROL_FLOW.items()} | NOT_IMPORTED)
    paths = [TORCH, LINALG, STABLEHLO]
    return run(environments / "torch-mlir/bin/python", work, files, paths, True)


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow_is_right_where_torch_mlir_takes_it_and_is_named_where_not(control_flow, name):
    torch, linalg, stablehlo = control_flow[name]["paths"].values()
    assert (torch.get("verdict", torch), linalg.get("verdict", linalg)) == ("PASS", "PASS")
    assert f"which is torch.ops.higher_order.{CONTROL_FLOW[name][1]}" in stablehlo["unsupported"]


@pytest.mark.parametrize("name", NOT_IMPORTED)
def test_an_operator_with_functions_that_is_not_imported_is_named(control_flow, name):
    said = f"unsupported operator torch.ops.higher_order.{name}: torch-mlir does not import it"
    ended = control_flow[name]["paths"].values()
    assert [path["unsupported"] for path in ended] == [said] * 3


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_work_is_said_in_one_line_with_its_file(bad, name):
    assert "error" in bad[name], bad[name]
    assert re.search(rf"/{name}\.py: .*{BAD[name][1]}", bad[name]["error"]), bad[name]["error"]
    assert bad[name]["reason"] == REASON_OF[name]


def test_any_path_and_a_helper_beside_the_file(environments, tmp_path):
    folder = tmp_path / "meine Modelle ä"
    folder.mkdir()
    (folder / "my_helper.py").write_text(
        "from torch import nn\ndef net(): return nn.Linear(4, 3)\n"
    )
    file = folder / "größe 1.2.py"
    file.write_text(f"{TOP}import my_helper\ndef get_model(): return my_helper.net()\n{X}", encoding="utf-8")  # fmt: skip
    found = run(environments / "torch-mlir/bin/python", tmp_path, {"it": file}, [TORCH], False)
    assert found["it"]["outputs"] == [" 2x3xf32"]
