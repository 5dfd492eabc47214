"""Operator problems in torch: inputs, eager results, and functions for the lowering paths."""
