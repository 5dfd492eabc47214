"""From what the stages left to records, rows and reports."""
