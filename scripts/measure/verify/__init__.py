"""Compares results with golden ones, without torch."""
