"""Parts of captured graphs as separate programs: which operator is wrong."""
