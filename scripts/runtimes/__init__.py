"""IREE's compiler and runtime, and XLA's CPU client."""
