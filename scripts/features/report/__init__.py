"""What is read after a run: coverage, failures, the page, plots, merged and exported records."""
