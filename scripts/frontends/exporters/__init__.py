"""Exporters: one module per capture tool, each with ``export(loaded, options)``.

A frontend in config.yaml names its exporter (the module's name here) and passes options to it. A new
frontend that uses an existing exporter needs only an entry in config.yaml. A module declares, as plain
literals that the driver reads without importing it, the fields of Exporter in scripts/config/plugins.py
(``OPTIONS``, ``REWRITES``, ``VERSIONS``, ``MEMORY_FACTOR``, ``FORKABLE``, …).
"""
