"""Makes exported programs and folders of Hugging Face, and loads files as stages do. Reads {"make": folder} or
{"load": [[file, options], …]} as JSON, "compile" to compile them by inductor too, "inputs" for their inputs, or {"modules": file, "profile": …} for the modules of a file of Tied and those of
Tied itself, and prints a line of JSON.

Run with the Python of an environment that has torch and transformers; used by test_sources.py.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from scripts.frontends.lowering import capture, locations
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import LoadedModel


class Tied(nn.Module):
    """Two layers with one weight, a buffer that is not saved, dropout, a keyword input, and a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("offset", torch.randn(4), persistent=False)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.dropout(torch.tanh(self.first(x)) * scale + self.offset)
        return {"out": self.second(hidden), "hidden": hidden}


class Asserting(nn.Module):
    """An assertion whose message has a quotation mark, and an operator with a mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.sum() > -100, "isn't > -100")
        return torch.nn.functional.gelu(x, approximate="tanh")


def main() -> None:
    case = json.load(sys.stdin)
    if "make" in case:
        answer = _make(Path(case["make"]))
    elif "modules" in case:
        loaded = load_model(ModelChoice("m", Path(case["modules"]), {}))
        model = LoadedModel("m", Tied().eval(), loaded.args, loaded.kwargs, None)
        answer = [_modules(one, case["profile"]) for one in (loaded, model)]
    else:
        answer = _inputs(case["inputs"]) if "inputs" in case else _load(case["load"], case.get("compile", False))  # fmt: skip
    print(json.dumps(answer))


def _make(folder: Path) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(3, 4),), {"scale": torch.randn(4)}
    for name, dtype in (("plain", torch.float32), ("half", torch.bfloat16)):
        args, kwargs = torch.utils._pytree.tree_map(lambda t, to=dtype: t.to(to), inputs)
        model = Tied().eval().to(dtype)
        torch.export.save(torch.export.export(model, args, kwargs), folder / f"{name}.pt2")
    program = torch.export.export(Asserting(), (torch.randn(3, 4),))
    torch.export.save(program, folder / "asserting.pt2")
    sizes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}, "scale": None}
    program = torch.export.export(Tied().eval(), *inputs, dynamic_shapes=sizes)
    torch.export.save(program, folder / "dynamic.pt2")
    _make_folders(folder)


def _make_folders(folder: Path) -> None:
    import transformers
    from safetensors.torch import load_file, save_file

    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 32}  # fmt: skip
    model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
    model.save_pretrained(folder / "sharded", max_shard_size="8KB")
    for name in ("missing", "more"):
        model.save_pretrained(folder / name)
        file = folder / name / "model.safetensors"
        weights = load_file(file)
        if name == "missing":
            del weights["bert.encoder.layer.0.output.dense.weight"]
        else:
            weights["bert.pooler.dense.weight"] = torch.zeros(16, 16)
        save_file(weights, file, {"format": "pt"})
    shutil.copytree(folder / "sharded", folder / "unknown")
    config = json.loads((folder / "unknown/config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["MyBert"], "auto_map": {"AutoModel": "modeling.MyBert"}}
    (folder / "unknown/config.json").write_text(json.dumps(config), encoding="utf-8")
    code = "open('executed', 'w')\n"
    (folder / "unknown/modeling.py").write_text(code, encoding="utf-8")


def _modules(loaded: LoadedModel, profiled: bool) -> dict[str, Any]:
    """The module of each node of the captured graph, the classes of modules, and the modules that have a time in profiles: by eager,
    and for the file by inductor too."""
    from scripts.tools.profile.parts import Parts
    from scripts.tools.profile.profilers import eager, inductor

    program = capture.functional(capture.capture(loaded), {})
    origins = locations.of_nodes(program.graph.nodes, loading.FLAT_PREFIX)
    answer: dict[str, Any] = {
        "nodes": {name: origin.module for name, origin in origins.nodes.items()},
        "classes": dict(origins.modules),
    }
    if not profiled:
        return answer
    model = loaded.module

    def call() -> Any:
        return model(*loaded.args, **loaded.kwargs)

    results = call()
    split = Parts(model)
    kinds = split.kinds or {path: type(module).__name__ for path, module in model.named_modules()}
    calls = {"eager": list(eager.times_of_calls(call, model, split, 1))}
    if isinstance(model, torch.fx.GraphModule):
        assert all(torch.equal(call()[key], value) for key, value in results.items())
        compiled = torch.compile(model)
        with torch.no_grad(), inductor.marking(model):
            compiled(*loaded.args, **loaded.kwargs)
            calls["inductor"] = inductor.times_of_calls(
                lambda: compiled(*loaded.args, **loaded.kwargs), split, 1
            )
    for name, [times] in calls.items():
        modules = {node.module for kernel in times.kernels_ms for node in kernel.nodes}
        answer[name] = sorted([str(path), kinds.get(path, "")] for path in modules)
    return answer


def _load(files: list[tuple[str, dict[str, Any]]], compiled: bool) -> list[str]:
    """What loading and calling each file raised; "" if nothing. `compiled`: by inductor."""
    said = []
    for file, options in files:
        try:
            loaded = load_model(ModelChoice("m", Path(file), options))
            with torch.no_grad():
                module = torch.compile(loaded.module) if compiled else loaded.module
                module(*loaded.args, **loaded.kwargs)
            said.append("")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def _inputs(files: list[tuple[str, dict[str, Any]]]) -> list[list[Any]]:
    """The values of each file's inputs."""
    models = [load_model(ModelChoice("m", Path(file), options)) for file, options in files]
    return [[tensor.tolist() for _, tensor in loaded.inputs] for loaded in models]


if __name__ == "__main__":
    main()
