"""What is read after a run: coverage, failures, the page, merged and exported records."""
