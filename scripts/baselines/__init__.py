"""Baseline runtimes: one module each, with ``prepare(model, device)``.

A baseline in config.yaml names its runtime (the module's name here) and its device.
"""
