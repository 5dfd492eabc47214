"""Differential fuzzing: random graphs of operators through a lowering path, judged by eager."""
