"""Failures by cause: clusters with their cells, an example, a command, remedies, and what they block."""

from __future__ import annotations

from typing import Any

from scripts.lib.report.clusters import Cluster, clusters, known_remedies
from scripts.lib.report.web.details import FAILED_CHARS, end_of
from scripts.lib.report.web.source import Source, View


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
