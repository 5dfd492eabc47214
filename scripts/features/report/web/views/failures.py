"""Failures by cause: clusters with their cells, an example, a command, remedies, and what they block."""

from __future__ import annotations

from typing import Any

from scripts.features.report.web.details import FAILED_CHARS, end_of
from scripts.features.report.web.source import Source, View
from scripts.features.variants import remedies
from scripts.records.clusters import Cluster, clusters


def select(source: Source) -> dict[str, Any]:
    """Return the clusters of all failures."""
    return {"clusters": [_cluster(source, one) for one in clusters(source.records)]}


def _cluster(source: Source, of: Cluster) -> dict[str, Any]:
    """Return a cluster with its first failure as the example."""
    example = of.failures[0]
    return {
        "stage": of.stage,
        "reason": of.reason,
        "signature": of.signature,
        "statuses": sorted({one.status for one in of.failures}),
        "made_good": of.is_made_good,
        "cells": [[one.cell, one.status, one.remedy, one.tried] for one in of.failures],
        "example": {
            "cell": example.cell,
            "detail": example.detail,
            "command": example.command,
            "log": example.log,
            "log_end": end_of(source.root / example.log, FAILED_CHARS),
        },
        "remedies": known_remedies(of),
        "blocks": [[model, target, by] for (model, target), by in of.blocks.items()],
    }


VIEW = View("failures", "Failures", select)


def known_remedies(cluster: Cluster) -> list[tuple[str, str]]:
    """Return the remedies of workflow/remedies.yaml that are for failures with the reason of a cluster, each
    with what it does."""
    if cluster.stage != "compile":
        return []
    table = remedies.table()
    return [
        (name, one.does) for name, one in table.remedies.items() if cluster.reason in one.reasons
    ]
