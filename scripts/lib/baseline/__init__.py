"""Baselines: what a cell runs, opened, verified and timed, whatever the runtime."""
