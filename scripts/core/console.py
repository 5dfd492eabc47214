"""Rich's console for what may have text of others in it. Only the driver's environment has rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from scripts.core import commands


class Console(rich.console.Console):
    """A console that reads no markup in text and writes its control characters as commands.shown does. Styles have colours."""

    def __init__(self, stderr: bool = False, file: IO[str] | None = None, **options: Any) -> None:
        # The stream that commands.protect has replaced: this console writes control characters of its own.
        raw = file or getattr(sys.stderr if stderr else sys.stdout, "raw", None)
        super().__init__(stderr=stderr, file=raw, markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable."""
        for segment in super().render(renderable, options):
            is_own = (
                segment.control or segment.text == "\r"
            )  # which ends a line that is written again
            yield segment if is_own else segment._replace(text=commands.shown(segment.text))
