"""Parts of captured graphs as programs of their own: which operator is wrong."""
