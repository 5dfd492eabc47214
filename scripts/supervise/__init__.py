"""A stage as a child process: limits, log, outcome."""
