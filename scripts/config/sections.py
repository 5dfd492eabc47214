"""The form of the configuration: a class for each section, which gives the check, the types of texts and the JSON schema.

A key without Required may be left out; the code that reads it has its default. docs/configuration.md explains the keys.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Required, TypeVar, Union, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    JsonValue,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    with_config,
)
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from scripts.config import choices, plugins, reading, stages
from scripts.config.choices import DTYPES, MATMUL_PRECISIONS, PRECISIONS, Test
from scripts.config.models import PHASES
from scripts.config.reading import ConfigError
from scripts.core import checkout, python_source
from scripts.frontends.sources.source import MODEL_KINDS
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.supervise import outcome


def _one_of(values: Iterable[str]) -> GetPydanticSchema:
    return GetPydanticSchema(lambda _type, _handler: core_schema.literal_schema([*values]))


def _read(value: Any) -> Any:
    """The value of a text as in a file: `--config` gives numbers and booleans in mappings as text."""
    return reading.scalar(value) if isinstance(value, str) else value


def _number(value: Any, check: Callable[[Any], float]) -> Any:
    """Check a float. An integer stays one, because values are written to command lines as they are."""
    value = _read(value)
    number = check(value)
    return value if isinstance(value, int) else number


def _plain(value: Any) -> Any:
    """Refuse options that no command line can have: not-a-number, infinity, and YAML's dates."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise PydanticCustomError("plain", "Input should have finite numbers, no dates") from None
    return value


def _unique(values: list[Any]) -> list[Any]:
    if any(value in values[:place] for place, value in enumerate(values)):
        raise PydanticCustomError("unique", "List should have each item once")
    return values


SELECTABLE = ("models", "frontends", "targets", "baselines", "tests", "kernels", "toolchains")
"""Keys that a comma-separated list on the command line selects from."""

T = TypeVar("T")
Bool = Annotated[bool, BeforeValidator(_read)]
Int = Annotated[int, BeforeValidator(_read), Field(lt=2**63)]
"""A number that tensors and command lines can hold: 64 bits."""
Number = Annotated[float, WrapValidator(_number)]
Count = Annotated[Int, Field(ge=1)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Options = Annotated[dict[str, JsonValue], AfterValidator(_plain)]
"""Values that are passed on as they are."""
NOT_EMPTY = Field(min_length=1)
Unique = Annotated[list[T], AfterValidator(_unique)]
OneOrMore = Union[T, Annotated[list[T], AfterValidator(_unique), NOT_EMPTY]]  # noqa: UP007 - mypy takes no `T | …`
Globs = Annotated[list[str], NOT_EMPTY]

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Module = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of a Python file, without .py."""
OpenDimension = Annotated[str, Field(pattern=r"^[^\x00-\x1f\"']+$")]
"""The name of an option, or of a dimension that a model's file leaves open."""
Path = Annotated[str, Field(pattern=r"^[^\x00-\x1f]+$")]
Word = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._:,=/-]*$")]
"""A name of the scheduler's."""
Flag = Annotated[str, Field(pattern="^(--.|[A-Za-z0-9])")]
"""Of iree-compile, or the name of a flag set of workflow/flag_sets.yaml."""

Dtype = Annotated[str, _one_of(DTYPES)]
OptLevel = Annotated[str, _one_of(OPT_LEVELS)]
Phase = Annotated[str, _one_of(PHASES)]
Status = Annotated[str, _one_of(outcome.STATUSES)]
Dump = Annotated[str, _one_of((*choices.BASELINE_DUMPS, *choices.IREE_DUMPS, choices.MODULES))]

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
OPEN = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
"""Of a section whose other keys are options of a model's functions."""


@with_config(STRICT)
class Tolerance(TypedDict, total=False):
    tol: NotNegative
    cosine: Bool
    small_tensor_multiplier: Bool
    noise: Positive


@with_config(STRICT)
class Sizes(TypedDict, total=False):
    """The sizes of an option of a model, for which there are programs for all of them."""

    values: Required[Annotated[Unique[Count], NOT_EMPTY]]
    min: Count
    max: Count
    multiple_of: Count


@with_config(OPEN)
class Model(TypedDict, total=False):
    default: Bool
    file: Path
    dtype: OneOrMore[Dtype]
    seed: Annotated[Int, Field(ge=0)]
    batch_size: OneOrMore[Count]
    phase: OneOrMore[Phase]
    seq_len: Count
    cache_len: Count
    pretrained: Bool
    size: str | int
    tolerance: Tolerance
    torchbench: str
    dynamic: dict[OpenDimension, Sizes] | None


@with_config(OPEN)
class Kernel(TypedDict, total=False):
    dtype: OneOrMore[Dtype]
    seed: Annotated[Int, Field(ge=0)]
    shape: OneOrMore[Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]]
    max_bytes: Positive
    tolerance: Tolerance


ModelEntry = Annotated[Model, AfterValidator(_plain)] | None


class Rule(TypedDict, total=False):
    """How the members of a group are timed."""

    budget_s: Annotated[Number, Field(gt=0, le=86_400)]
    slice_s: Annotated[Number, Field(gt=0, le=60)]
    generations: Annotated[Int, Field(ge=1, le=1000)]


class Kernels(TypedDict, total=False):
    select: list[
        str | Annotated[dict[str, Annotated[Kernel, AfterValidator(_plain)] | None], NOT_EMPTY]
    ]
    max_bytes: Positive
    dtype: OneOrMore[Dtype]
    frontends: Globs
    targets: Globs
    baselines: Globs
    measure: Rule


class Frontend(TypedDict, total=False):
    default: Bool
    exporter: Required[Module]
    env: Required[Name]
    options: Options
    ir_format: Annotated[
        str,
        _one_of(
            python_source.literal(
                checkout.ROOT / "scripts/frontends/lowering/link.py", "FORMATS", ()
            )
        ),
    ]


class StepOverride(TypedDict, total=False):
    opt_level: OptLevel
    flags: list[Flag]


class Override(TypedDict, total=False):
    frontends: Globs
    opt_level: OptLevel
    flags: list[Flag]
    train: Annotated[StepOverride, NOT_EMPTY]


class Target(TypedDict, total=False):
    default: Bool
    backend: Required[Annotated[str, _one_of(BACKENDS)]]
    arch: Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._+:,=@/-]*$")]
    opt_level: OptLevel
    flags: list[Flag]
    frontends: Globs
    models: Globs
    overrides: dict[str, Annotated[Override, NOT_EMPTY] | None] | None
    node: Name
    remedies: Annotated[Literal[False] | Annotated[Unique[str], NOT_EMPTY], BeforeValidator(_read)]
    device: Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._+:,=@/?&%-]*$")]
    tuned: Annotated[Literal["auto", False], BeforeValidator(_read)]


class Compile(TypedDict, total=False):
    """Arguments of torch.compile; `options`: of torch._inductor.config, by name."""

    mode: Annotated[str, _one_of(choices.COMPILE_MODES)]
    fullgraph: Bool
    dynamic: Bool
    options: dict[str, bool | int | float | str]


class Baseline(TypedDict, total=False):
    default: Bool | Annotated[list[Annotated[str, _one_of(MODEL_KINDS)]], NOT_EMPTY]
    runtime: Required[Module]
    device: Required[plugins.Device]
    env: Required[Name]
    precision: Annotated[str, _one_of(PRECISIONS)]
    xla_flags: str
    program: Name | Annotated[list[Name], NOT_EMPTY]
    rewrites: Literal["speed"]
    compile: Compile
    node: Name


_Toolchain = TypedDict("_Toolchain", {"torch-mlir": str | int}, total=False)


class Toolchain(_Toolchain, total=False):
    default: Bool
    iree: Path
    packages: dict[str, str | int]
    find_links: list[Path]
    envs: Annotated[list[Name], NOT_EMPTY]


class Train(TypedDict, total=False):
    """The optimizer of training steps: a class of torch.optim, and its arguments."""

    name: Literal["SGD", "Adam", "AdamW"]
    lr: Positive
    weight_decay: NotNegative
    momentum: NotNegative
    nesterov: Bool
    # With 0, the state would be the same after each step, so that it could not be verified.
    betas: Annotated[list[Annotated[Number, Field(gt=0, lt=1)]], Field(min_length=2, max_length=2)]
    eps: Positive
    amsgrad: Bool


class Dumps(TypedDict, total=False):
    repeat: Annotated[Int, Field(ge=1, le=10_000)]
    iterations: Annotated[Int, Field(ge=1, le=1_000_000)]
    kinds: Unique[Dump]
    save_ir: OneOrMore[Literal["text", "hlo", "stablehlo"]]


class Measure(Rule, total=False):
    threads: OneOrMore[Annotated[Int, Field(ge=1, le=4096)]]
    matmul_precision: Annotated[str, _one_of(MATMUL_PRECISIONS)]
    collect: Unique[Literal["profiler", "operators", "dynamo_counters"]]
    until_decided: Bool


class Tune(TypedDict, total=False):
    budget_s: Annotated[Number, Field(gt=0, le=604_800)]
    keep: Annotated[Number, Field(gt=0, le=1)]
    targets: Globs


class Operators(TypedDict, total=False):
    dataset: str | None
    mapping: str | None
    traces: list[Path]
    select: str
    operators: list[str]
    source_models: list[str]
    smallest: Count | None
    largest: Count | None
    max_elements: Count | None
    dtype: str | None
    batches: Annotated[Int, Field(ge=1, le=10_000)]
    frontends: Globs
    targets: Globs
    baselines: list[str]
    compile_only: list[str]
    measure: Rule


class Fuzz(TypedDict, total=False):
    parts: Annotated[Int, Field(ge=1, le=10_000)]
    minutes: Annotated[Number, Field(gt=0, le=10_000)]
    options: str


class Limit(TypedDict, total=False):
    timeout_s: Required[Annotated[Number, Field(gt=0, le=2_592_000)]]
    memory_mb: Annotated[Number, Field(ge=1, le=1e9)]


class Node(TypedDict, total=False):
    """What a job requests of the scheduler for a kind of nodes."""

    gpu: Annotated[Int, Field(ge=0)]
    gpu_model: Word
    gpu_manufacturer: Word
    machine_type: Word
    gres: Word
    constraint: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:,=*&|()\[\]-]+$")]
    slurm_partition: Word
    slurm_account: Word
    qos: Word


Worse = Annotated[Number, Field(ge=1)] | None
"""A ratio after / before from which a change is worse; 1: any change; null: never."""


class Compare(TypedDict, total=False):
    latency: Worse
    compile_time: Worse
    compile_cpu_s: Worse
    compile_rss_mb: Worse
    run_rss_mb: Worse
    vmfb_bytes: Worse
    dispatch_count: Worse
    transient_bytes: Worse
    constant_bytes: Worse
    leaked_bytes: Worse
    rmse_vs_fp64: Worse
    static_spills: Worse
    static_bound_ms: Worse
    static_occupancy: Worse
    static_matrix_share: Worse
    outcomes: Unique[
        Literal[
            "broken", "newly wrong", "fixed", "newly right", "other reason", "device", "gone", "new"
        ]
    ]
    rate: Annotated[Number, Field(gt=0, lt=1)]


class AtMost(TypedDict, total=False):
    """The largest values of columns of a row."""

    compile_s: NotNegative
    compile_cpu_s: NotNegative
    compile_rss_mb: NotNegative
    run_rss_mb: NotNegative
    vmfb_bytes: NotNegative
    dispatch_count: NotNegative
    transient_bytes: NotNegative
    constant_bytes: NotNegative
    leaked_bytes: NotNegative
    rmse_vs_fp64: NotNegative
    static_spills: NotNegative
    static_bound_ms: NotNegative


class AtLeast(TypedDict, total=False):
    """The least values of columns of a row."""

    static_occupancy: NotNegative
    static_matrix_share: NotNegative


class Expected(TypedDict, total=False):
    """`as_asked`: whether it compiled without a remedy."""

    status: Required[OneOrMore[Status]]
    stage: Annotated[str, _one_of(stages.STAGES)]
    reason: str
    as_asked: Bool
    verdict: OneOrMore[Literal["faster", "same", "slower"]]
    at_most: AtMost
    at_least: AtLeast


@with_config(STRICT)
class Expectations(TypedDict):
    """What a file for `vmfbench check` has."""

    expect: dict[str, OneOrMore[Status] | Expected]


class Reference(TypedDict):
    env: Name


class Torchbench(TypedDict, total=False):
    file: Path
    path: Path


Limits = TypedDict(  # type: ignore[misc]  # its keys are those of the stages
    "Limits",
    {key: Limit if key in stages.OPTIONAL_LIMITS else Required[Limit] for key in stages.limits()},
    total=False,
)


@with_config(STRICT)
class Configuration(TypedDict, total=False):
    models: Required[dict[Name, ModelEntry]]
    suites: list[str | Annotated[dict[str, ModelEntry], NOT_EMPTY]]
    kernels: Kernels
    reference: Required[Reference]
    frontends: Required[Annotated[dict[Name, Frontend | None], NOT_EMPTY]]
    targets: Required[Annotated[dict[Name, Target | None], NOT_EMPTY]]
    baselines: Required[dict[Name, Baseline | None]]
    toolchains: dict[Name, Toolchain]
    tests: Required[Annotated[Unique[Test], NOT_EMPTY]]
    train: Train
    torchbench: Annotated[Torchbench, NOT_EMPTY]
    dumps: Dumps
    measure: Required[Measure]
    tune: Tune
    operators: Operators
    fuzz: Fuzz
    limits: Required[Limits]
    nodes: dict[Name, Node | None]
    remedies: Bool
    speed_rewrites: Bool
    compare: Compare
    expect: dict[str, OneOrMore[Status] | Expected]
    # For the command line.
    file: str
    quick: Bool
    stop_on: str
    filter: str
    exclude: str
    batch: str
    retry: str


CONFIGURATION = TypeAdapter(Configuration)
EXPECTATIONS = TypeAdapter(Expectations)


def check(config: Mapping[str, Any], form: TypeAdapter[Any] | None = None) -> dict[str, Any]:
    """The configuration (or a part of it: `form`) with texts of the command line as numbers and booleans where these are wanted.

    Raises ConfigError naming, for each problem, the key, what was found and what is allowed.
    """
    try:
        return dict((form or CONFIGURATION).validate_python(config))
    except ValidationError as error:
        details = error.errors(include_url=False)
    raise ConfigError("\n".join(_problems(config, details)))


def keys(place: Iterable[str]) -> list[str]:
    """The keys of the section at a place of the configuration."""
    section: Any = Configuration
    for key in place:
        if forms := [*_sections(get_type_hints(section).get(key))]:
            section = forms[0]
    return [*get_type_hints(section)]


def _sections(kind: Any) -> Iterator[type]:
    """The classes of sections in a type such as dict[str, Target | None]."""
    if is_typeddict(kind):
        yield kind
    for part in get_args(kind):
        yield from _sections(part)


def _problems(config: Any, details: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """An error message for each place where something is wrong."""
    by_place: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for detail in details:
        by_place.setdefault(_place(config, detail["loc"]), []).append(detail)
    for place, errors in by_place.items():
        where = ".".join(place) or "config"
        # If only a part of one of several possible forms is wrong, that form is meant.
        has_wrong_part = any(other[: len(place)] == place != other for other in by_place)
        if missing := [str(e["loc"][-1]) for e in errors if e["type"] == "missing"]:
            yield f"{where}: missing {', '.join(missing)}"
        elif errors[0]["type"] == "extra_forbidden":
            allowed = keys(place[:-1])
            unknown = reading.unknown("key", place[-1], allowed)
            yield f"{where}: {unknown} (allowed: {', '.join(allowed)})"
        elif not has_wrong_part or errors[0]["loc"][-1] == "[key]":
            yield f"{where}: {_message(place, errors)}"


def _place(config: Any, location: Iterable[str | int]) -> tuple[str, ...]:
    """The keys to a wrong value. pydantic's location also names the possible forms of a value, and missing keys."""
    place = []
    for part in location:
        if part in config if isinstance(config, Mapping) else isinstance(part, int):
            config = config[part]
            place.append(str(part))
    return tuple(place)


def _message(place: Sequence[str], errors: Sequence[Mapping[str, Any]]) -> str:
    """What was found and what is allowed; `errors`: one for each of the possible forms of the value."""
    value = errors[0]["input"]
    # YAML has values that JSON lacks, such as dates.
    shown = json.dumps(value, default=str, skipkeys=True)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    wanted = [re.sub(r"^\w+ should | after validation.*", "", e["msg"]) for e in errors]
    expected = " ".join(e.get("ctx", {}).get("expected", "") for e in errors)
    near = difflib.get_close_matches(str(value), re.findall("'(.*?)'", expected), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if len(place) == 1 and place[0] in SELECTABLE and errors[0]["type"].endswith("_type"):
        hint = "; on the command line, names with commas between them"
    return f"found {shown}, which should {', or '.join(dict.fromkeys(wanted))}{hint}"
