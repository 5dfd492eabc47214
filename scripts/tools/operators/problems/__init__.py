"""Operator problems as text, read from traces and datasets. This package does not need torch."""
