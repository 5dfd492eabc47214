"""settings: runs with only the model files of the command line, and quick runs."""

import copy
from pathlib import Path

import pytest

from scripts.config import expansion, settings
from scripts.config.settings import ConfigError
from scripts.iree import backends
from scripts.run import starting
from scripts.run.plan import Plan
from tests import programs
from tests.checkouts import ROOT

MODEL = "def get_model(width=4): ...\ndef get_dummy_input(batch_size=1): ...\n"
CONFIG = ROOT / "config.yaml"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home folder with two model files, in which the command is typed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ("mine.py", "sub/other.py", "sub/mine.py", "bert.py", "sub/bert.py", "größe.py")
    for name in (*names, "weights.pth"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MODEL)
    return tmp_path


def expand(home: Path, **config):
    declared, selections = settings.load(config, [CONFIG], ROOT, home)
    return expansion.expand(declared, selections, ROOT)


@pytest.mark.parametrize("path", ["~/mine.py", "sub/../mine.py", "{home}/mine.py"])
def test_a_file_is_measured_alone_under_its_own_name(home, path):
    found = expand(home, file=path.format(home=home)).models
    assert list(found) == ["mine"]
    assert (found["mine"].file, found["mine"].suite) == (str(home / "mine.py"), "user")


def test_programs_and_folders_have_their_names_and_what_their_files_say(home):
    programs.write(home / "mine-2.pt2", programs.entries())
    programs.folder(home / "tiny")
    found = expand(home, file="mine-2.pt2,tiny/", models={"tiny": {"dtype": "bf16"}}).models
    assert sorted(found) == ["mine-2", "tiny"]
    program, folder = found["mine-2"], found["tiny"]
    assert (program.file, program.batch_size, program.dtype, program.broken) == (str(home / "mine-2.pt2"), 3, "f32", "")  # fmt: skip
    assert (folder.file, folder.dtype) == (str(home / "tiny/config.json"), "bf16")


def test_inputs_of_a_program_are_a_path_as_its_file_is(home):
    programs.write(home / "sub/mine.pt2", programs.entries())
    (home / "sub/y.npz").touch()
    entry = {"mine": {"file": "sub/mine.pt2", "inputs": "sub/y.npz"}}
    assert expand(home, models=entry, filter="^mine$").models["mine"].options["inputs"] == str(home / "sub/y.npz")  # fmt: skip


def test_a_damaged_program_is_a_row_and_the_others_run(home):
    (home / "bad.pt2").write_bytes(b"PK")
    found = expand(home, file="bad.pt2,mine.py").models
    assert "bad.pt2: cut or damaged (2 bytes" in found["bad"].broken
    assert found["mine"].broken == ""


def test_options_and_selections_hold_for_a_file_too(home):
    options = {"mine": {"width": "8", "batch_size": ["1", "2"]}}
    found = expand(home, file="mine.py", models=options, targets="llvm-cpu")
    assert list(found.models) == ["mine-b1", "mine-b2"]
    assert found.models["mine-b2"].options == {"width": 8, "batch_size": 2}
    assert list(found.targets) == ["llvm-cpu"]


@pytest.mark.parametrize(
    ("wanted", "measured"),
    [
        ("mine,conv", ["conv", "mine"]),
        ("conv", ["conv", "mine", "other"]),  # names none of the files
        ("o*", ["other"]),
    ],
)
def test_models_beside_files_select_of_them_or_add_to_them(home, wanted, measured):
    found = expand(home, file="mine.py,sub/other.py", models=wanted)
    assert list(found.models) == measured


@pytest.mark.parametrize("wanted", ["mine-bf16", "mine~4"])
def test_a_variant_or_size_of_a_file_is_selected_alone(home, wanted):
    (home / "mine.yaml").write_text("models: {mine: {file: mine.py, dtype: [f32, bf16]}}")
    files = [CONFIG, home / "mine.yaml"]
    _, selections = settings.load({"file": "mine.py", "models": wanted}, files, ROOT, home)
    assert selections["models"] == wanted


def test_a_file_that_is_a_model_keeps_its_options(home):
    found = expand(home, file=str(ROOT / "models/bert.py")).models
    assert list(found) == ["bert"]
    assert found["bert"].options == {"seq_len": 128}
    assert found["bert"].suite == "vmfbench"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("bert.py", "bert-py"),
        ("llama-decode.pt2", "llama-decode-pt2"),  # of a variant
        ("resnet/model.onnx", "resnet-onnx"),
        ("conv", "conv-folder"),
    ],
)
def test_a_file_with_the_name_of_another_model_has_its_kind_in_its_name(home, file, name):
    for place in ("resnet/model.onnx", "llama-decode.pt2", "conv/config.json"):
        (home / place).parent.mkdir(exist_ok=True)
        (home / place).write_bytes(b"")
    declared, selections = settings.load({"file": file}, [CONFIG], ROOT, home)
    assert selections["models"] == name
    found = starting.of_configuration(declared, selections, with_conda=False)
    assert list(found.matrix.models) == [name]
    said = f"{found.matrix.models[name].file} is the model {name}, because {name.rpartition('-')[0]} is"
    assert any(line.startswith(said) for line in starting.warnings(found))


def test_the_options_of_an_entry_of_that_name_hold(home):
    entry = {"bert-py": {"file": str(home / "bert.py"), "batch_size": 4}}
    assert expand(home, file="bert.py", models=entry).models["bert-py"].batch_size == 4


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("nowhere.py", r"file=nowhere.py: no file .*/nowhere\.py; expected a Python file \(.py\) with get_"),
        ("weights.pth", r"file=weights\.pth: .*/weights\.pth is no model by its name; expected a Python file .*, a folder of Hugging Face .* or an exported program .*\.pt2"),
        ("sub", r"file=sub: no file .*/sub/config.json; expected a Python file"),
        ("bert.py,sub/bert.py", r"file=sub/bert\.py: bert-py is the model of .*/bert\.py, .* rename the file, or .*my-bert-py: \{file: .*/sub/bert\.py\}"),
        ("größe.py", r"file=größe\.py: the model would be named 'größe'; .*rename the file, or"),
        ("mine.py,sub/mine.py", r"file=sub/mine\.py: mine is the model of .*/mine\.py"),
        ("nowhere.py,sub", r"nowhere(.|\n)*file=sub: "),
        (None, "^file: found nothing after `file=`"),
    ],
)  # fmt: skip
def test_what_no_model_can_be_made_of_is_said_whole(home, file, message):
    with pytest.raises(ConfigError, match=message):
        settings.load({"file": file}, [CONFIG], ROOT, home)


def test_a_quick_run_is_short_on_the_cpu_and_beside_eager(home):
    found = expand(home, file="mine.py", quick="true")
    assert {target.backend for target in found.targets.values()} == {"llvm-cpu"}
    assert {(b.runtime, b.device) for b in found.baselines.values()} == {("eager", "cpu")}
    assert list(found.frontends) == ["torchmlir-torch"]
    rule = Plan(found, frozenset(), with_conda=False).groups.rule("mine")
    assert (rule.generations, rule.budget_s) == (6, 5)


def test_a_quick_run_measures_no_limits_of_the_machine_and_needs_no_environment_of_xla(home):
    def asked(**given):
        plan = Plan(expand(home, file="mine.py", **given), frozenset(), with_conda=False)
        needed = {plan.frontend(row).env for row in plan.matrix.rows() if row.frontend}
        limits = [path for path in plan.aggregation.results() if "machine_limits" in path]
        return needed, bool(limits)

    assert asked() == ({"torch-mlir", "torch-xla"}, True)
    assert asked(quick=True) == ({"torch-mlir"}, False)


@pytest.mark.parametrize(
    ("file", "path"), [("net.onnx", "onnx-torch"), ("net.mlir", "mlir"), ("net.pt2", "torchmlir-torch")]
)  # fmt: skip
def test_a_quick_run_takes_the_first_lowering_path_of_each_kind_of_file(home, file, path):
    (home / file).write_text("module {}")
    assert list(expand(home, file=file, quick=True).frontends) == [path]


@pytest.mark.parametrize("quick", [True, "true"])
def test_the_command_line_wins_over_a_quick_run(home, quick):
    measure = {"generations": "7"}
    asked = {"targets": "cuda", "frontends": "torchxla-stablehlo", "baselines": "inductor"}
    found = expand(home, quick=quick, measure=measure, **asked)
    assert list(found.frontends) == ["torchxla-stablehlo"]
    assert (list(found.targets), list(found.baselines)) == (["cuda"], ["inductor"])
    rule = Plan(found, frozenset(), with_conda=False).groups.rule("conv")
    assert (rule.generations, rule.budget_s) == (7, 5)


def test_a_quick_run_without_a_target_on_the_cpu_is_refused(home, tmp_path):
    (tmp_path / "gpu.yaml").write_text('targets: {"llvm-cpu*": null}\n')
    files = [CONFIG, tmp_path / "gpu.yaml"]
    with pytest.raises(ConfigError, match=r"^quick: found no target of backend llvm-cpu"):
        settings.load({"quick": True}, files, ROOT, home)


def test_what_quick_may_be_is_said():
    with pytest.raises(ConfigError, match='quick: found "soon", which should be a valid boolean'):
        settings.load(copy.deepcopy({"quick": "soon"}), [CONFIG], ROOT)


@pytest.mark.parametrize(
    ("there", "is_absent"),
    [(["/usr/share/vulkan/icd.d/*.json"], True), (["/dev/dri/renderD*"], False), (["/dev/nvidia[0-9]*"], False)],
)  # fmt: skip
def test_a_driver_for_a_cpu_is_no_sign_of_the_gpu_that_a_vulkan_target_names(home, monkeypatch, there, is_absent):  # fmt: skip
    monkeypatch.setattr(backends.glob, "glob", lambda sign: [sign] if sign in there else [])
    matrix = expand(home, models="conv,vit", frontends="torchmlir-torch,torchmlir-stablehlo", targets="llvm-cpu,vulkan,vulkan-ada", baselines="eager")  # fmt: skip
    said = " ".join(starting.absent_devices(matrix))
    assert (
        "for vulkan-ada (no /dev/dri/renderD* or /dev/nvidia[0-9]* or /dev/dxg)" in said
    ) == is_absent
    idle = {(rule, str(cell)) for rule, cell in starting.idle_cells(matrix)}
    ends_at_once = {
        *(("verify_iree", f"{model}/torchmlir-torch/vulkan-ada") for model in ("conv", "vit")),
        ("time_group", "vit/vulkan/eval"),
    }
    assert idle & ends_at_once == (ends_at_once if is_absent else set())
    has_icd = "/usr/share/vulkan/icd.d/*.json" in there
    assert not has_icd or ("time_group", "conv/vulkan/eval") not in idle


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([], [
            "No device on this machine for cuda (no /dev/nvidia[0-9]*): 2 rows are compiled, and end as unavailable",
            "No device on this machine for on-gpu: 1 row is unavailable",
        ]),
        (["/dev/nvidia[0-9]*"], []),
        (["/dev/kfd"], ["No device on this machine for cuda (no /dev/nvidia[0-9]*): 2 rows are compiled, and end as unavailable"]),
    ],
)  # fmt: skip
def test_what_cannot_run_here_is_said_before_the_work(home, monkeypatch, there, said):
    monkeypatch.setattr(backends.glob, "glob", lambda sign: [sign] if sign in there else [])
    baselines = {"on-gpu": {"runtime": "eager", "device": "cuda", "env": "torch-mlir"}}
    chosen = {"models": "conv", "frontends": "torchmlir-torch,torchmlir-stablehlo", "targets": "llvm-cpu,cuda", "baselines": "on-gpu"}  # fmt: skip
    declared, _ = settings.load({"baselines": baselines, "targets": {"cuda": {"frontends": ["*"]}}}, [CONFIG], ROOT, home)  # fmt: skip
    matrix = starting.of_configuration(declared, chosen, with_conda=False).matrix
    assert [*starting.absent_devices(matrix)] == said
