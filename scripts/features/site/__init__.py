"""A static site of all runs that were kept: what reaches what today, what changed, and by which release."""
