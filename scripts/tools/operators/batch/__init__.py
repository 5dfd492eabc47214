"""Run many small programs in one job, each with its own outcome."""
