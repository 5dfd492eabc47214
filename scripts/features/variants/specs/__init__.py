"""Tuning specs: lowering configurations for single dispatches in place of those that the compiler chooses."""
