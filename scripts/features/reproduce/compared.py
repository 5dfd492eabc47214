"""The keys of what scripts.stages.compare_executors writes, for the driver and for environments that lack its packages."""

XLA, O0 = "xla", "O0"
"""The verification of each executor: `code`, which is "" if it has no results, and `detail`."""
SAME = "same"
"""The code of the comparison of both."""
FILE = "compared.json"
