"""What a lowering path does not support."""


class UnsupportedProgram(Exception):
    """A program that this lowering path does not support; names the construct."""
