"""StableHLO programs on XLA's CPU client."""
