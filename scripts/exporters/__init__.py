"""Exporters: one module a capture tool, each with ``export(loaded, options)``.

A frontend in config.yaml names its exporter (the module's name here) and passes it
options; a new frontend over an existing exporter is a config entry alone.
"""
