"""Baseline runtimes: one module each.

A baseline in config.yaml names its runtime (the module's name here) and its device. A module declares, as plain literals that
the driver reads without importing it, the fields of Runtime in scripts/config/plugins.py, and has

- ``Device(kind, threads)``: opens one, or raises NoDevice (scripts/baselines/sessions/torch_device.py has PyTorch's);
- ``open_session(work, device)``: the cell's work, ready to be called (Session in scripts/baselines/sessions/runtime.py); for
  a runtime of PyTorch models a TorchSession with its own ``prepare(loaded)``, which returns the callable to measure;
- ``eager_in_precision(work)``, where it TAKES a precision: what results in it are compared with;

and where it needs them

- ``settle()``: ends background work that would run during the timed calls;
- ``compile_ahead(session)``: compiles what the first call compiles, without starting a thread, so that the process that
  times it can be forked;
- ``compile_seconds()`` and ``compile_count()``: seconds spent compiling and compilations so far, where
  its device does not count them.
"""
