"""From a loaded model to a program whose weights are named parameters."""
