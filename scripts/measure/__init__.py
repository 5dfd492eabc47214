"""How results are compared and timed."""
