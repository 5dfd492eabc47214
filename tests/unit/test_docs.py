"""README and docs: all commands, configurations, links and code spans in them are valid."""

from __future__ import annotations

import ast
import functools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
import yaml
from snakemake.cli import get_argument_parser, parse_config

from benchmarks import latency_table
from scripts.cli import run, verbs
from scripts.config import expansion, reading, settings
from scripts.core import python_source
from tests import programs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]  # fmt: skip
USER_MODEL = "def get_model(width=64): ...\ndef get_dummy_input(width=64, batch_size=1): ...\n"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, text, and the line of its fence."""

    page: Path
    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    fence = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    text = page.read_text(encoding="utf-8")
    for found in fence.finditer(text):
        indent, language, body = found.groups()
        body = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        yield Block(page, language, body, text.count("\n", 0, found.start()) + 1)


def prose(page: Path) -> str:
    """Return a page with empty fenced blocks; line numbers do not change."""
    text = page.read_text(encoding="utf-8")
    fence = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
    return fence.sub(lambda found: "\n" * found[0].count("\n"), text)


def commands(page: Path) -> Iterator[str]:
    """Yield the command lines in sh blocks and code spans of a page that have no placeholder."""
    lines = [
        line.split(" #")[0].strip()
        for block in blocks(page)
        if block.language == "sh"
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    lines += [span for span in re.findall(r"`([^`\n]+)`", prose(page)) if " " in span]
    for line in lines:
        for command in line.split(" && "):
            if not re.search(r"…|<\w", command):
                yield command


BLOCKS = [block for page in PAGES for block in blocks(page)]
COMMANDS = sorted({(page.name, command) for page in PAGES for command in commands(page)})
RUNS = [
    found
    for found in COMMANDS
    if re.match(r"vmfbench run\b(?!.* --batches)", found[1])  # with --batches: several commands
]
SNAKEMAKE = [found for found in COMMANDS if found[1].startswith("snakemake ")]
SHOWN = re.compile(r"^ *(vmfbench .*?)(?: (?:#|&&) .*)?\n *# runs: (snakemake .*)$", re.MULTILINE)
"""A command of `vmfbench` on a page, and the one that it is said to run."""
MODULES = [
    found
    for found in COMMANDS
    if re.search(r"python -m (scripts|benchmarks)\.|^vmfbench ", found[1])
]
YAML = [block for block in BLOCKS if block.language == "yaml"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_code_span_is_broken_over_lines(page):
    broken = [
        number
        for number, line in enumerate(prose(page).splitlines(), 1)
        # A span ends with the same number of backticks as at its start.
        if "`" in re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
    ]
    assert broken == []


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        assert not anchor or anchor in headings(linked), target


@functools.cache
def rules() -> frozenset[str]:
    """Return the names of all rules."""
    found: set[str] = set()
    for file in [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")]:
        text = file.read_text(encoding="utf-8")
        found |= set(re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)", text, re.MULTILINE))
    return frozenset(found)


@functools.cache
def files_of_rules() -> re.Pattern:
    """Return patterns of the files that rules make, from the outputs in the rules."""
    text = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("workflow/rules/*.smk"))
    outputs = re.findall(r'"((?:results|\.venvs)/[^"]+)"', text)
    return re.compile("|".join(re.sub(r"\\{.*?\\}", "[^/]+", re.escape(one)) for one in outputs))


def is_target(word: str) -> bool:
    """Return whether a word of a command line is a rule or a file that a rule makes."""
    if found := re.fullmatch(r"\.venvs/([^/]+)/versions\.json", word):
        return (ROOT / f"envs/{found[1]}.yaml").exists()
    return word in rules() or files_of_rules().fullmatch(word) is not None


def with_braces(word: str) -> list[str]:
    """Expand `a{b,c}d` as a shell does; a mapping of --config is quoted."""
    if ": " in word:
        return [word]
    if found := re.fullmatch(r"(.*)\{(.*,.*)\}(.*)", word):
        return [found[1] + middle + found[3] for middle in found[2].split(",")]
    return [word]


@pytest.fixture
def as_a_user(tmp_path, monkeypatch) -> Path:
    """A home with the model files that the examples name, in which they are typed."""
    for name in ("mine.py", "x.py", "models/mine.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(USER_MODEL, encoding="utf-8")
    (tmp_path / "files/conv").mkdir(parents=True)
    for name in ("mine.pt2", "files/conv.pt2"):
        programs.write(tmp_path / name, programs.entries())
    programs.folder(tmp_path / "llama-1b")
    (tmp_path / "mine.txt").write_text("", encoding="utf-8")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "main", [x], [y])
    for name in ("resnet.onnx", "files/conv/model.onnx"):
        onnx.save(onnx.helper.make_model(graph), tmp_path / name)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/mine.mlir").write_text("func.func @main() { return }", encoding="utf-8")
    for file in (ROOT / "models").glob("*.py"):
        (tmp_path / "models" / file.name).symlink_to(file)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(command: str, monkeypatch) -> list[str]:
    """The words of the snakemake command that `vmfbench run` runs."""
    said: list[list[str]] = []
    words = shlex.split(command)
    monkeypatch.setattr(run, "snakemake", said.append)
    monkeypatch.setattr("sys.argv", words[1:])
    run.main()
    return ["snakemake", *said[0]]


@pytest.mark.parametrize(("page", "command"), SNAKEMAKE + RUNS)
def test_every_command_that_runs_the_workflow_is_one_that_runs(page, command, as_a_user, monkeypatch):  # fmt: skip
    # Replace variables, and the name that a user may have given the checkout.
    here = command.replace('"$models"', "'timm-*'").replace("~/vmfbench/", "")
    here = here.replace("$D", f"{onnx.__path__[0]}/backend/test/data")
    words = started(here, monkeypatch) if here.startswith("vmfbench") else shlex.split(here)
    # Snakemake's parser exits if an option is unknown.
    args = get_argument_parser().parse_args([w for word in words[1:] for w in with_braces(word)])
    assert [word for word in args.targets if not is_target(word)] == []
    assert [
        name for name in args.profile or [] if not (ROOT / name / "profile.yaml").exists()
    ] == []
    if not (args.config or args.configfile):
        return  # test_config.py checks the shipped configuration
    files = [file_of(page, path, as_a_user) for path in args.configfile]
    asked = SimpleNamespace(
        config=parse_config(args.config), configfiles=files, replace_workflow_config=False
    )
    declared, selections = settings.read(asked, ROOT / "config.yaml", as_a_user)
    matrix = expansion.expand(declared, selections, ROOT)
    assert list(matrix.rows())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_command_that_a_page_shows_beside_vmfbench_is_the_one_that_it_runs(page, monkeypatch):
    for command, shown in SHOWN.findall(page.read_text(encoding="utf-8")):
        assert shlex.split(shown) == started(command, monkeypatch), command


def file_of(page: str, name: Path, folder: Path) -> Path:
    """Return the configuration that a command names.

    It is the shipped one, or the example on the page that begins with its name.
    """
    if (ROOT / name).exists():
        return ROOT / name
    [text] = [b.text for b in YAML if b.page.name == page and b.text.startswith(f"# {name}\n")]
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def is_project(module: str) -> bool:
    return module.split(".")[0] in ("scripts", "benchmarks")


@functools.cache
def code_of(module: str) -> str:
    """Return the source of a command and of all project modules that it imports."""
    modules = [module]
    if module == "scripts.cli.export":  # finds the formats by the names of their files
        modules.append("scripts.tools.operators.report.backendbench")
        modules += [f"scripts.tools.report.formats.{file.stem}" for file in ROOT.glob("scripts/tools/report/formats/*.py")]  # fmt: skip
    files = python_source.closure(modules, ROOT, is_project)
    return "".join(file.read_text(encoding="utf-8") for file in files)


def is_declared(option: str, code: str) -> bool:
    """Whether a parser has an option, or a dataclass its field (scripts/core/commands.py)."""
    field = option.removeprefix("--").replace("-", "_")
    return f'"{option}"' in code or bool(re.search(rf"^    {field}: ", code, re.MULTILINE))


@pytest.mark.parametrize(("page", "command"), MODULES)
def test_every_command_of_the_project_exists_with_its_options(page, command):
    words = shlex.split(command)
    named = {verb.name: verb.module for verb in verbs.VERBS}
    module = named[words[1]] if words[0] == "vmfbench" else words[words.index("-m") + 1]
    assert ROOT.joinpath(*module.split(".")).with_suffix(".py").exists()
    own = words[: words.index("--")] if "--" in words else words  # the others are Snakemake's
    options = {word.partition("=")[0] for word in own if re.match(r"--[a-z]", word)} - {"--help"}
    assert {option for option in options if not is_declared(option, code_of(module))} == set()


@pytest.mark.parametrize("block", YAML, ids=str)
def test_every_configuration_is_valid_with_the_shipped_one(block, tmp_path):
    file = tmp_path / "example.yaml"
    file.write_text(block.text, encoding="utf-8")
    content = reading.read(file)
    assert content
    content = content.get("vmfbench", content)  # a workflow that imports this one
    if "mine.py" in content.pop("file", "mine.py"):
        file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    settings.load({}, [ROOT / "config.yaml", file])


def json_in_help() -> list[str]:
    """The JSON examples in the help texts of the commands."""
    found = []
    for file in [*ROOT.glob("scripts/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and str(node.value).startswith("JSON"):
                found += re.findall(r"\{.*?\}|\[.*?\]", str(node.value))
    return found


def test_json_in_help_texts_is_valid():
    examples = json_in_help()
    assert len(examples) >= 5
    for example in examples:
        json.loads(example)


def shipped() -> dict:
    return yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def test_the_cells_of_the_readme_are_in_the_shipped_matrix():
    failing = [file for file in [ROOT / "benchmarks/failing.yaml"] if file.exists()]
    configurations = [shipped(), *(reading.read(file) for file in failing)]
    cells = {str(c) for one in configurations for c in expansion.expand(one, {}, ROOT).rows()}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"results/(?:compile|measure)/([\w-]+/[\w-]+/[\w-]+)/", text)
    assert named
    assert set(named) <= cells


def test_the_tables_of_the_default_run_have_the_shipped_models():
    text = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    tables = latency_table.TABLES.findall(text)
    models = sorted(expansion.expand(shipped(), {}, ROOT).models)
    assert tables
    for machine, table in tables:
        named = re.findall(r"^\| ([\w-]+) \| [\d*]", table, re.MULTILINE)
        assert sorted(named) == models, machine


def test_the_readme_names_the_pages_and_the_models():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.parent == ROOT / "docs" and f"docs/{page.name}" not in text] == []  # fmt: skip
    files = [path.stem for path in (ROOT / "models").glob("[!_]*.py")]
    assert [name for name in files if f"`{name}`" not in text] == []
