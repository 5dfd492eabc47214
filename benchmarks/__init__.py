"""What the workflow itself costs (docs/performance.md), how wrong usual timings are (docs/timing.md), and
what the verification fails (docs/wrong_candidates.md), measured."""
