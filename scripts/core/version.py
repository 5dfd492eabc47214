"""The version of vmfbench: that of the wheel, of `vmfbench --version` and of the records that it makes."""

VERSION = "0.1.0"
