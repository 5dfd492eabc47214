"""What has changed between two sets of rows: outcomes, latencies with a known error rate, sizes, memory, accuracy."""
