"""Stage command lines: one thin module a rule, each usable by hand (``--help``)."""
