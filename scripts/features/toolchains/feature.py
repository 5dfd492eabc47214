"""The feature `toolchains`: versions, wheels or local builds that differ from what envs/ pins."""

from __future__ import annotations

from scripts.features.toolchains import toolchain_environments
from scripts.features.toolchains.toolchain_environments import Environments
from scripts.matrix.feature import Feature

FEATURE = Feature(
    "toolchains", toolchains=toolchain_environments.selected, environments=Environments
)
