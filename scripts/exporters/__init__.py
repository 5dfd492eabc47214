"""Exporters: one module a capture tool, each with ``export(loaded, options)``.

A frontend in config.yaml names its exporter (the module's name here) and passes it options; a new
frontend over an existing exporter is a config entry alone. A module declares, as plain literals that the
driver reads without importing it, what scripts/lib/config/plugins.py says of an Exporter
(``OPTIONS``, ``REWRITES``, ``VERSIONS``, ``MEMORY_FACTOR``, ``FORKABLE``).
"""
