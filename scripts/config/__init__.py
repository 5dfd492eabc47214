"""Reads and checks the configuration and expands it into the matrix."""
