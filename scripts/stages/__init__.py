"""The entry points of rules: one command per stage, and what runs it. Nothing imports them."""
