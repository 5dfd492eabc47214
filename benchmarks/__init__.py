"""What the workflow itself costs, measured; docs/performance.md says what came out."""
