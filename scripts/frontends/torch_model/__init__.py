"""Reads, loads and counts model files, and runs models eagerly for golden results."""
