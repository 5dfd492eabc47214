"""hugging_face: what is refused of a folder before transformers reads it. tests/pipeline/test_sources.py loads such folders."""

import json

import pytest

from scripts.frontends.sources.hugging_face import SOURCE, check, elements, weight_files
from scripts.frontends.sources.registry import model_file, model_name, source_of
from scripts.frontends.torch_model.errors import BrokenModelFile, ModelFileError
from tests import programs


@pytest.mark.parametrize("shards", [1, 2])
def test_a_folder_stands_for_its_configuration_and_all_of_its_files_count(tmp_path, shards):
    folder = programs.folder(tmp_path / "tiny-1.5b", shards)
    path = model_file(folder)
    check(path, {"batch_size": 2, "seq_len": 8, "dtype": "bf16", "architecture": "BertModel"})
    assert (path.name, model_name(folder), source_of(folder)) == ("config.json", "tiny-1.5b", SOURCE)  # fmt: skip
    parts = {part.name for part in SOURCE.parts(path, {})}
    assert {file.name for file in folder.iterdir()} - parts == {"config.json"}
    assert "hf_folder.py" in parts
    assert sum(map(elements, weight_files(folder))) == (10 if shards == 1 else 8)


def test_a_link_into_a_cache_is_a_folder_too(tmp_path):
    folder, cache = programs.folder(tmp_path / "a"), tmp_path / "blobs"
    cache.mkdir()
    for number, file in enumerate(list(folder.iterdir())):
        file.rename(cache / str(number))
        file.symlink_to(cache / str(number))
    check(model_file(folder), {})


def test_the_digest_is_that_of_the_configuration(tmp_path):
    folder = programs.folder(tmp_path / "a")
    before = SOURCE.digest(folder / "config.json")
    (folder / "config.json").write_text('{"architectures": ["GPT2Model"]}')
    assert SOURCE.digest(folder / "config.json") != before


def configure(**config):
    return lambda folder: (folder / "config.json").write_text(json.dumps(config))


def index(**shards):
    def change(folder):
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(shards))

    return change


def replace(name, content):
    return lambda folder: (folder / name).write_bytes(content(folder / name))


def header(text: str, data: int = 0) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode() + bytes(data)


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


BERT = {"architectures": ["BertModel"]}
BROKEN = {
    "no class": (configure(model_type="bert"), "config.json: architectures: found None, expected a list with the name of a class of transformers"),
    "a class that is no name": (configure(architectures=[{}]), r"architectures: found \[\{\}\]"),
    "a kernel of the hub": (configure(**BERT, attn_implementation="evil/kernel"), "config.json: attn_implementation: found 'evil/kernel', which may be a kernel of the hub; expected eager, sdpa, flex_attention"),
    "kernels of the parts": (configure(**BERT, attn_implementation={"": "sdpa", "text_config": "evil/kernel"}), "attn_implementation: found 'evil/kernel'"),
    "a kernel by the inner name": (configure(**BERT, _attn_implementation="evil/kernel@main:f"), "_attn_implementation: found 'evil/kernel@main:f'"),
    "a kernel of a part": (configure(**BERT, vision_config={"layers": [{"_attn_implementation_internal": "evil/kernel"}]}), "_attn_implementation_internal: found 'evil/kernel'"),
    "a kernel of another form": (configure(**BERT, attn_implementation="msa|evil/kernel"), r"attn_implementation: found 'msa\|evil/kernel'"),
    "flash attention": (configure(**BERT, attn_implementation="flash_attention_2"), "attn_implementation: found 'flash_attention_2'"),
    "an implementation that is a list": (configure(**BERT, attn_implementation=["evil/kernel"]), "attn_implementation: found .'evil/kernel'"),
    "a kernel of experts": (configure(**BERT, text_config={"experts_implementation": "sonicmoe"}), "experts_implementation: found 'sonicmoe', which may be a kernel of the hub; expected eager, batched_mm, grouped_mm"),
    "a backbone of the hub": (configure(**BERT, backbone_config={"backbone": "hf-hub:evil/model"}), "backbone: found 'hf-hub:evil/model', which is looked up elsewhere"),
    "a checkpoint of timm": (configure(**BERT, architecture="resnet18", model_args={"checkpoint_path": "/tmp/a.bin"}), "model_args: found checkpoint_path, with which timm loads other files"),
    "more layers than weights": (configure(**BERT, num_hidden_layers=2**62), "config.json: num_hidden_layers: found 4611686018427387904, but its weights have 10 elements"),
    "no JSON": (replace("config.json", lambda _: b"{"), r"config.json: no JSON \("),
    "a list": (replace("config.json", lambda _: b"[]"), "config.json: found list, expected an object"),
    "deep JSON": (replace("config.json", lambda _: b"[" * 200_000), "config.json: no JSON"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), r"no model.safetensors and no model.safetensors.index.json; expected one of them$"),
    "pickles": (pickled, "found pytorch_model.bin, which are pickles and are not loaded: save them with safe_serialization=True"),
    "empty": (replace("model.safetensors", lambda _: b""), r"model.safetensors: 0 bytes; no file of safetensors, or cut inside its header"),
    "cut in the header": (replace("model.safetensors", lambda p: p.read_bytes()[:40]), "40 bytes; no file of safetensors, or cut inside its header"),
    "cut": (replace("model.safetensors", lambda p: p.read_bytes()[:-3]), r"model.safetensors: \d+ bytes, but its header describes \d+: it is cut or damaged"),
    "something behind": (replace("model.safetensors", lambda p: p.read_bytes() + b"x"), "its header describes"),
    "a pickle for safetensors": (replace("model.safetensors", lambda _: b"\x80\x02cos\nsystem\n(S'touch executed'\ntR."), "no file of safetensors"),
    "a header that is a list": (replace("model.safetensors", lambda _: header("[]")), "its header cannot be read"),
    "a header without offsets": (replace("model.safetensors", lambda _: header('{"a": {"shape": [1]}}')), "its header cannot be read"),
    "an endless size": (replace("model.safetensors", lambda _: header('{"a": {"shape": [1e999], "data_offsets": [0, 4]}}', 4)), "its header cannot be read"),
    "billions of elements": (replace("model.safetensors", lambda _: header('{"a": {"dtype": "F32", "shape": [1000000, 1000000], "data_offsets": [0, 4]}}', 4)), r"its header describes 1000000000000 elements in \d+ bytes"),
    "an index without shards": (index(weight_map={}), r"model.safetensors.index.json: weight_map: found \{\}"),
    "a missing shard": (index(weight_map={"a": "model-00001-of-00002.safetensors"}), "weight_map names model-00001-of-00002.safetensors, which is not in"),
    "a shard outside": (index(weight_map={"a": "../other.safetensors"}), "weight_map names '../other.safetensors', expected a file of the same folder"),
    "a shard that is a path": (index(weight_map={"a": "/etc/passwd"}), "weight_map names '/etc/passwd', expected a file of the same folder"),
    "a shard that is no name": (index(weight_map={"a": ["x"]}), r"weight_map names \['x'\], which is not in"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_whole_is_named_with_what_was_expected(tmp_path, name):
    change, message = BROKEN[name]
    folder = programs.folder(tmp_path / "broken")
    change(folder)
    with pytest.raises(BrokenModelFile, match=rf"broken.*{message}"):
        check(folder / "config.json", {})


def test_implementations_of_transformers_itself_are_no_kernels(tmp_path):
    folder = programs.folder(tmp_path / "plain")
    parts = {"attn_implementation": {"": "sdpa", "text_config": None}, "text_config": {"_attn_implementation": "eager"}}  # fmt: skip
    others = {"_attn_implementation_autoset": True, "experts_implementation": "grouped_mm", "architecture": "vit_base.augreg_in21k", "model_args": {"depth": 2}}  # fmt: skip
    configure(**BERT, **parts, **others)(folder)
    check(folder / "config.json", {})


def test_options_are_those_of_the_file_that_loads_folders(tmp_path):
    path = programs.folder(tmp_path / "a") / "config.json"
    for options, message in (({"seqlen": 8}, "takes no option 'seqlen'.*did you mean 'seq_len'"), ({"folder": "b"}, "takes no option 'folder'")):  # fmt: skip
        with pytest.raises(ModelFileError, match=message):
            check(path, options)
    with pytest.raises(ModelFileError, match=r"b/config\.json: no such file; expected the folder"):
        check(tmp_path / "b/config.json", {})
