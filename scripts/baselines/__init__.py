"""Baseline runtimes: one module each.

A baseline in config.yaml names its runtime (the module's name here) and its device. A module has

- ``DEVICES``: the kinds of device that it runs on, a plain literal;
- ``Device(kind, threads)``: opens one (scripts/lib/torch_runtime/torch_device.py, scripts/lib/torch_runtime/xla_device.py);
- ``prepare(module)``: the callable to measure;

and may have

- ``TAKES``: keys of a baseline's entry that mean something to it alone, a plain literal;
- ``LAZY``: True where a call only traces, until a value is looked at or the call is finished;

- ``settle()``: ends what would run beside the timed calls;
- ``compile_seconds()``: seconds spent compiling so far, where its device does not count them.
"""
