"""The limits of a machine: memory bandwidth and FLOP/s, and which share of them a row reaches."""
