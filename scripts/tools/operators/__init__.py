"""Operator problems: many small programs through the same stages, each with a separate outcome."""
