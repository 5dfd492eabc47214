"""Every value of a record: the columns of latency.csv in order, then the fields that are not columns.

This table is the only declaration. The CSV row, the types of its columns, the schema of a record,
the values that a record takes from a measurement, and docs/columns.md are derived from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Literal, get_origin

import msgspec

from scripts.config import choices, plugins, stages
from scripts.config.choices import BASES
from scripts.config.models import PHASES
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.measure.timing.machine_limits import COMPUTE, MEMORY
from scripts.measure.timing.ratios import VERDICTS
from scripts.measure.verify import verification
from scripts.results import remedied
from scripts.supervise import outcome


@dataclass(frozen=True)
class Kind:
    """A kind of value: its name for readers, its type, and its pandas dtype."""

    words: str
    type: Any
    dtype: str


TEXT = Kind("text", str, "object")
INTEGER = Kind(
    "integer", Annotated[int, msgspec.Meta(le=2**63 - 1)], "Int64"
)  # pandas' own, as an integer may be missing
NUMBER = Kind("number", float, "float64")
FLAG = Kind("true or false", bool, "boolean")
LIST = Kind("list", list, "object")
OBJECT = Kind("object", dict, "object")


@dataclass(frozen=True)
class Field:
    """One value of a record, and a column of latency.csv if `column` names one.

    `path`: its place in a line of results.jsonl, such as `latency.ms`; `runs[].total_s` is a value of every object of a
    list, and `<runtime>` in a name represents any text. A column that is not a single value of the record has a `value` instead, a function of the record. `nullable`: it
    may be null. `optional`: it may be left out. `checks`: the bounds of the value
    (msgspec.Meta), or its type where that is narrower than that of the kind; columns.CLOSED: an object, or each
    object of a list, has no values but those that are declared. `varies`: another run of the same program on the same machine may have another value.
    """

    path: str
    kind: Kind
    description: str
    unit: str = ""
    column: str = ""
    nullable: bool = False
    optional: bool = False
    varies: bool = False
    checks: Any = None
    value: Callable[[Mapping[str, Any]], Any] | None = None

    def value_in(self, record: Mapping[str, Any]) -> Any:
        """The value for the CSV, or None. A list becomes one text."""
        value = self.value(record) if self.value else lookup(record, self.path)
        if isinstance(value, list):
            value = "; ".join(map(str, value))
        return None if value == "" else value


def lookup(record: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None if a part of the path is missing."""
    value: Any = record
    for key in path.split("."):
        value = (value or {}).get(key)
    return value


def columns(table: Iterable[Field]) -> list[Field]:
    """The columns of latency.csv, in order."""
    return [field for field in table if field.column]


def chosen(table: Iterable[Field], *paths: str) -> tuple[Field, ...]:
    """The fields at these paths, in the order of the paths, for another table that has them too.

    Raises KeyError for a path that the table does not have.
    """
    by_path = {field.path: field for field in table if field.path}
    return tuple(by_path[path] for path in paths)


def as_row(record: Mapping[str, Any], table: Iterable[Field]) -> dict[str, Any]:
    """The flat CSV row of a record, by column."""
    return {field.column: field.value_in(record) for field in columns(table)}


def dtypes(table: Iterable[Field]) -> dict[str, str]:
    """The pandas dtype of each column."""
    return {field.column: field.kind.dtype for field in columns(table)}


def names(table: Iterable[Field], section: str) -> list[str]:
    """The names of the fields directly in a section: `load_ms` of `run.load_ms`."""
    return [
        field.path.rpartition(".")[2] for field in table if field.path.rpartition(".")[0] == section
    ]


def pattern(path: str) -> str:
    """A regular expression for the paths that a path represents."""
    return f"^{'.+'.join(map(re.escape, re.split('<[a-z]+>', path)))}$"


def form(table: Sequence[Field], above: str = "", needed: Mapping[str, Any] | None = None, closed: bool = False) -> Any:  # fmt: skip
    """The class, for msgspec, of a section of records, or of whole ones. `closed`: whether it has no other values.

    `needed`: what a reader needs of a record that an older version or another tool may have written, with the types of these
    values by their paths. Of any other value, only the type is checked, and it may be missing.
    """
    members: list[Any] = []
    for field in table:
        parent, _, name = field.path.rpartition(".")
        if not field.path or parent != above or "<" in name:
            continue
        kind = (needed or {}).get(field.path) or _type(table, field, needed)
        is_needed = not field.optional
        if needed is not None:
            has_needed = any(f"{path}.".startswith(f"{field.path}.") for path in needed)
            is_needed = has_needed and not (field.nullable and field.kind is OBJECT)
        if field.nullable or (needed is not None and not is_needed):
            kind |= None
        members.append((name, kind) if is_needed else (name, kind, None))
    members.sort(key=len)  # those with a default are last
    return msgspec.defstruct("Record", members, forbid_unknown_fields=closed)


def _type(table: Sequence[Field], field: Field, needed: Mapping[str, Any] | None) -> Any:
    """The type of a value that is there, and not null."""
    is_list, bounds = field.kind is LIST, None
    kind, inside = field.kind.type, f"{field.path}[]" if is_list else field.path
    if isinstance(field.checks, msgspec.Meta):
        bounds = field.checks
    elif field.checks is not None and (needed is None or get_origin(field.checks) is not Literal):
        kind = field.checks
    if any(other.path.rpartition(".")[0] == inside for other in table):
        closed = bool(bounds and (bounds.extra or {}).get("closed"))
        inner = form(table, inside, needed, closed and (needed is None or is_list))
        kind = GenericAlias(list, inner) if is_list else inner
    return Annotated[kind, bounds] if bounds else kind


def checker(table: Sequence[Field], section: str = "") -> Callable[[Any], str]:
    """A function that returns how a record, or a section of one, differs from its declaration; "" if it does not."""
    known = next((field for field in table if section and field.path == section), None)
    kind = _type(table, known, None) if known else form(table, closed=True)
    whole = kind | None if known and known.nullable else kind
    patterns = [
        (field.path.rpartition(".")[0], re.compile(pattern(field.path)), _type(table, field, None) | None)
        for field in table
        if "<" in field.path and not section
    ]  # fmt: skip

    def problem(value: Any) -> str:
        where = ""
        try:
            msgspec.convert(value, whole)
            for parent, path, kind in patterns:
                for name, inner in (lookup(value, parent) or {}).items():
                    if path.match(where := f"{parent}.{name}"):
                        msgspec.convert(inner, kind)
        except msgspec.ValidationError as error:
            return f"{error} - at `$.{where}`" if where else str(error)
        return ""

    return problem


COLUMN = "speedup_vs_"
"""How the names of speed-ups begin; the runtime follows."""
POSITIVE = msgspec.Meta(gt=0)
FROM_0 = msgspec.Meta(ge=0)
FROM_1 = msgspec.Meta(ge=1)
NOT_EMPTY = msgspec.Meta(min_length=1)
CLOSED = msgspec.Meta(extra={"closed": True})
TEXTS = dict[str, str]
MILLISECONDS = list[Annotated[float, POSITIVE]]
DEVICE_KINDS = tuple(
    dict.fromkeys((*(backend.device_kind for backend in BACKENDS.values()), *plugins.DEVICES))
)
OF_BATCHES = [stage.folder for stage in stages.STAGES.values() if stage.is_batch]
"""The stages of operator problems."""
NOT_OF_ROWS = ("machine_limits", "trace", "dumps", "profile", "code", "compile_time", *OF_BATCHES)
"""Stages that no row depends on."""
STAGES = [folder for folder in stages.folders() if folder not in NOT_OF_ROWS]


def _steps(right: str, compared: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Return a getter of `16/16`: steps that were right, and steps compared; None if none were compared."""

    def steps(record: Mapping[str, Any]) -> str | None:
        verification = record["verification"]
        if verification.get(compared) is None:
            return None
        return f"{verification[right]}/{verification[compared]}"

    return steps


def options_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that the model's functions were called with; those of its entry, if the reference failed."""
    resolved: Mapping[str, Any] = record["reference"].get("resolved")
    return resolved or record["model"].get("options") or {}


def _option(name: str, *types: type) -> Callable[[Mapping[str, Any]], Any]:
    """Return a getter of an option; None if it has none of these types: a user's model file may use the name for something else."""

    def value(record: Mapping[str, Any]) -> Any:
        option = options_of(record).get(name)
        fits = type(option) in types and (type(option) is not int or abs(option) < 2**63)
        return option if fits else None

    return value


def _size(record: Mapping[str, Any]) -> str | None:
    """A size as text: a name, or a number that is used as a name."""
    size = _option("size", str, int)(record)
    return None if size is None else str(size)


def _cold(key: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: record["runs"][0].get(key) if record["runs"] else None


def _left_out(record: Mapping[str, Any]) -> str | None:
    parts = [(record[section] or {}).get("left_out") or {} for section in _LEFT_OUT]
    return "; ".join(f"{name}: {why}" for part in parts for name, why in part.items()) or None


_LEFT_OUT = ("reference", "export", "run")
"""The sections of a record whose stages compute more than a row needs."""


def _compile_s(record: Mapping[str, Any]) -> float | None:
    """Seconds of iree-compile, or of all compilations of a baseline's runtime."""
    return (record["compile"] or {}).get("compile_s", record["run"]["compile_s"])


def speedup_over(base: str) -> tuple[Field, ...]:
    """The speed-up over a runtime, with its interval."""
    name, ratio = f"{COLUMN}{base}", f"latency.{COLUMN}{base}"
    return (
        Field(ratio, NUMBER, f"Latency of {base} / latency of this cell; null without a comparable row or an interval within ±50 % (`doubt` says why).", unit="ratio", column=name, nullable=True, varies=True),
        Field(f"{ratio}_low", NUMBER, "Lower end of its 99 % interval.", unit="ratio", column=f"{name}_low", nullable=True, varies=True),
        Field(f"{ratio}_high", NUMBER, "Its upper end.", unit="ratio", column=f"{name}_high", nullable=True, varies=True),
    )  # fmt: skip


def with_bases(table: Sequence[Field], records: Iterable[Mapping[str, Any]]) -> list[Field]:
    """The columns with those of the speed-ups over further baselines of these records, after the other speed-ups."""
    names = dict.fromkeys(key for record in records for key in record["latency"] or ())
    bases = [n.removeprefix(COLUMN) for n in names if n.startswith(COLUMN) and f"{n}_low" in names]
    further = [field for base in bases if base not in BASES for field in speedup_over(base)]
    last = max(at for at, field in enumerate(table) if field.column.startswith(COLUMN))
    return [*table[: last + 1], *further, *table[last + 1 :]]


COLUMNS = (
    Field("model.name", TEXT, "Name of the model.", column="model"),
    Field("model.suite", TEXT, "Where the model is from: `vmfbench` (`models/`), `user` (another file), or a suite.", column="suite"),
    Field("experiment.phase", TEXT, "Phase of a language model; null for other models.", column="phase", nullable=True, checks=Literal[PHASES]),
    Field("experiment.test", TEXT, "The forward pass (`eval`) or a training step.", column="test", checks=Literal[choices.TESTS]),
    Field("experiment.dtype", TEXT, "Type of the model's weights and floating-point inputs.", column="dtype", checks=Literal[choices.DTYPES]),
    Field("experiment.precision", TEXT, "Of a baseline: `none` is the model's dtype, `fp16` and `bf16` cast weights and inputs, `amp-*` is autocast.", column="precision", checks=Literal[choices.PRECISIONS]),
    Field("experiment.batch_size", INTEGER, "Batch size of the inputs.", unit="samples", column="batch_size", checks=FROM_1),
    Field("", TEXT, "The option `size`.", column="size", value=_size),
    Field("reference.layers", INTEGER, "`num_hidden_layers` of a model of transformers.", unit="count", column="layers", optional=True, checks=FROM_1),
    Field("reference.vocab_size", INTEGER, "Its size of the vocabulary.", unit="tokens", column="vocab_size", optional=True, checks=FROM_1),
    Field("", INTEGER, "The option `seq_len`: length of the inputs; of a decode, of the prompt before it.", unit="tokens", column="seq_len", value=_option("seq_len", int)),
    Field("", INTEGER, "The option `cache_len`: length of a decode's cache.", unit="tokens", column="cache_len", value=_option("cache_len", int)),
    Field("", FLAG, "Whether the weights are pretrained, not random.", column="pretrained", value=_option("pretrained", bool)),
    Field("", INTEGER, "Seed of weights and inputs.", unit="number", column="seed", value=_option("seed", int)),
    Field("experiment.runtime", TEXT, "`iree`, or the baseline's runtime.", column="runtime"),
    Field("experiment.frontend", TEXT, "Frontend that lowered the model; null for a baseline.", column="frontend", nullable=True),
    Field("experiment.target", TEXT, "Target of an IREE cell; name of a baseline, if it is not that of its runtime. With several numbers of threads: `llvm-cpu+2-threads`.", column="target", nullable=True),
    Field("experiment.toolchain", TEXT, "`pinned`, or another [toolchain](toolchains.md); null for a baseline.", column="toolchain", nullable=True, optional=True),
    Field("experiment.backend", TEXT, "Backend of iree-compile; null for a baseline.", column="backend", nullable=True),
    Field("experiment.opt_level", TEXT, "`--iree-opt-level`.", column="opt_level", optional=True, checks=Literal[OPT_LEVELS]),
    Field("experiment.flags", LIST, "Further flags of iree-compile.", column="flags", optional=True, checks=list[str]),
    Field("experiment.tuned", TEXT, "File of the [tuning result](tuning.md#use-the-results) that has set them.", column="tuned", nullable=True, optional=True),
    Field("experiment.imported", TEXT, "Machine of a row that was [measured elsewhere](reproducers.md#measure-elsewhere).", column="imported", nullable=True, optional=True),
    Field("experiment.device", TEXT, "Kind of device; latencies are compared only within one kind.", column="device", checks=Literal[DEVICE_KINDS]),
    Field("run.device_name", TEXT, "Name of the processor, or of the device by its driver.", column="device_name", nullable=True),
    Field("run.threads", INTEGER, "CPU threads of the runtime; null for other devices.", unit="threads", column="threads", nullable=True),
    Field("outcome.status", TEXT, "How the cell ended.", column="status", checks=Literal[outcome.STATUSES]),
    Field("outcome.stage", TEXT, "First stage that failed, else the last one.", column="stage", checks=Literal[tuple(STAGES)]),
    Field("outcome.reason", TEXT, "[Class of the failure](troubleshooting.md).", column="reason"),
    Field("outcome.detail", TEXT, "The line of the log that says what went wrong, and [the cause if it is known](fuzzing.md#what-it-found).", column="detail"),
    Field("outcome.blocked_by", TEXT, "Stage and cell of the failure that kept later stages from running.", column="blocked_by"),
    Field("remedy.name", TEXT, "[Remedy](troubleshooting.md#remedies) that compiled the cell after the requested compilation failed. If it took the program of another frontend, the row counts as failed in statistics per lowering path.", column="remedy", nullable=True),
    Field("", TEXT, "Frontend whose program was compiled: of the row or its remedy.", column="frontend_used", value=remedied.frontend_used),
    Field("remedy.first.reason", TEXT, "Reason why the requested compilation failed, if remedies were tried.", column="first_error"),
    Field("remedy.first.detail", TEXT, "Its detail.", column="first_error_detail"),
    Field("", TEXT, "Remedies that were tried, each with the reason of its failure.", column="tried", value=remedied.tried),
    Field("verification.code", TEXT, "[Result](#verification) of the comparison with the golden outputs.", column="verification_code", checks=Literal[tuple(verification.CODES)]),
    Field("verification.max_abs_error", NUMBER, "Largest absolute difference from the golden outputs; null if infinite (a NaN).", unit="of the output", column="max_abs_error", nullable=True, optional=True, checks=FROM_0),
    Field("verification.rmse_vs_fp64", NUMBER, "Root mean square error against float64 outputs; null if infinite.", unit="of the output", column="rmse_vs_fp64", nullable=True, optional=True, checks=FROM_0),
    Field("", TEXT, "Steps whose token is that of `generate()`, of those compared: `16/16`.", column="greedy_tokens", value=_steps("greedy_tokens", "greedy_expected")),
    Field("", TEXT, "Training steps whose loss is eager's, of those compared: `10/10`.", column="train_steps", value=_steps("train_steps", "train_expected")),
    Field("latency.ms", NUMBER, "Time of an undisturbed call: the 5 % quantile of a process, as geometric mean over processes.", unit="ms", column="latency_ms", varies=True, checks=POSITIVE),
    Field("latency.low_ms", NUMBER, "Lower end of its 99 % interval.", unit="ms", column="latency_low_ms", nullable=True, varies=True, checks=POSITIVE),
    Field("latency.high_ms", NUMBER, "Its upper end.", unit="ms", column="latency_high_ms", nullable=True, varies=True, checks=POSITIVE),
    Field("latency.p50_ms", NUMBER, "Median of all calls, disturbed ones too.", unit="ms", column="p50_ms", varies=True, checks=POSITIVE),
    Field("latency.p90_ms", NUMBER, "Their 90th percentile; null for fewer than 64 calls.", unit="ms", column="p90_ms", nullable=True, varies=True, checks=POSITIVE),
    Field("latency.p99_ms", NUMBER, "Their 99th percentile; null for fewer than 662 calls.", unit="ms", column="p99_ms", nullable=True, varies=True, checks=POSITIVE),
    Field("latency.generations", INTEGER, "Processes that count, one after the other.", unit="count", column="generations", varies=True, checks=FROM_1),
    Field("latency.turns", INTEGER, "Their slices of calls, in turns with the other rows of the model.", unit="count", column="turns", varies=True, checks=FROM_1),
    *(field for base in BASES for field in speedup_over(base)),
    Field("latency.verdict", TEXT, "Comparison with the faster of eager and inductor (ONNX: ONNX Runtime; MLIR: XLA): `faster` or `slower` (the interval excludes 1), `same` (it is within ±5 %), `undecided`.", column="verdict", nullable=True, varies=True, checks=Literal[VERDICTS]),
    Field("latency.dynamic_cost", NUMBER, "Latency of a program for [all sizes](dynamic.md) / latency of the program for this size alone.", unit="ratio", column="dynamic_cost", nullable=True, optional=True, varies=True),
    Field("latency.dynamic_cost_low", NUMBER, "Lower end of its 99 % interval.", unit="ratio", column="dynamic_cost_low", nullable=True, optional=True, varies=True),
    Field("latency.dynamic_cost_high", NUMBER, "Its upper end.", unit="ratio", column="dynamic_cost_high", nullable=True, optional=True, varies=True),
    Field("latency.control_ratio", NUMBER, "Ratio of two processes of one program in the same turns. If its interval excludes 1, the machine was too noisy.", unit="ratio", column="control_ratio", nullable=True, varies=True),
    Field("latency.control_low", NUMBER, "Lower end of its 99 % interval.", unit="ratio", column="control_low", nullable=True, varies=True),
    Field("latency.control_high", NUMBER, "Its upper end.", unit="ratio", column="control_high", nullable=True, varies=True),
    Field("latency.doubt", TEXT, "Why ratios of this row are empty or have a wide interval.", column="doubt", varies=True),
    Field("latency.ttft_ms", NUMBER, "Time to the first token: the latency of a prefill.", unit="ms", column="ttft_ms", optional=True, varies=True, checks=POSITIVE),
    Field("latency.tokens_per_s", NUMBER, "New tokens per second of the batch, of a decode.", unit="tokens/s", column="tokens_per_s", optional=True, varies=True, checks=POSITIVE),
    Field("work.gflop", NUMBER, "1e9 floating-point operations of a call, by torch.utils.flop_counter: a multiply-add is two; operators without a formula are 0 (`reference.work.no_formula`).", unit="GFLOP", column="gflop", nullable=True, checks=FROM_0),
    Field("work.moved_bytes", INTEGER, "Bytes of weights, inputs and outputs, each once; of an embedding table, the rows that are read. Null for a baseline of another precision.", unit="bytes", column="moved_bytes", nullable=True, checks=FROM_0),
    Field("work.gflop_per_s", NUMBER, "`gflop` / latency.", unit="GFLOP/s", column="gflop_per_s", nullable=True, varies=True, checks=FROM_0),
    Field("work.gb_per_s", NUMBER, "`moved_bytes` / latency, in 1e9 bytes per second.", unit="GB/s", column="gb_per_s", nullable=True, varies=True, checks=FROM_0),
    Field("work.limit_share", NUMBER, "The time that the device needs [at least](limits.md) for the FLOPs or the bytes / latency.", unit="ratio", column="limit_share", nullable=True, varies=True, checks=FROM_0),
    Field("work.limit_share_low", NUMBER, "Lower end of its 99 % interval, which is that of the latency.", unit="ratio", column="limit_share_low", nullable=True, varies=True, checks=FROM_0),
    Field("work.limit_share_high", NUMBER, "Its upper end.", unit="ratio", column="limit_share_high", nullable=True, varies=True, checks=FROM_0),
    Field("work.limited_by", TEXT, "Which of the two takes longer.", column="limited_by", nullable=True, varies=True, checks=Literal[MEMORY, COMPUTE]),
    Field("work.no_limit_share", TEXT, "Why there is no `limit_share`, or why one above 1 is wrong.", column="no_limit_share", nullable=True, varies=True),
    Field("run.load_ms", NUMBER, "Time to load module and weights.", unit="ms", column="load_ms", nullable=True, varies=True),
    Field("run.first_call_ms", NUMBER, "First call until outputs are on the host; of a baseline with just-in-time compilation.", unit="ms", column="first_call_ms", nullable=True, varies=True),
    Field("export.export_s", NUMBER, "Time to export the program.", unit="s", column="export_s", optional=True, varies=True),
    Field("", NUMBER, "Cold run: time on the host, without compiling (PyTorch/XLA).", unit="s", column="trace_s", varies=True, value=_cold("trace_s")),
    Field("", NUMBER, "Time of iree-compile, or of a baseline's compilations before timing.", unit="s", column="compile_s", varies=True, value=_compile_s),
    Field("compile.cpu_s", NUMBER, "CPU time of iree-compile, all threads. Other work on the machine changes it less than `compile_s`.", unit="s", column="compile_cpu_s", optional=True, varies=True),
    Field("compile.cached", FLAG, "Whether the module is from the [shared folder](disk.md#shared-compilations). Then iree-compile has no time and memory.", column="cached", optional=True, varies=True),
    Field("", NUMBER, "Cold run: time of executions as counted by the runtime (PyTorch/XLA).", unit="s", column="execute_s", varies=True, value=_cold("execute_s")),
    Field("compile.vmfb_bytes", INTEGER, "Size of the compiled module, without weights.", unit="bytes", column="vmfb_bytes", optional=True),
    Field("compile.dispatch_count", INTEGER, "Dispatches in the compiled program.", unit="count", column="dispatch_count", optional=True),
    Field("compile.transient_bytes", INTEGER, "Memory that the compiler plans for intermediate results and packed weights.", unit="bytes", column="transient_bytes", optional=True),
    Field("compile.constant_bytes", INTEGER, "Constants of the program that are no parameters.", unit="bytes", column="constant_bytes", optional=True),
    Field("compile.static_device", TEXT, "GPU that the target stands for, of the [static columns](gpu_static.md); they are of the compiled code, not measured.", column="static_device", optional=True),
    Field("compile.static_spills", INTEGER, "Bytes of registers that a thread keeps in memory, of all its dispatches.", unit="bytes", column="static_spills", optional=True, checks=FROM_0),
    Field("compile.static_occupancy", NUMBER, "Share of the waves of a compute unit that the dispatches can fill, weighted by their FLOPs.", unit="ratio", column="static_occupancy", optional=True, checks=FROM_0),
    Field("compile.static_matrix_share", NUMBER, "Share of the FLOPs of products in dispatches that use matrix units.", unit="ratio", column="static_matrix_share", optional=True, checks=FROM_0),
    Field("compile.static_bound_ms", NUMBER, "Time that the dispatches need at least, one after the other, with operands from memory. No latency.", unit="ms", column="static_bound_ms", optional=True, checks=FROM_0),
    Field("compile.max_rss_mb", NUMBER, "Peak resident memory of iree-compile.", unit="MiB", column="compile_rss_mb", optional=True, varies=True),
    Field("run.max_rss_mb", NUMBER, "Peak resident memory of the process that was timed.", unit="MiB", column="run_rss_mb", nullable=True, varies=True),
    Field("run.device_memory_mb", NUMBER, "Peak memory of a baseline's tensors on a device with its own memory.", unit="MiB", column="device_memory_mb", nullable=True, varies=True),
    Field("latency.leaked_bytes", INTEGER, "Private memory that each call [leaks](timing.md#leaks); null after too few calls to tell.", unit="bytes", column="leaked_bytes", nullable=True, optional=True, varies=True, checks=FROM_0),
    Field("versions.torch", TEXT, "Version of PyTorch without its build; the pinned one if the stage did not run.", column="torch_version", nullable=True),
    Field("versions.frontend", TEXT, "Version of the frontend's package.", column="frontend_version", nullable=True),
    Field("versions.torch_xla", TEXT, "Version of PyTorch/XLA, of its baselines.", column="torch_xla_version", nullable=True, optional=True),
    Field("versions.iree", TEXT, "Version of IREE's packages, or what the compiler of a local build prints.", column="iree_version", nullable=True),
    Field("versions.iree_build", TEXT, "Version and commit that iree-compile prints; null if the environment was made by conda.", column="iree_build", nullable=True, optional=True),
    Field("export.rewrites", LIST, "[Rewrites](configuration.md#rewrites) of the program, or of the graph of a baseline with `rewrites`.", column="rewrites", optional=True, checks=list[str]),
    Field("reference.inputs_from", TEXT, "What the inputs were made of.", column="inputs_from", optional=True),
    Field("reference.golden_from", TEXT, "What made the golden results: `eager`, `onnxruntime`, `xla`, `iree-O0` with the reason why not `xla`, or a file.", column="golden_from", optional=True),
    Field("reference.weights_bytes", INTEGER, "Size of the weights.", unit="bytes", column="weights_bytes", optional=True, checks=FROM_1),
    Field("reference.quantization.float_bytes", INTEGER, "Size of the weights of the float model that a quantized one approximates.", unit="bytes", column="float_weights_bytes", optional=True),
    Field("reference.quantization.sqnr_db", NUMBER, "Signal to quantization noise of the outputs against it.", unit="dB", column="quantization_sqnr_db", nullable=True, optional=True),
    Field("", TEXT, "Further values that could not be computed, and why: `float64 reference: AssertionError: …`.", column="left_out", value=_left_out),
    Field("outcome.fingerprint", TEXT, "Version of the stage's code that ran (`version` in scripts/config/stages.py).", column="fingerprint"),
    Field("outcome.stale", FLAG, "Whether an ok cell was measured by other code than this checkout's; `--config retry=stale` measures it again.", column="stale", optional=True),
    Field("outcome.log", TEXT, "Log of the stage.", column="log"),
)  # fmt: skip
"""The columns of results/latency.csv, in order."""

OTHERS = (
    Field("model", OBJECT, "The model."),
    Field("model.file", TEXT, "Its file: Python, an exported program (`.pt2`), or `config.json` of a folder of Hugging Face."),
    Field("model.options", OBJECT, "Options that its functions were called with."),
    Field("experiment", OBJECT, "What was run, and how."),
    Field("experiment.matmul_precision", TEXT, "Precision of float32 products, of a baseline.", optional=True, checks=Literal[choices.MATMUL_PRECISIONS]),
    Field("experiment.optimizer", OBJECT, "Optimizer of a training step (`name`, `lr`, and the other arguments that `train` sets).", nullable=True, optional=True),
    Field("experiment.xla_flags", TEXT, "`XLA_FLAGS` of a baseline.", nullable=True),
    Field("experiment.compile", OBJECT, "Arguments of torch.compile that a baseline's entry sets.", optional=True),
    Field("experiment.rewrites", TEXT, "Rewrites that a baseline's entry asks for: `speed`.", optional=True),
    Field("experiment.device_uri", TEXT, "Device URI of IREE's runtime, or the device of a baseline."),
    Field("experiment.exporter", TEXT, "Exporter of the frontend, of an IREE cell.", optional=True),
    Field("experiment.exporter_options", OBJECT, "Options of the exporter, of an IREE cell.", optional=True),
    Field("experiment.arch", TEXT, "Architecture that the program was compiled for, of an IREE cell.", optional=True),
    Field("reference", OBJECT, "What the reference stage found out about the model; empty where it failed.", checks=CLOSED),
    Field("reference.resolved", OBJECT, "Options that the model's functions were called with, by name: the entry's, and the functions' defaults for the rest.", optional=True),
    Field("reference.digests", OBJECT, "What a model is made of: `vmfbench compare` compares latencies only where these agree.", optional=True, checks=CLOSED),
    Field("reference.digests.weights", TEXT, "Size and CRC-32 of the archive of its weights.", optional=True),
    Field("reference.digests.inputs", TEXT, "The same of its inputs.", optional=True),
    Field("reference.digests.code", TEXT, "Hash of its Python file and of the files beside it or in `models/` that it imports, without comments; of another file, the hash of its bytes.", optional=True),
    Field("reference.quantization", OBJECT, "How far a quantized model is from its float model.", optional=True),
    Field("reference.work", OBJECT, "What a call of the model has to do.", optional=True, checks=CLOSED),
    Field("reference.work.flop", INTEGER, "Floating-point operations.", unit="FLOP", checks=FROM_0),
    Field("reference.work.weight_bytes", INTEGER, "Bytes of weights that are read.", unit="bytes", checks=FROM_0),
    Field("reference.work.input_bytes", INTEGER, "Bytes of inputs that are read.", unit="bytes", checks=FROM_0),
    Field("reference.work.output_bytes", INTEGER, "Bytes of outputs that are written.", unit="bytes", checks=FROM_0),
    Field("reference.work.no_formula", OBJECT, "Calls of operators without a formula for FLOPs, by operator.", checks=dict[str, Annotated[int, FROM_1]]),
    Field("reference.left_out", OBJECT, "Values that the reference (for training, the gradients stage) could not compute, and why.", optional=True, checks=TEXTS),
    Field("imported", OBJECT, "Where an imported row was measured.", optional=True, checks=CLOSED),
    Field("imported.system", TEXT, "Operating system and architecture."),
    Field("imported.cores", INTEGER, "Cores that the process may use.", unit="count", checks=FROM_1),
    Field("work", OBJECT, "The FLOPs and bytes of a call, and how close the row is to what its device can do at most.", checks=CLOSED),
    Field("work.limit_ms", NUMBER, "The time that the device needs at least.", unit="ms", nullable=True, varies=True, checks=FROM_0),
    Field("outcome", OBJECT, "How the cell ended: the outcome of the first stage that failed.", checks=CLOSED),
    Field("outcome.command", TEXT, "Command of that stage, to be run in the folder of the Snakefile."),
    Field("verification", OBJECT, "The comparison with the golden outputs."),
    Field("verification.detail", TEXT, "What differs, and by how much.", optional=True),
    Field("verification.golden_rmse_vs_fp64", NUMBER, "Root mean square error of eager itself against the float64 outputs.", unit="of the output", nullable=True, optional=True, checks=FROM_0),
    Field("verification.tol", NUMBER, "Absolute and relative tolerance that was applied.", unit="of the output", optional=True, checks=FROM_0),
    Field("verification.cosine", FLAG, "Whether cosine similarity was used instead of the RMSE rule.", optional=True),
    Field("verification.noise", NUMBER, "Root mean square difference allowed by a tolerance of the kind `noise`.", unit="golden's RMS", nullable=True, optional=True, checks=POSITIVE),
    Field("verification.greedy_tokens", INTEGER, "Steps of a language model that gave the token of `generate()`.", unit="count", nullable=True, optional=True, checks=FROM_0),
    Field("verification.train_steps", INTEGER, "Successive training steps whose loss was eager's.", unit="count", nullable=True, optional=True, checks=FROM_0),
    Field("verification.train_expected", INTEGER, "Successive training steps that were compared.", unit="count", nullable=True, optional=True, checks=FROM_1),
    Field("verification.losses", LIST, "Loss of each of these training steps; null where it is infinite or NaN.", nullable=True, optional=True, checks=list[float | None]),
    Field("verification.golden_losses", LIST, "The same in eager mode.", nullable=True, optional=True, checks=list[float]),
    Field("verification.greedy_expected", INTEGER, "Steps of a language model that were compared.", unit="count", nullable=True, optional=True, checks=FROM_1),
    Field("latency", OBJECT, "The timing; null unless the verification passed.", nullable=True),
    Field("latency.speedup_vs_<runtime>", NUMBER, "The same as `speedup_vs_eager` for every other runtime of a baseline that has a latency in the run, such as `speedup_vs_openvino`, each with `_low` and `_high`. A baseline with own arguments of torch.compile or with rewrites counts as a runtime with the name of its entry. The CSV of such a run has columns of these names.", unit="ratio", nullable=True, optional=True, varies=True),
    Field("latency.calls", INTEGER, "Calls that count.", unit="count", varies=True, checks=FROM_1),
    Field("latency.values_ms", LIST, "Latency in each generation: the 5 % quantile of the calls of a process.", unit="ms", varies=True, checks=Annotated[MILLISECONDS, NOT_EMPTY]),
    Field("latency.uncounted_ms", LIST, "Latency in each generation that does not count, because the machine was slower; no other value is made from these.", unit="ms", optional=True, varies=True, checks=MILLISECONDS),
    Field("latency.anchor_ms", LIST, "That of the anchor in the same generations; empty if the group has none.", unit="ms", varies=True, checks=MILLISECONDS),
    Field("latency.anchor", TEXT, "The row through which this one is compared with rows of other runs: eager, with its version.", nullable=True),
    Field("latency.group", TEXT, "What was timed in the same turns: rows with the same text are compared by generation.", varies=True),
    Field("latency.started", NUMBER, "When the timing of the group began, since the epoch.", unit="s", varies=True),
    Field("latency.noise", NUMBER, "How much the logarithms of latencies typically vary from process to process beside what the rows of the group have in common: a standard deviation.", unit="ratio", nullable=True, optional=True, varies=True),
    Field("latency.foreign", NUMBER, "Time of other processes during the turns, as a share of that of all cores.", unit="ratio", varies=True),
    Field("latency.steal", NUMBER, "The same for other guests of the hypervisor.", unit="ratio", varies=True),
    Field("latency.load", NUMBER, "Highest load average of the machine during the turns, over a minute; 0 where it was not recorded.", unit="processes", optional=True, varies=True, checks=FROM_0),
    Field("latency.unknown", LIST, "Baselines whose ratio is not known although both have a latency: it has no interval, or one wider than ±50 %.", optional=True, varies=True, checks=list[str]),
    Field("runs", LIST, "Runs of the verification: the cold run, and for a baseline a warm one; null where there was none.", nullable=True, checks=msgspec.Meta(min_length=1, extra={"closed": True})),
    Field("runs[].total_s", NUMBER, "Wall time of all calls of the run, the device's work included.", unit="s", varies=True, checks=POSITIVE),
    Field("runs[].iterations", INTEGER, "Calls of the run.", unit="count", varies=True, checks=FROM_1),
    Field("runs[].trace_s", NUMBER, "Time on the host, without compiling; null if the runtime does not count it.", unit="s", nullable=True, varies=True),
    Field("runs[].compile_s", NUMBER, "Time of compilations as counted by the runtime.", unit="s", nullable=True, varies=True, checks=FROM_0),
    Field("runs[].compile_count", INTEGER, "Compilations.", unit="count", nullable=True, checks=FROM_0),
    Field("runs[].execute_s", NUMBER, "Time of executions as counted by the runtime.", unit="s", nullable=True, varies=True, checks=FROM_0),
    Field("runs[].execute_count", INTEGER, "Executions.", unit="count", nullable=True, checks=FROM_0),
    Field("run", OBJECT, "The measurement without its latency; every value is null if nothing was measured."),
    Field("run.compile_s", NUMBER, "All that a baseline's runtime compiled until its calls were warm.", unit="s", nullable=True, varies=True),
    Field("run.command", TEXT, "Command of iree-benchmark-module that makes the same calls; empty for a baseline.", nullable=True),
    Field("run.profile", OBJECT, "Profiles of `measure.collect`, by kind.", nullable=True),
    Field("run.left_out", OBJECT, "Values that the verification could not compute, and why.", nullable=True, optional=True, checks=TEXTS),
    Field("run.stage_rss_mb", NUMBER, "Peak resident memory of all processes of the stage together.", unit="MiB", nullable=True, varies=True),
    Field("run.seconds", NUMBER, "Wall time of the stage.", unit="s", nullable=True, varies=True),
    Field("export", OBJECT, "The export of an IREE cell; empty where it failed, null for a baseline. For a baseline with `rewrites`, only their names.", nullable=True),
    Field("export.steps_s", OBJECT, "Time of each step of the export, by step.", unit="s", optional=True, varies=True),
    Field("export.program_bytes", INTEGER, "Size of the program.", unit="bytes", optional=True),
    Field("export.left_out", OBJECT, "What could not be found out about the program, and why.", optional=True, checks=TEXTS),
    Field("export.dimensions", LIST, "Open dimensions of a program for all sizes: the `axis` of the input at `position`, the `option` that sets it, and the sizes that are allowed.", optional=True, checks=list[dict]),
    Field("export.frontend_version", TEXT, "Version of the frontend's package that exported it.", optional=True),
    Field("export.torch_version", TEXT, "Version of PyTorch that exported it, with its build.", optional=True),
    Field("compile", OBJECT, "The compilation of an IREE cell; empty where it failed, null for a baseline.", nullable=True),
    Field("compile.compile_s", NUMBER, "Time of iree-compile.", unit="s", optional=True, varies=True),
    Field("compile.added_flags", LIST, "Flags of iree-compile that the program needs ([float64](models.md#float64)), or that make it faster on [this CPU](performance.md#on-an-intel-xeon).", optional=True, checks=list[str]),
    Field("remedy", OBJECT, "What was tried where the compilation of an IREE cell failed; null where it did not, where nothing was to be tried, and for baselines.", nullable=True, checks=CLOSED),
    Field("remedy.frontend", TEXT, "Frontend of the program that the remedy compiled.", optional=True),
    Field("remedy.opt_level", TEXT, "Its `--iree-opt-level`.", optional=True, checks=Literal[OPT_LEVELS]),
    Field("remedy.flags", LIST, "Its further flags of iree-compile.", optional=True, checks=list[str]),
    Field("remedy.first", OBJECT, "The failure of what was asked for.", optional=True, checks=CLOSED),
    Field("remedy.first.status", TEXT, "Its status.", checks=Literal[outcome.STATUSES]),
    Field("remedy.first.log", TEXT, "Its log."),
    Field("remedy.tried", LIST, "The attempts, in order; the last one succeeded if the row has a remedy.", checks=list[dict]),
    Field("remedy.tried[].remedy", TEXT, "Name of the remedy."),
    Field("remedy.tried[].frontend", TEXT, "Frontend of the program that it compiled."),
    Field("remedy.tried[].opt_level", TEXT, "Its `--iree-opt-level`.", checks=Literal[OPT_LEVELS]),
    Field("remedy.tried[].flags", LIST, "Its further flags of iree-compile.", checks=list[str]),
    Field("remedy.tried[].status", TEXT, "How it ended; `skipped` if it was not run.", checks=Literal[outcome.STATUSES]),
    Field("remedy.tried[].reason", TEXT, "Why it failed, or was not run."),
    Field("remedy.tried[].detail", TEXT, "The line of its log that says what went wrong."),
    Field("remedy.tried[].seconds", NUMBER, "Its wall time; 0 if it was not run, or its failure was known.", unit="s", varies=True, checks=FROM_0),
    Field("versions", OBJECT, "Versions of packages, by package."),
    Field("versions.<package>", TEXT, "Version of another package that an exporter or runtime declares.", nullable=True, optional=True),
    Field("versions.python", TEXT, "Version of Python of the environment of the row's last stage; left out where it was not recorded.", optional=True),
    Field("versions.torch_build", TEXT, "Build of PyTorch (`cu132`, `cpu`); left out where the stage did not run, or the version names none.", optional=True),
    Field("vmfbench", TEXT, "Version of vmfbench that made the record.", optional=True),
)  # fmt: skip
"""Fields of results/results.jsonl that are not columns: sections, lists, and details of a value."""

FIELDS = (*COLUMNS, *OTHERS)
