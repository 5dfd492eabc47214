"""The feature `profile`: dumps and profiles, and where the time of a cell goes."""

from __future__ import annotations

from scripts.features.profile.plan import ProfilePlan
from scripts.matrix.feature import Feature, Verb

FEATURE = Feature(
    "profile",
    plan=ProfilePlan,
    modules={"views": "scripts.features.profile.page_view"},
    verbs=(
        Verb(
            "why",
            "scripts.features.profile.verbs.why",
            "where the time of a CPU cell goes, by nn.Module and by dispatch, or that of its compilation",
        ),
    ),
)
