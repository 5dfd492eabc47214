"""Baseline runtimes: one module each.

A baseline in config.yaml names its runtime (the module's name here) and its device. A module declares,
as plain literals that the driver reads without importing it, what scripts/matrix/plugins.py says of
a Runtime (``DEVICES``, ``TESTS``, ``TAKES``, ``LAZY``, ``VERSIONS``, ``MEMORY_FACTOR``, ``FORKABLE``), and has

- ``Device(kind, threads)``: opens one, or raises baseline.runtime.NoDevice
  (scripts/torch_runtime has PyTorch's and PyTorch/XLA's);
- ``open_session(work, check, device)``: the cell's work, loaded and ready to be called
  (scripts/torch_runtime/runtime.py, Session); for a runtime of PyTorch models a TorchSession with
  the runtime's own ``prepare(loaded)``, which returns the callable to measure;

where it TAKES a precision

- ``eager_in_precision(work, check)``: what results in it are compared with;

and where it needs them

- ``settle()``: ends background work that would run during the timed calls;
- ``compile_ahead(session)``: compiles what the first call compiles, without starting a thread, so that the process that
  times it can be forked;
- ``compile_seconds()`` and ``compile_count()``: seconds spent compiling and compilations so far, where
  its device does not count them.
"""
