"""Baseline runtimes: one module each, with ``prepare(module)``, ``settle()``, ``compile_seconds()``.

A baseline in config.yaml names its runtime (the module's name here) and its device.
"""
