"""IREE's compiler flags, tools, runtime sessions and benchmark output."""
