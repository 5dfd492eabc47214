"""Operator problems: many small programs through the same stages, each with an outcome of its own."""
