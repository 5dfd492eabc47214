"""Measures what the workflow itself costs (docs/performance.md), how wrong the usual ways to time are
(docs/timing_errors.md), and which wrong results the verification rejects (docs/wrong_candidates.md)."""
