"""Timing: when to stop, the results, and the load and speed of the machine."""
