"""Every aggregate of a results folder, kept; series of a value over them, and what changed in a series."""
