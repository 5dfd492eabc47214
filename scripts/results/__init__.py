"""Turns the files of the stages into records, rows and reports."""
