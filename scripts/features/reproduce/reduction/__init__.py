"""Reduces a program while a failure of it stays the same."""
