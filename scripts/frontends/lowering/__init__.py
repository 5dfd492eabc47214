"""Turns a loaded model into a program whose weights are named parameters."""
