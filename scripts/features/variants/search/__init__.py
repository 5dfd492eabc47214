"""The search for the fastest of many ways to compile a model."""
