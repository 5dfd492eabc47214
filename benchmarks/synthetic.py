"""Makes a checkout with a synthetic matrix of any size, whose stages are stubs, and histories of synthetic runs.

Snakefile, rules, scripts and supervisor are the real ones. Only the interpreter of the stages'
environments is replaced by a script that copies small valid files to `--out`, or beside its request, and is timed as a
program of a millisecond.
"""

from __future__ import annotations

import json
import math
import random
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import yaml

from scripts.config import expansion, settings, stages
from scripts.config.rows import Matrix
from scripts.core.tensors import Signature, TensorType
from scripts.measure.timing import machine_limits
from scripts.measure.timing.calls import Run
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample
from scripts.measure.verify.verification import Verification, Verified
from scripts.run import environments
from scripts.supervise import outcome
from scripts.supervise.environment_damage import ENVIRONMENT_MARK
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.compare import store
from tests import report_records

ROOT = Path(__file__).parents[1]
TARGETS = 4
EXPORT_ENV = "torch-mlir"

# The artifacts of each stage, by rule.
ARTIFACTS = {
    "reference": ("weights.irpa", "inputs.npz", "golden.npz", "signature.json"),
    "export": ("program.mlir", "report.json"),
    "compile": ("module.vmfb", "report.json"),
    "verify": ("verification.json",),
    "machine_limits": (machine_limits.FILE,),
}

_MODEL = """\
def get_model(): ...
def get_dummy_input(): ...
"""

_WORKER = "import time; from scripts.measure.timing import worker; worker.serve(worker.Program(lambda: time.sleep(1e-3)))"
"""Times calls of a millisecond, in place of a module."""

_INTERPRETER = """\
#!/bin/sh
case $2 in
*.time_module) exec PYTHON -c 'WORKER' ;;
*.make_reference) made="weights.irpa inputs.npz golden.npz signature.json" ;;
*.export_program) made="program.mlir report.json locations.json" ;;
*.compile_iree) made="module.vmfb report.json" ;;
*.verify_iree) made=verification.json ;;
*.measure_machine_limits) made=limits.json ;;
esac
for out; do :; done
out=${out%/request.json}
for name in $made; do cp "${0%/*}/../../templates/$name" "$out/$name"; done
"""


def make_checkout(folder: Path, cells: int) -> Matrix:
    """Fill `folder` with a checkout of at least `cells` cells, nothing of them done."""
    for name in ("workflow", "scripts", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "Snakefile", folder)
    shutil.copytree(ROOT / "workflow/profiles", folder / "profiles")
    shutil.copytree(ROOT / "models/parts", folder / "models/parts")
    for number in range(math.ceil(cells / TARGETS)):
        (folder / "models" / f"m{number:05}.py").write_text(_MODEL)
    config = _config()
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    _write_templates(folder / ".venvs" / "templates")
    for env in (EXPORT_ENV, stages.IREE_ENV):
        interpreter = folder / ".venvs" / env / "bin" / "python"
        interpreter.parent.mkdir(parents=True)
        worker = _INTERPRETER.replace("PYTHON", shlex.quote(sys.executable))
        interpreter.write_text(worker.replace("WORKER", _WORKER))
        interpreter.chmod(0o755)
        (folder / ".venvs" / env / "versions.json").write_text("{}\n")
        _record(folder, "env", env)
        for mark in (environments.made_of(env), f".venvs/{env}/{ENVIRONMENT_MARK}"):
            (folder / mark).write_text(environments.pins_digest(env))
    return expansion.expand(config, {}, folder)


def make_plain(folder: Path) -> Path:
    """A folder next to `folder` with the same files as a checkout of benchmarks/plain.smk; those of
    `results` too, where there are any."""
    plain = folder.with_name(f"{folder.name}-plain")
    for name in ("models", "envs", ".venvs", "profiles", "results"):
        shutil.copytree(folder / name, plain / name, dirs_exist_ok=True)
    shutil.copy(ROOT / "benchmarks/plain.smk", plain / "Snakefile")
    (plain / "config.yaml").write_text(yaml.safe_dump({"targets": TARGETS}))
    return plain


def fill_results(folder: Path, whole: Matrix) -> None:
    """Leave what a finished run leaves before its last job: every artifact, every status."""
    frontend = next(iter(whole.frontends))
    for model in whole.models:
        _record(folder, "reference", model)
        _record(folder, "export", f"{model}/{frontend}")
        for target in whole.targets:
            _record(folder, "compile", f"{model}/{frontend}/{target}")
            _record(folder, "verify", f"{model}/{frontend}/{target}")
    for group, rows in whole.groups().items():
        _record(folder, "time", str(group))
        ran = MemberTiming(values_ms=(1.0,) * 3, turns=9, calls=9, p50_ms=1.0)
        timing = GroupTiming(
            0.0, "{}", "", {str(row): ran for row in rows}, (PartTiming(3, (0, 1, 2)),)
        )
        timing.write(folder / stages.STAGES["time"].path(group, "timing.json"))
    for device in whole.devices():
        _record(folder, "machine_limits", device)
    logs = folder / "results" / "logs"
    logs.mkdir()
    (logs / "matrix.json").write_text(json.dumps(whole.to_json()))


def make_history(results: Path, runs: int, cells: int) -> None:
    """Fill the history of a results folder with daily runs of at least `cells` cells each: the rows of the tests, as other models.

    Each run measures all cells again, on a machine whose speed varies by 40 %. Every eighth run has a newer IREE, with which one of
    20 cells takes 0.7 to 1.4 times as long, and one of 200 fails.
    """
    results.mkdir(parents=True)
    made = [json.dumps(record) for record in report_records.many(cells)]
    for number in range(runs):
        noise, release = random.Random(number), number // 8
        with (results / "results.jsonl").open("w", encoding="utf-8") as file:
            for place, text in enumerate(made):
                record = json.loads(text)
                _measure_again(record, place, number, release, noise)
                file.write(json.dumps(record) + "\n")
        store.keep(results / "results.jsonl", "latency")


def _measure_again(record: dict, place: int, number: int, release: int, noise: random.Random) -> None:  # fmt: skip
    """Make a row one of run `number`, with release `release` of IREE."""
    factor = 1.0
    if record["experiment"]["runtime"] == "iree":
        record["versions"]["iree"] = f"3.{8 + release}.0"
        for earlier in range(1, release + 1):
            luck = random.Random(f"{place} {earlier}")
            factor *= luck.uniform(0.7, 1.4) if luck.random() < 0.05 else 1.0
            if luck.random() < 0.005 and earlier == release and record["latency"]:
                record["latency"] = record["runs"] = None
                record["outcome"] |= {"status": "error", "stage": "compile", "reason": "shared-memory-limit", "detail": "uses 65,536 bytes"}  # fmt: skip
    if latency := record["latency"]:
        machine = 1 + 0.2 * (number % 3)
        is_anchor = latency["values_ms"] == latency["anchor_ms"]
        latency["anchor_ms"] = [ms * machine * noise.gauss(1, 0.01) for ms in latency["anchor_ms"]]
        latency["values_ms"] = latency["anchor_ms"] if is_anchor else [ms * machine * factor * noise.gauss(1, 0.01) for ms in latency["values_ms"]]  # fmt: skip
        latency["ms"] *= machine * factor
        latency["started"] += 86_400.0 * number
        latency["group"] += f" {number}"


def jobs(whole: Matrix) -> int:
    """Jobs of a full run: a stage each, the groups, the limits of each device, and the aggregate."""
    cells = sum(1 for _ in whole.cells())
    builds = len(whole.models) * (1 + len(whole.frontends))
    return builds + 2 * cells + len(whole.groups()) + len(whole.devices()) + 1


def _config() -> dict:
    """The real configuration with one frontend, some CPU targets and no baselines."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    config |= {
        "models": {},
        "frontends": {
            "stub": {
                "exporter": "torch_mlir",
                "env": EXPORT_ENV,
                "options": {"dialect": "torch", "rewrites": "all"},
            }
        },
        "targets": {f"t{number}": {"backend": "llvm-cpu"} for number in range(TARGETS)},
        "baselines": {},
        "expect": {},
        "measure": {"budget_s": 0.2, "generations": 1},
    }
    settings.check(config)
    return config


def _record(folder: Path, stage: str, cell: str) -> None:
    """What the supervisor leaves of a stage that ended well."""
    status = folder / stages.status_path(stage, cell)
    status.parent.mkdir(parents=True)
    for artifact in ARTIFACTS.get(stage, ()):
        shutil.copyfile(folder / ".venvs" / "templates" / artifact, status.with_name(artifact))
    log = status.with_name("log.txt")
    log.write_text("$ stub\n")
    done = Outcome(
        status=outcome.OK,
        stage=stage,
        cell=cell,
        log=str(log.relative_to(folder)),
        command="stub",
        fingerprint="stub",
        due="stub",
    )
    status.write_text(json.dumps(asdict(done), indent=2))
    outcome.usage_path(status).write_text(json.dumps(asdict(Usage(0.1, 10.0))))


def _write_templates(folder: Path) -> None:
    """One valid file by each artifact's name."""
    folder.mkdir(parents=True)
    stubs = ("weights.irpa", "inputs.npz", "golden.npz", "program.mlir", "module.vmfb")
    for name in (*stubs, "locations.json"):
        (folder / name).write_text("stub\n")
    tensor = TensorType("[0]", (1,), "float32")
    Signature(
        model="stub",
        dtype="f32",
        batch_size=1,
        inputs=(tensor,),
        outputs=(tensor,),
        parameters=(tensor,),
        aliases={},
        options={},
        torch_version="0",
        has_fp64=False,
        rmse_vs_fp64=None,
        deterministic=True,
    ).write(folder / "signature.json")
    # The exporter's and the compiler's report go by one name; this one serves for both.
    report = {"export_s": 1.0, "compile_s": 1.0, "vmfb_bytes": 5, "dispatch_count": 1}
    (folder / "report.json").write_text(json.dumps(report))
    samples = (
        Sample(TRIAD, "torch", "f32", 10**9, (1.0,)),
        Sample(PRODUCT, "torch", "f32", 9, (1.0,)),
    )
    MachineLimits("cpu", "stub", 1, 0.0, samples).write(folder / machine_limits.FILE)
    Verified(
        device="local-task",
        device_name="stub",
        threads=1,
        verification=Verification("PASS", "", 0.0, None, None, tol=0.0),
        load_ms=1.0,
        first_call_ms=1.0,
        runs=(Run(1.0),),
        command="iree-benchmark-module --module=stub",
        flags=("--module=stub",),
    ).write(folder / "verification.json")
