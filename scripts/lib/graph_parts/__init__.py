"""Parts of captured graphs as programs of their own: which operator is wrong, and which ones are slow."""
