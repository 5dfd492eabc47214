"""From a model file to a program: load, capture, lower, export."""
