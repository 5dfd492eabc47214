"""Measuring time: when to stop, what was measured, what else the machine did."""
