"""The core is complete without any feature: conv is verified and timed, and is a row of latency.csv."""

import shutil

from scripts.features import registry
from tests.checkouts import EAGER, ON_CPU, keep_models


def test_conv_is_verified_and_timed_without_any_feature(make_checkout):
    checkout = make_checkout("core", models={}, targets=ON_CPU, baselines=EAGER)
    keep_models(checkout, "conv")
    for name in registry.NAMES:
        shutil.rmtree(checkout.path / "scripts/features" / name)
        (checkout.path / f"workflow/rules/{name}.smk").unlink(missing_ok=True)
    file = checkout.path / "scripts/features/registry.py"
    text = file.read_text(encoding="utf-8")
    begin, end = text.index("NAMES = "), text.index('"""The packages')
    file.write_text(f"{text[:begin]}NAMES: tuple[str, ...] = ()\n{text[end:]}", encoding="utf-8")
    checkout.snakemake(
        "--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-torch"
    )
    rows = {row["runtime"]: (row["status"], bool(row["latency_ms"])) for row in checkout.rows()}
    assert rows == {"iree": ("ok", True), "eager": ("ok", True)}
