"""The schema of a record: the fields of the table, and the rules that are about several of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scripts.lib.config import schemas
from scripts.lib.report import fields
from scripts.lib.report.columns import FIELDS
from scripts.lib.report.fields import Field


def schema(table: Iterable[Field] = FIELDS) -> dict[str, Any]:
    """The JSON Schema that every line of results.jsonl is held to."""
    return schemas.read("record") | fields.properties(table)
