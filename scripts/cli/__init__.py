"""The command `vmfbench` and its verbs."""

# Relative: installations of a checkout from before the folder `launcher` import this one as `vmfbench`.
from .launcher import main as main
