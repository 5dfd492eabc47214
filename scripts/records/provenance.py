"""The provenance of rows: devices, versions, times, models and configuration."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.matrix.choices import BASES
from scripts.records import speedups
from scripts.timing.ratios import UNDECIDED, Interval

Record = Mapping[str, Any]

PACKAGES = {"torch": "PyTorch", "torch_xla": "PyTorch/XLA", "iree": "IREE", "python": "Python"}
"""Display names of packages by their keys in `versions`; "frontend" is shown as the exporter."""


@dataclass
class Provenance:
    """Collected record by record, in the order of the records.

    `devices`: (kind, name, threads) of all devices that were used. `versions`: versions by package.
    `measured`: rows with a latency. `started`: when the first and the last of them was timed, in seconds since the epoch.
    `ratios`, `decided`: speed-ups over eager and inductor, and those whose interval says faster, slower or same.
    `models`: options by name of the model. `entries`: for each kind (frontends, targets, baselines), the options of each
    entry of the configuration by name; an entry has several if its options differ between models.
    """

    rows: int = 0
    devices: dict[tuple[str, str, int | None], None] = field(default_factory=dict)
    versions: dict[str, set[str]] = field(default_factory=dict)
    started: tuple[float, float] | None = None
    measured: int = 0
    ratios: int = 0
    decided: int = 0
    models: dict[str, str] = field(default_factory=dict)
    entries: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Add one record."""
        self.rows += 1
        if "model" in record:  # the record of an operator problem has none
            self.models.setdefault(record["model"]["name"], options_of(record))
        self._add_versions(record)
        self._add_entries(record["experiment"])
        if record["latency"]:
            self._add_latency(record)

    @property
    def when(self) -> str:
        """When the first and the last row was timed, in UTC; "" if nothing was."""
        if self.started is None:
            return ""
        first, last = (datetime.datetime.fromtimestamp(at, datetime.UTC) for at in self.started)
        until = f"{last:%H:%M}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M}"
        return f"{first:%Y-%m-%d %H:%M} to {until} UTC"

    @property
    def where(self) -> list[str]:
        """Such as `cpu: AMD EPYC, 2 threads`, for each device."""
        return [
            f"{kind}: {name}" + (f", {threads} threads" if threads else "")
            for kind, name, threads in sorted(self.devices, key=str)
        ]

    @property
    def with_what(self) -> list[str]:
        """Such as `IREE 3.13.0`, for each package."""
        return [
            f"{name} {', '.join(sorted(numbers))}"
            for name, numbers in sorted(self.versions.items())
        ]

    def _add_versions(self, record: Record) -> None:
        called = {**PACKAGES, "frontend": record["experiment"].get("exporter") or "frontend"}
        for package, version in record["versions"].items():
            if version and not package.endswith("_build"):
                self.versions.setdefault(called.get(package, package), set()).add(version)

    def _add_latency(self, record: Record) -> None:
        run, latency = record["run"], record["latency"]
        device = record["experiment"]["device"], run["device_name"] or "", run["threads"]
        self.devices[device] = None
        self.measured += 1
        known = (latency["started"], *(self.started or ()))
        self.started = min(known), max(known)
        for base in BASES:
            value, low, high = (latency[f"speedup_vs_{base}{end}"] for end in ("", "_low", "_high"))
            if value is None or speedups.runtime_of(record) == base:
                continue
            self.ratios += 1
            if low is not None:
                self.decided += Interval(value, low, high).verdict != UNDECIDED

    def _add_entries(self, experiment: Mapping[str, Any]) -> None:
        if experiment["runtime"] != "iree":
            own = "" if experiment["precision"] == "none" else experiment["precision"]
            compile_ = pairs(experiment.get("compile") or {})
            words = (
                experiment["runtime"],
                experiment["device"],
                own,
                experiment["xla_flags"],
                compile_,
            )
            self._add_entry("baselines", experiment["target"] or experiment["runtime"], *words)
            return
        options = pairs(experiment.get("exporter_options") or {})
        self._add_entry("frontends", experiment["frontend"], experiment.get("exporter"), options)
        flags = " ".join(experiment.get("flags") or ())
        arch, level = experiment.get("arch"), experiment.get("opt_level")
        self._add_entry("targets", experiment["target"], experiment["backend"], arch, level, flags)

    def _add_entry(self, kind: str, name: str, *words: str | None) -> None:
        descriptions = self.entries.setdefault(kind, {}).setdefault(name, [])
        if (shown := ", ".join(filter(None, words))) not in descriptions:
            descriptions.append(shown)


def options_of(record: Record) -> str:
    """Return the options that a model was built with, and its depth.

    If its reference failed, these are the options of its entry.
    """
    reference = record["reference"]
    options = reference.get("resolved") or record["model"]["options"]
    depth = {key: reference[key] for key in ("layers", "vocab_size") if key in reference}
    return pairs({**options, **depth})


def pairs(options: Mapping[str, Any]) -> str:
    """Return options as text, such as `size=block, seq_len=128`."""
    return ", ".join(f"{key}={value}" for key, value in options.items())
